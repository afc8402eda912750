package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/acl"
)

// DescribeConfigs (32), v1 to v4.
//
// Behaviour: package config.
//   - Topics, brokers, broker loggers, client metrics subscriptions and groups; the last two need not exist.
//   - v1+ names the source of each value and, where asked, the synonyms that it could have come from; v3+ type and documentation.

const describeConfigsKey = 32

func init() {
	handlers[describeConfigsKey] = needing(locked((*Cluster).describeConfigs),
		onResources(acl.DescribeConfigs, acl.Topic, saysTopic),
		onResources(acl.DescribeConfigs, acl.Group, saysGroup),
		onResources(acl.DescribeConfigs, acl.Cluster, saysCluster),
	)
}

func (c *Cluster) describeConfigs(r *request, q *kmsg.DescribeConfigsRequest) kmsg.Response {
	return c.config.DescribeConfigs(r.node.id, q)
}
