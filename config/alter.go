package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol/errorcode"
)

// maxValue bounds a stored value, in UTF-16 units.
const maxValue = 32767

const tooLong = "The configuration value cannot be added because it exceeds the maximum value size of 32767 bytes."

// op is one requested operation on a key of a resource.
type op struct {
	key   string
	kind  kmsg.IncrementalAlterConfigOp
	value *string
}

// request is what both altering APIs ask for one resource.
type request struct {
	resource kmsg.ConfigResourceType
	name     string
	ops      []op
	replace  bool // AlterConfigs: what is not named is removed
}

// IncrementalAlterConfigs (44) applies a request that the node received, unless it only validates, and gives the
// answer, in the order of the request, with the changes to store. A resource that is refused changes nothing and does
// not stop the others.
// Source: core ConfigAdminManager.scala and metadata ConfigurationControlManager.java.
func (s *State) IncrementalAlterConfigs(nodeID int32, req *kmsg.IncrementalAlterConfigsRequest) (*kmsg.IncrementalAlterConfigsResponse, []Change) {
	var requests []request
	for _, r := range req.Resources {
		q := request{resource: r.ResourceType, name: r.ResourceName}
		for _, c := range r.Configs {
			q.ops = append(q.ops, op{c.Name, c.Op, c.Value})
		}
		requests = append(requests, q)
	}
	resp := req.ResponseKind().(*kmsg.IncrementalAlterConfigsResponse)
	refusals, changes := s.alter(nodeID, requests, req.ValidateOnly)
	for i, q := range requests {
		out := kmsg.NewIncrementalAlterConfigsResponseResource()
		out.ResourceType, out.ResourceName = q.resource, q.name
		if refusals[i] != nil {
			out.ErrorCode, out.ErrorMessage = refusals[i].code, refusals[i].message
		}
		resp.Resources = append(resp.Resources, out)
	}
	return resp, changes
}

// AlterConfigs (33) is IncrementalAlterConfigs with one difference: what is set for a resource and not named is removed.
func (s *State) AlterConfigs(nodeID int32, req *kmsg.AlterConfigsRequest) (*kmsg.AlterConfigsResponse, []Change) {
	var requests []request
	for _, r := range req.Resources {
		q := request{resource: r.ResourceType, name: r.ResourceName, replace: true}
		for _, c := range r.Configs {
			q.ops = append(q.ops, op{c.Name, kmsg.IncrementalAlterConfigOpSet, c.Value})
		}
		requests = append(requests, q)
	}
	resp := req.ResponseKind().(*kmsg.AlterConfigsResponse)
	refusals, changes := s.alter(nodeID, requests, req.ValidateOnly)
	for i, q := range requests {
		out := kmsg.NewAlterConfigsResponseResource()
		out.ResourceType, out.ResourceName = q.resource, q.name
		if refusals[i] != nil {
			out.ErrorCode, out.ErrorMessage = refusals[i].code, refusals[i].message
		}
		resp.Resources = append(resp.Resources, out)
	}
	return resp, changes
}

func (s *State) alter(nodeID int32, requests []request, validateOnly bool) ([]*refusal, []Change) {
	type id struct {
		resource kmsg.ConfigResourceType
		name     string
	}
	seen := map[id]int{}
	for _, q := range requests {
		seen[id{q.resource, q.name}]++
	}
	refusals := make([]*refusal, len(requests))
	var changes []Change
	for i, q := range requests {
		if seen[id{q.resource, q.name}] > 1 {
			refusals[i] = refuse(errorcode.InvalidRequest, "Each resource must appear at most once.")
			continue
		}
		var now []Change
		if refusals[i] = q.check(); refusals[i] == nil {
			now, refusals[i] = s.alterOne(nodeID, q, validateOnly)
		}
		if refusals[i] == nil && !validateOnly {
			s.Import(now)
			changes = append(changes, now...)
		}
	}
	return refusals, changes
}

// check refuses what is wrong whatever the resource is.
func (q *request) check() *refusal {
	var nulls []string
	seen := map[string]bool{}
	for _, o := range q.ops {
		if seen[o.key] {
			return refuse(errorcode.InvalidRequest, "Error due to duplicate config keys")
		}
		seen[o.key] = true
		if o.value == nil && o.kind != kmsg.IncrementalAlterConfigOpDelete {
			nulls = append(nulls, o.key)
		}
	}
	if len(nulls) > 0 {
		return refuse(errorcode.InvalidRequest, "Null value not supported for : "+strings.Join(nulls, ", "))
	}
	return nil
}

func (s *State) alterOne(nodeID int32, q request, validateOnly bool) ([]Change, *refusal) {
	switch q.resource {
	case kmsg.ConfigResourceTypeBrokerLogger:
		if !q.replace {
			return nil, s.alterLoggers(nodeID, q, validateOnly)
		}
	case kmsg.ConfigResourceTypeBroker:
		return s.alterBroker(nodeID, q)
	case kmsg.ConfigResourceTypeTopic, kmsg.ConfigResourceTypeGroupConfig, kmsg.ConfigResourceTypeClientMetrics:
		before := s.stored(q.resource, q.name)
		next, failed := q.apply(before)
		if failed == nil {
			failed = s.checkResource(nodeID, q, next)
		}
		if failed != nil {
			return nil, failed
		}
		return difference(q, before, next), nil
	}
	return nil, refuse(errorcode.InvalidRequest, fmt.Sprintf("Unknown resource type %d", q.resource))
}

// checkResource checks all that would be set for a topic, group or client metrics subscription: the name first, then
// the values, then that the resource exists.
func (s *State) checkResource(nodeID int32, q request, next map[string]string) *refusal {
	var err error
	switch q.resource {
	case kmsg.ConfigResourceTypeTopic:
		if q.name == "" {
			return refuse(errorcode.InvalidRequest, "Default topic resources are not allowed.")
		}
		if err := checkTopicName(q.name); err != nil {
			return refuse(errorcode.InvalidTopicException, err.Error())
		}
		if err = s.checkTopic(next, s.Broker(nodeID)); err == nil && !s.existing.TopicExists(q.name) {
			return refuse(errorcode.UnknownTopicOrPartition, "The topic '"+q.name+"' does not exist.")
		}
	case kmsg.ConfigResourceTypeGroupConfig:
		if q.name == "" {
			return refuse(errorcode.InvalidRequest, "Default group resources are not allowed.")
		}
		err = s.checkGroup(next, s.Broker(nodeID))
	case kmsg.ConfigResourceTypeClientMetrics:
		if q.name == "" {
			return refuse(errorcode.InvalidRequest, "Subscription name can't be empty")
		}
		return s.checkMetrics(next)
	}
	if err != nil {
		return refuse(errorcode.InvalidConfig, err.Error())
	}
	return nil
}

// alterBroker changes what is set for the node that received the request, or for all brokers.
func (s *State) alterBroker(nodeID int32, q request) ([]Change, *refusal) {
	if q.name != "" {
		if failed := nameIsNode(q.name, nodeID, "Unexpected broker id, expected %d, but received %d"); failed != nil {
			return nil, failed
		}
	}
	before := s.stored(q.resource, q.name)
	next, failed := q.apply(before)
	if failed == nil {
		failed = s.checkBrokerChange(nodeID, q.name, next)
	}
	if failed != nil {
		return nil, failed
	}
	if failed := s.checkMinISR(q, before, next); failed != nil {
		return nil, failed
	}
	return difference(q, before, next), nil
}

// checkMinISR keeps min.insync.replicas where eligible leader replicas need it: set for all brokers, for none alone.
func (s *State) checkMinISR(q request, before, next map[string]string) *refusal {
	if !s.elr {
		return nil
	}
	_, was := before[minISRKey]
	_, is := next[minISRKey]
	named := slices.ContainsFunc(q.ops, func(o op) bool { return o.key == minISRKey })
	switch {
	case q.name != "" && named:
		return refuse(errorcode.InvalidConfig, "Broker-level min.insync.replicas cannot be altered while ELR is enabled.")
	case q.name == "" && !is && (was || named):
		return refuse(errorcode.InvalidConfig, "Cluster-level min.insync.replicas cannot be removed while ELR is enabled.")
	}
	return nil
}

// apply gives what would be set after the operations. Kafka's broker checks changes of brokers, its controller all
// others: their messages differ.
func (q *request) apply(before map[string]string) (map[string]string, *refusal) {
	next := map[string]string{}
	if !q.replace {
		maps.Copy(next, before)
	}
	for _, o := range q.ops {
		switch o.kind {
		case kmsg.IncrementalAlterConfigOpSet:
			next[o.key] = *o.value
		case kmsg.IncrementalAlterConfigOpDelete:
			delete(next, o.key)
		case kmsg.IncrementalAlterConfigOpAppend, kmsg.IncrementalAlterConfigOpSubtract:
			k, failed := q.list(o)
			if failed != nil {
				return nil, failed
			}
			next[o.key] = o.onList(k, before)
		default:
			if q.resource == kmsg.ConfigResourceTypeBroker {
				return nil, refuse(errorcode.InvalidRequest, fmt.Sprintf("Unknown operations type %d", o.kind))
			}
			return nil, &refusal{code: errorcode.UnknownServerError}
		}
		if len(utf16.Encode([]rune(next[o.key]))) > maxValue {
			return nil, refuse(errorcode.InvalidConfig, tooLong)
		}
	}
	return next, nil
}

// list gives the key of an operation on a list. Kafka's controller knows only the lists of topics.
func (q *request) list(o op) (*Key, *refusal) {
	if q.resource == kmsg.ConfigResourceTypeBroker {
		k := Lookup(ScopeBroker, o.key)
		switch {
		case k == nil:
			return nil, refuse(errorcode.InvalidConfig, "Unknown config name: "+o.key)
		case k.Type != List:
			return nil, refuse(errorcode.InvalidConfig, fmt.Sprintf("Config value %s is not allowed for config key: %s", strings.ToLower(opName(o.kind)), o.key))
		}
		return k, nil
	}
	if k := Lookup(ScopeTopic, o.key); q.resource == kmsg.ConfigResourceTypeTopic && k != nil && k.Type == List {
		return k, nil
	}
	return nil, refuse(errorcode.InvalidConfig, fmt.Sprintf("Can't %s to key %s because its type is not LIST.", opName(o.kind), o.key))
}

func opName(kind kmsg.IncrementalAlterConfigOp) string {
	if kind == kmsg.IncrementalAlterConfigOpAppend {
		return "APPEND"
	}
	return "SUBTRACT"
}

// onList adds to or takes from the list that is set, or else from the key's default, element by element.
func (o *op) onList(k *Key, before map[string]string) string {
	text, ok := before[o.key]
	if !ok && k.Default != nil {
		text = *k.Default
	}
	list := slices.DeleteFunc(splitList(text), func(e string) bool { return e == "" })
	for _, e := range strings.Split(*o.value, ",") {
		i := slices.Index(list, e)
		switch {
		case o.kind == kmsg.IncrementalAlterConfigOpAppend && i < 0:
			list = append(list, e)
		case o.kind == kmsg.IncrementalAlterConfigOpSubtract && i >= 0:
			list = slices.Delete(list, i, i+1)
		}
	}
	return strings.Join(list, ",")
}

// difference gives the changes that lead from what is set to what shall be set.
func difference(q request, before, next map[string]string) []Change {
	var changes []Change
	for _, key := range slices.Sorted(maps.Keys(before)) {
		if _, kept := next[key]; !kept {
			changes = append(changes, Change{q.resource, q.name, key, nil})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(next)) {
		value := next[key]
		if old, ok := before[key]; !ok || old != value {
			changes = append(changes, Change{q.resource, q.name, key, &value})
		}
	}
	return changes
}

// nameIsNode refuses a resource name that is not the id of the node that received the request.
func nameIsNode(name string, nodeID int32, unexpected string) *refusal {
	id, err := strconv.ParseInt(name, 10, 32)
	if err != nil {
		return refuse(errorcode.InvalidRequest, "Node id must be an integer, but it is: "+name)
	}
	if int32(id) != nodeID {
		return refuse(errorcode.InvalidRequest, fmt.Sprintf(unexpected, nodeID, id))
	}
	return nil
}
