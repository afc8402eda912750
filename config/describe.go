package config

import (
	"maps"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol/errorcode"
)

// malformed is the message of error 42 where Kafka gives none of its own.
const malformed = "This most likely occurs because of a request being malformed by the client library or the message was sent to an incompatible broker. See the broker logs for more details."

// refusal is an error code with a message; a nil message is null.
type refusal struct {
	code    int16
	message *string
}

func refuse(code int16, message string) *refusal { return &refusal{code, &message} }

// DescribeConfigs (32) answers on the node that received the request. Resources stand in the answer as in the request,
// a resource named twice twice; keys in Kafka's order, a key named twice once, unknown ones not at all.
// Source: core ConfigHelper.scala.
func (s *State) DescribeConfigs(nodeID int32, req *kmsg.DescribeConfigsRequest) *kmsg.DescribeConfigsResponse {
	resp := req.ResponseKind().(*kmsg.DescribeConfigsResponse)
	for _, r := range req.Resources {
		d := describer{s, nodeID, req.IncludeSynonyms, req.IncludeDocumentation, r.ConfigNames}
		out := kmsg.NewDescribeConfigsResponseResource()
		out.ResourceType, out.ResourceName = r.ResourceType, r.ResourceName
		configs, failed := d.resource(r.ResourceType, r.ResourceName)
		out.ErrorMessage = kmsg.StringPtr("")
		if failed != nil {
			out.ErrorCode, out.ErrorMessage = failed.code, failed.message
		}
		out.Configs = configs
		resp.Resources = append(resp.Resources, out)
	}
	return resp
}

type describer struct {
	*State
	node           int32
	synonyms, docs bool
	names          []string // empty for all
}

type (
	entry   = kmsg.DescribeConfigsResponseResourceConfig
	synonym = kmsg.DescribeConfigsResponseResourceConfigConfigSynonym
)

func (d *describer) resource(resource kmsg.ConfigResourceType, name string) ([]entry, *refusal) {
	switch resource {
	case kmsg.ConfigResourceTypeTopic:
		if err := checkTopicName(name); err != nil {
			return nil, refuse(errorcode.InvalidTopicException, err.Error())
		}
		if !d.existing.TopicExists(name) {
			return nil, refuse(errorcode.UnknownTopicOrPartition, "")
		}
		return d.scope(d.Topic(d.node, name), d.topics[name], kmsg.ConfigSourceDynamicTopicConfig), nil
	case kmsg.ConfigResourceTypeBroker:
		if name == "" {
			return d.allBrokers(), nil
		}
		if failed := d.thisNode(name, "Broker id must be an integer, but it is: ", " or empty string, but received "); failed != nil {
			return nil, failed
		}
		return d.broker(), nil
	case kmsg.ConfigResourceTypeBrokerLogger:
		if name == "" {
			return nil, refuse(errorcode.InvalidRequest, "Broker id must not be empty")
		}
		if failed := d.thisNode(name, "Broker id must be an integer, but it is: ", " but received "); failed != nil {
			return nil, failed
		}
		return d.loggers(), nil
	case kmsg.ConfigResourceTypeClientMetrics:
		if name == "" {
			return nil, refuse(errorcode.InvalidRequest, "Client metrics subscription name must not be empty")
		}
		return d.scope(d.ClientMetrics(name), d.metrics[name], kmsg.ConfigSourceClientMetricsConfig), nil
	case kmsg.ConfigResourceTypeGroupConfig:
		if name == "" {
			return nil, refuse(errorcode.InvalidRequest, "Group name must not be empty")
		}
		return d.scope(d.Group(d.node, name), d.groups[name], kmsg.ConfigSourceGroupConfig), nil
	}
	return nil, refuse(errorcode.InvalidRequest, malformed)
}

// thisNode refuses the name of another node than the one asked.
func (d *describer) thisNode(name, notInteger, butReceived string) *refusal {
	id, err := strconv.ParseInt(name, 10, 32)
	if err != nil {
		return refuse(errorcode.InvalidRequest, notInteger+name)
	}
	if int32(id) != d.node {
		return refuse(errorcode.InvalidRequest, "Unexpected broker id, expected "+strconv.Itoa(int(d.node))+butReceived+strconv.Itoa(int(id)))
	}
	return nil
}

func (d *describer) wants(name string) bool {
	return len(d.names) == 0 || slices.Contains(d.names, name)
}

// described gives the keys of a scope in the order of an answer: first the internal ones that are set, then the others.
func (s *State) described(scope Scope, set map[string]string) []*Key {
	var hidden []string
	size := len(groupSynonyms) // a group's map has these and what else is set
	for name := range set {
		if _, ok := groupSynonyms[name]; !ok {
			size++
		}
	}
	var keys []*Key
	for _, k := range Keys(scope) {
		if !has(s.line, k) {
			continue
		}
		if !k.Internal {
			keys = append(keys, k)
		} else if _, ok := set[k.Name]; ok {
			hidden = append(hidden, k.Name)
		}
	}
	hiddenKeys := make([]*Key, len(hidden))
	for i, name := range hashOrder(hidden, size) {
		hiddenKeys[i] = Lookup(scope, name)
	}
	return append(hiddenKeys, keys...)
}

// scope describes a topic, group or client metrics subscription.
func (d *describer) scope(v *Values, set map[string]string, source kmsg.ConfigSource) []entry {
	var out []entry
	for _, k := range d.described(v.scope, set) {
		if !d.wants(k.Name) {
			continue
		}
		var syns []synonym
		text, notNull := v.Text(k.Name)
		if _, ok := set[k.Name]; ok {
			syns = append(syns, newSynonym(k.Name, &text, source))
		}
		if k.BrokerSynonym != "" && (k.Scope != ScopeGroup || d.line.Traits().GroupsFallBackToBrokers) {
			syns = append(syns, d.brokerSynonyms(k.BrokerSynonym)...)
		} else if k.Scope == ScopeGroup {
			syns = append(syns, newSynonym(k.Name, k.Default, kmsg.ConfigSourceDefaultConfig))
		}
		e := d.entry(k, k.Name, syns)
		if notNull {
			e.Value = &text
		}
		out = append(out, e)
	}
	return out
}

// entry makes an entry without a value; its source is that of its first synonym.
func (d *describer) entry(k *Key, name string, syns []synonym) entry {
	e := kmsg.NewDescribeConfigsResponseResourceConfig()
	e.Name, e.Source = name, kmsg.ConfigSourceDefaultConfig
	if len(syns) > 0 {
		e.Source = syns[0].Source
	}
	if d.synonyms {
		e.ConfigSynonyms = syns
	}
	if k != nil {
		e.ConfigType = kmsg.ConfigType(k.Type)
		if d.docs && !k.runtimeOnly {
			doc := k.Doc()
			e.Documentation = &doc
		}
	}
	return e
}

func newSynonym(name string, value *string, source kmsg.ConfigSource) synonym {
	y := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
	y.Name, y.Value, y.Source = name, value, source
	return y
}

// brokerSynonyms lists where a broker key has values, in the order of precedence. The list begins at the key's own
// name: while log.retention.ms itself is not set, log.retention.hours is not listed for it.
func (d *describer) brokerSynonyms(own string) []synonym {
	n := d.nodes[d.node]
	names := brokerSynonyms(own)
	hidden := hidesValue(brokerKey(d.line, own))
	var syns []synonym
	add := func(name, value string, source kmsg.ConfigSource) {
		switch {
		case len(syns) == 0 && name != own:
		case hidden:
			syns = append(syns, newSynonym(name, nil, source))
		default:
			syns = append(syns, newSynonym(name, &value, source))
		}
	}
	for _, layer := range []struct {
		values map[string]string
		source kmsg.ConfigSource
	}{{n.dynamic, kmsg.ConfigSourceDynamicBrokerConfig}, {d.forAll, kmsg.ConfigSourceDynamicDefaultBrokerConfig}, {n.static, kmsg.ConfigSourceStaticBrokerConfig}} {
		for _, name := range names {
			if value, ok := layer.values[name]; ok {
				add(name, value, layer.source)
			}
		}
	}
	for _, name := range names {
		if k := Lookup(ScopeBroker, name); has(d.line, k) && k.Default != nil && !k.runtimeOnly {
			add(name, *k.Default, kmsg.ConfigSourceDefaultConfig)
		}
	}
	return syns
}

// hidesValue tells that values are not answered: passwords, and keys that Kafka does not know.
func hidesValue(k *Key) bool { return k == nil || k.Sensitive() }

// broker describes the node: keys that are set though internal or unknown first.
func (d *describer) broker() []entry {
	n := d.nodes[d.node]
	set := maps.Clone(n.static)
	maps.Copy(set, d.forAll)
	maps.Copy(set, n.dynamic)
	var names []string
	for name := range set {
		if k := Lookup(ScopeBroker, name); !has(d.line, k) || k.Internal {
			names = append(names, name)
		}
	}
	hashOrder(names, len(set))
	for _, k := range Keys(ScopeBroker) {
		if has(d.line, k) && !k.Internal {
			names = append(names, k.Name)
		}
	}
	values := d.Broker(d.node)
	var out []entry
	for _, name := range names {
		if !d.wants(name) {
			continue
		}
		text, ok := set[name]
		if has(d.line, Lookup(ScopeBroker, name)) {
			text, ok = values.Text(name)
		}
		out = append(out, d.brokerEntry(name, text, ok, d.brokerSynonyms(name)))
	}
	return out
}

// allBrokers describes what is set for all brokers.
func (d *describer) allBrokers() []entry {
	var out []entry
	for _, name := range hashOrder(slices.Collect(maps.Keys(d.forAll)), 0) {
		if !d.wants(name) {
			continue
		}
		text := d.forAll[name]
		y := newSynonym(name, &text, kmsg.ConfigSourceDynamicDefaultBrokerConfig)
		if hidesValue(brokerKey(d.line, name)) {
			y.Value = nil
		}
		out = append(out, d.brokerEntry(name, text, true, []synonym{y}))
	}
	return out
}

func (d *describer) brokerEntry(name, text string, notNull bool, syns []synonym) entry {
	k := brokerKey(d.line, name)
	e := d.entry(k, name, syns)
	e.ReadOnly = k == nil || k.Dynamic == ReadOnly || k.Name != name
	e.IsSensitive = hidesValue(k)
	if notNull && !e.IsSensitive {
		e.Value = &text
	}
	return e
}

// loggers describes the node's loggers.
func (d *describer) loggers() []entry {
	var out []entry
	for name, level := range d.nodes[d.node].loggers {
		if d.wants(name) {
			e := kmsg.NewDescribeConfigsResponseResourceConfig()
			e.Name, e.Value, e.Source, e.Documentation = name, &level, kmsg.ConfigSourceDynamicBrokerLoggerConfig, kmsg.StringPtr("")
			out = append(out, e)
		}
	}
	return out
}
