package config

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol/errorcode"
)

// listable are the resource types of ListConfigResources, in the order of an answer.
var listable = []kmsg.ConfigResourceType{
	kmsg.ConfigResourceTypeGroupConfig, kmsg.ConfigResourceTypeClientMetrics, kmsg.ConfigResourceTypeBrokerLogger, kmsg.ConfigResourceTypeBroker, kmsg.ConfigResourceTypeTopic,
}

// ListConfigResources (74) answers the resources of the types asked, all for none: every topic and broker, but only
// the groups and client metrics subscriptions for which something is set. Version 0 knows client metrics alone.
// Names stand in Kafka's order: topics by their hash code, others as in a hash map.
// Source: core KafkaApis.scala, handleListConfigResources.
func (s *State) ListConfigResources(req *kmsg.ListConfigResourcesRequest) *kmsg.ListConfigResourcesResponse {
	resp := req.ResponseKind().(*kmsg.ListConfigResourcesResponse)
	wanted := func(t kmsg.ConfigResourceType) bool {
		if req.Version == 0 {
			return t == kmsg.ConfigResourceTypeClientMetrics
		}
		return len(req.ResourceTypes) == 0 || slices.Contains(req.ResourceTypes, int8(t))
	}
	if req.Version > 0 {
		for _, t := range req.ResourceTypes {
			if !slices.Contains(listable, kmsg.ConfigResourceType(t)) {
				resp.ErrorCode = errorcode.UnsupportedVersion
				return resp
			}
		}
	}
	for _, t := range listable {
		if !wanted(t) {
			continue
		}
		for _, name := range s.resourceNames(t) {
			out := kmsg.NewListConfigResourcesResponseConfigResource()
			out.Name, out.Type = name, int8(t)
			resp.ConfigResources = append(resp.ConfigResources, out)
		}
	}
	return resp
}

func (s *State) resourceNames(t kmsg.ConfigResourceType) []string {
	var names []string
	switch t {
	case kmsg.ConfigResourceTypeTopic:
		names = slices.Clone(s.existing.TopicNames())
		slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(hashCode(a), hashCode(b)), cmp.Compare(a, b)) })
		return names
	case kmsg.ConfigResourceTypeGroupConfig:
		names = slices.Collect(maps.Keys(s.groups))
	case kmsg.ConfigResourceTypeClientMetrics:
		names = slices.Collect(maps.Keys(s.metrics))
	default:
		for id, n := range s.nodes {
			if n.added {
				names = append(names, strconv.Itoa(int(id)))
			}
		}
	}
	return hashOrder(names, len(names))
}
