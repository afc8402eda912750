package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

// AlterConfigs (33), v0 to v2.
//
// Behaviour: package config.
//   - Replaces all that is set for a resource: what the request does not name is reset.

const alterConfigsKey = 33

func init() { handlers[alterConfigsKey] = writing(locked((*Cluster).alterConfigs)) }

func (c *Cluster) alterConfigs(r *request, q *kmsg.AlterConfigsRequest) kmsg.Response {
	p, changes := c.config.AlterConfigs(r.node.id, q)
	return c.configsChanged(r, p, changes)
}
