package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/acl"
)

// AlterConfigs (33), v0 to v2.
//
// Behaviour: package config.
//   - Replaces all that is set for a resource: what the request does not name is reset.

const alterConfigsKey = 33

func init() {
	handlers[alterConfigsKey] = needing(writing(locked((*Cluster).alterConfigs)),
		onResources(acl.AlterConfigs, acl.Topic, saysTopic),
		onResources(acl.AlterConfigs, acl.Group, saysGroup),
		onResources(acl.AlterConfigs, acl.Cluster, nil),
	)
}

func (c *Cluster) alterConfigs(r *request, q *kmsg.AlterConfigsRequest) kmsg.Response {
	p, changes := c.config.AlterConfigs(r.node.id, q)
	return c.configsChanged(r, p, changes)
}
