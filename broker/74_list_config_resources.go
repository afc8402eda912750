package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/acl"
)

// ListConfigResources (74), v0 to v1.
//
// Behaviour: package config.
//   - v0 lists client metrics subscriptions; v1 resources of the types that are asked for, groups only where something is set for them.

const listConfigResourcesKey = 74

func init() {
	handlers[listConfigResourcesKey] = needing(locked((*Cluster).listConfigResources),
		onCluster(acl.DescribeConfigs, nil),
	)
}

func (c *Cluster) listConfigResources(_ *request, q *kmsg.ListConfigResourcesRequest) kmsg.Response {
	return c.config.ListConfigResources(q)
}
