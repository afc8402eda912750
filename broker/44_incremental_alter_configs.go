package broker

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/acl"
	"kshare/config"
)

// IncrementalAlterConfigs (44), v0 to v1.
//
// Behaviour: package config.
//   - Sets, deletes, appends to or subtracts from single keys. Each resource stands by itself.
//   - A change counts at once for everything that reads the configuration later.

const incrementalAlterConfigsKey = 44

func init() {
	handlers[incrementalAlterConfigsKey] = needing(writing(locked((*Cluster).incrementalAlterConfigs)),
		onResources(acl.AlterConfigs, acl.Topic, saysTopic),
		onResources(acl.AlterConfigs, acl.Group, saysGroup),
		onResources(acl.AlterConfigs, acl.Cluster, nil),
	)
}

func (c *Cluster) incrementalAlterConfigs(r *request, q *kmsg.IncrementalAlterConfigsRequest) kmsg.Response {
	p, changes := c.config.IncrementalAlterConfigs(r.node.id, q)
	return c.configsChanged(r, p, changes)
}

// configsChanged stores what a request has changed and lets it take effect.
func (c *Cluster) configsChanged(r *request, p kmsg.Response, changes []config.Change) kmsg.Response {
	if len(changes) == 0 {
		return p
	}
	c.allTopicConfigsChanged()
	if err := c.storeConfigs(changes); err != nil {
		c.log.Error("a change of configuration could not be stored", "error", err)
		r.closing = fmt.Errorf("the change of configuration could not be stored: %w", err)
	}
	return p
}
