package config

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/release"
)

// State is what one cluster's configurations are: the static ones of its nodes and what the configuration APIs set for
// all brokers, for one broker, and for topics, groups and client metrics subscriptions.
//
// A State is not safe for concurrent use; the Values that it gives are.
type State struct {
	nodes   map[int32]*node
	forAll  map[string]string // brokers' cluster-wide dynamic default
	topics  map[string]map[string]string
	groups  map[string]map[string]string
	metrics map[string]map[string]string

	line       release.Line
	elr        bool
	existing   Topics
	generation uint64
	cache      map[cacheKey]*Values
}

type node struct {
	static  map[string]string
	dynamic map[string]string
	loggers map[string]string
	added   bool // false where only stored changes are known
}

// Topics tells the topics that exist.
type Topics interface {
	TopicExists(name string) bool
	TopicNames() []string // in any order
}

// Change is one key set, or removed where Value is nil, for one resource: the content of a ConfigRecord. Resources are
// topics, brokers ("" for all), groups and client metrics subscriptions.
type Change struct {
	Resource kmsg.ConfigResourceType
	Name     string
	Key      string
	Value    *string
}

type cacheKey struct {
	scope Scope
	node  int32
	name  string
}

// NewState makes the configuration of a cluster without nodes. With eligible leader replicas (the feature
// eligible.leader.replicas.version 1, Kafka's default) min.insync.replicas is set for all brokers, to minISR, and
// cannot be removed or set for one broker (KIP-966).
func NewState(topics Topics, elr bool, minISR int32) *State {
	s := &State{
		nodes: map[int32]*node{}, forAll: map[string]string{}, topics: map[string]map[string]string{},
		groups: map[string]map[string]string{}, metrics: map[string]map[string]string{},
		line: release.Latest, elr: elr, existing: topics, cache: map[cacheKey]*Values{},
	}
	if elr {
		s.forAll[minISRKey] = strconv.Itoa(int(minISR))
	}
	return s
}

// UseLine makes the configuration that of brokers of a line of Apache Kafka: keys that it does not have are unknown. It is to be called before anything else.
func (s *State) UseLine(line release.Line) { s.line = line }

// SetEligibleLeaderReplicas switches them on or off and returns what that sets or keeps set: min.insync.replicas for all brokers, which is minISR if it was
// not set before, and for none alone.
func (s *State) SetEligibleLeaderReplicas(on bool, minISR int32) []Change {
	s.elr = on
	value, set := s.forAll[minISRKey]
	if on && !set {
		value, set = strconv.Itoa(int(minISR)), true
		s.forAll[minISRKey] = value
	}
	var changes []Change
	if set {
		changes = append(changes, Change{Resource: kmsg.ConfigResourceTypeBroker, Key: minISRKey, Value: &value})
	}
	for id, n := range s.nodes {
		if _, alone := n.dynamic[minISRKey]; on && alone {
			delete(n.dynamic, minISRKey)
			changes = append(changes, Change{Resource: kmsg.ConfigResourceTypeBroker, Name: strconv.Itoa(int(id)), Key: minISRKey})
		}
	}
	s.changed()
	return changes
}

const minISRKey = "min.insync.replicas"

// AddNode adds a node with its static configuration. node.id and broker.id become id.
func (s *State) AddNode(id int32, static *Static) {
	values := maps.Clone(static.text)
	values["node.id"], values["broker.id"] = strconv.Itoa(int(id)), strconv.Itoa(int(id))
	dynamic := map[string]string{}
	if old := s.nodes[id]; old != nil {
		dynamic = old.dynamic
	}
	s.nodes[id] = &node{static: values, dynamic: dynamic, loggers: map[string]string{rootLogger: "INFO"}, added: true}
	s.changed()
}

// RemoveNode forgets a node and what was set for it alone.
func (s *State) RemoveNode(id int32) {
	delete(s.nodes, id)
	s.changed()
}

// Generation rises with every change: what was derived from Values of an older one may be stale.
func (s *State) Generation() uint64 { return s.generation }

func (s *State) changed() {
	s.generation++
	clear(s.cache)
}

// Broker gives a node's effective values. The node must have been added.
func (s *State) Broker(id int32) *Values {
	return s.cached(cacheKey{ScopeBroker, id, ""}, func() *Values {
		n := s.nodes[id]
		return newBrokerValues(n.static, s.forAll, n.dynamic).clampIntervals()
	})
}

// Topic gives a topic's effective values on a node. The topic need not exist.
func (s *State) Topic(id int32, name string) *Values {
	if len(s.topics[name]) == 0 {
		name = ""
	}
	return s.cached(cacheKey{ScopeTopic, id, name}, func() *Values { return newTopicValues(s.Broker(id), s.topics[name]) })
}

// Group gives a group's effective values on a node, within the bounds that the node sets. The group need not exist.
func (s *State) Group(id int32, name string) *Values {
	if len(s.groups[name]) == 0 {
		name = ""
	}
	return s.cached(cacheKey{ScopeGroup, id, name}, func() *Values { return newGroupValues(s.Broker(id), s.groups[name]) })
}

// ClientMetrics gives the effective values of a client metrics subscription. It need not exist.
func (s *State) ClientMetrics(name string) *Values {
	if len(s.metrics[name]) == 0 {
		name = ""
	}
	return s.cached(cacheKey{ScopeClientMetrics, 0, name}, func() *Values { return newMetricsValues(s.metrics[name]) })
}

// Subscriptions gives the names of the client metrics subscriptions, sorted.
func (s *State) Subscriptions() []string { return slices.Sorted(maps.Keys(s.metrics)) }

func (s *State) cached(key cacheKey, compute func() *Values) *Values {
	v := s.cache[key]
	if v == nil {
		v = compute()
		s.cache[key] = v
	}
	return v
}

// TopicOverrides gives what is set for a topic itself. The map is shared: do not change it.
func (s *State) TopicOverrides(name string) map[string]string { return s.topics[name] }

// SetTopic replaces what is set for a topic, as when it is created, and gives the changes to store.
func (s *State) SetTopic(name string, overrides map[string]string) []Change {
	return s.replace(kmsg.ConfigResourceTypeTopic, name, overrides)
}

// DeleteTopic removes what is set for a topic and gives the changes to store.
func (s *State) DeleteTopic(name string) []Change { return s.SetTopic(name, nil) }

// DeleteGroup removes what is set for a group and gives the changes to store.
func (s *State) DeleteGroup(name string) []Change {
	return s.replace(kmsg.ConfigResourceTypeGroupConfig, name, nil)
}

func (s *State) replace(resource kmsg.ConfigResourceType, name string, values map[string]string) []Change {
	var changes []Change
	for _, key := range slices.Sorted(maps.Keys(s.stored(resource, name))) {
		if _, kept := values[key]; !kept {
			changes = append(changes, Change{resource, name, key, nil})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		value := values[key]
		changes = append(changes, Change{resource, name, key, &value})
	}
	s.Import(changes)
	return changes
}

// Import applies changes without checking them, as when a stored state is read again. Changes of a broker that is not
// a node of the cluster are kept for when it is added.
func (s *State) Import(changes []Change) {
	for _, c := range changes {
		s.apply(c)
		s.generation++
	}
}

func (s *State) apply(c Change) {
	switch c.Resource {
	case kmsg.ConfigResourceTypeTopic:
		s.applyTo(s.topics, ScopeTopic, c)
	case kmsg.ConfigResourceTypeGroupConfig:
		s.applyTo(s.groups, ScopeGroup, c)
	case kmsg.ConfigResourceTypeClientMetrics:
		s.applyTo(s.metrics, ScopeClientMetrics, c)
	case kmsg.ConfigResourceTypeBroker:
		target := s.forAll
		if c.Name != "" {
			id, err := strconv.ParseInt(c.Name, 10, 32)
			if err != nil {
				return
			}
			if s.nodes[int32(id)] == nil {
				s.nodes[int32(id)] = &node{static: map[string]string{}, dynamic: map[string]string{}}
			}
			target = s.nodes[int32(id)].dynamic
		}
		set(target, c)
		clear(s.cache) // values of all kinds come from brokers
	}
}

func (s *State) applyTo(resources map[string]map[string]string, scope Scope, c Change) {
	values := resources[c.Name]
	if values == nil {
		values = map[string]string{}
		resources[c.Name] = values
	}
	set(values, c)
	if len(values) == 0 {
		delete(resources, c.Name)
	}
	delete(s.cache, cacheKey{scope, 0, c.Name})
	for id := range s.nodes {
		delete(s.cache, cacheKey{scope, id, c.Name})
	}
}

func set(values map[string]string, c Change) {
	if c.Value == nil {
		delete(values, c.Key)
	} else {
		values[c.Key] = *c.Value
	}
}

// Export gives everything that was set at run time as changes, sorted: Import of them into a new State gives the same.
func (s *State) Export() []Change {
	var changes []Change
	add := func(resource kmsg.ConfigResourceType, name string, values map[string]string) {
		for key, value := range values {
			changes = append(changes, Change{resource, name, key, &value})
		}
	}
	for name, values := range s.topics {
		add(kmsg.ConfigResourceTypeTopic, name, values)
	}
	for name, values := range s.groups {
		add(kmsg.ConfigResourceTypeGroupConfig, name, values)
	}
	for name, values := range s.metrics {
		add(kmsg.ConfigResourceTypeClientMetrics, name, values)
	}
	add(kmsg.ConfigResourceTypeBroker, "", s.forAll)
	for id, n := range s.nodes {
		add(kmsg.ConfigResourceTypeBroker, strconv.Itoa(int(id)), n.dynamic)
	}
	slices.SortFunc(changes, func(a, b Change) int {
		return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Key, b.Key))
	})
	return changes
}

// stored gives what is set for a resource, nil for nothing. A broker's name is its id.
func (s *State) stored(resource kmsg.ConfigResourceType, name string) map[string]string {
	switch resource {
	case kmsg.ConfigResourceTypeTopic:
		return s.topics[name]
	case kmsg.ConfigResourceTypeGroupConfig:
		return s.groups[name]
	case kmsg.ConfigResourceTypeClientMetrics:
		return s.metrics[name]
	case kmsg.ConfigResourceTypeBroker:
		if name == "" {
			return s.forAll
		}
		if id, err := strconv.ParseInt(name, 10, 32); err == nil && s.nodes[int32(id)] != nil {
			return s.nodes[int32(id)].dynamic
		}
	}
	return nil
}
