package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/acl"
	"kshare/protocol/errorcode"
)

// DescribeCluster (60), v0 to v2.
//
// Behaviour:
//   - EndpointType 1 is the brokers. A broker's listener answers 2, the controllers, with MISMATCHED_ENDPOINT_TYPE, any other with
//     UNSUPPORTED_ENDPOINT_TYPE; in v0, which has no such field, nothing of this can be asked.
//   - A node that is stopped, or has been cut off for broker.session.timeout.ms, is fenced: v2 lists it where asked, with IsFenced.

const describeClusterKey = 60

func init() {
	handlers[describeClusterKey] = needing(locked((*Cluster).describeCluster),
		looksItself(acl.Describe, acl.Cluster, "for ClusterAuthorizedOperations, which are 0 without").silently(),
	)
}

const (
	brokersEndpoint     = 1
	controllersEndpoint = 2
)

func (c *Cluster) describeCluster(r *request, q *kmsg.DescribeClusterRequest) kmsg.Response {
	p := response[*kmsg.DescribeClusterResponse](q)
	if q.EndpointType != brokersEndpoint {
		p.ErrorCode = errorcode.UnsupportedEndpointType
		p.ErrorMessage = kmsg.StringPtr("Unsupported endpoint type " + itoa(int(q.EndpointType)))
		if q.EndpointType == controllersEndpoint {
			p.ErrorCode = errorcode.MismatchedEndpointType
			p.ErrorMessage = kmsg.StringPtr("The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER")
		}
		return p
	}
	p.ClusterID = c.id
	p.ControllerID = c.controllerID()
	for _, n := range c.nodes {
		if !n.live() && !q.IncludeFencedBrokers {
			continue
		}
		b := kmsg.NewDescribeClusterResponseBroker()
		at := r.endpoint(n)
		b.NodeID, b.Host, b.Port, b.IsFenced = n.id, at.host, at.port, !n.live()
		p.Brokers = append(p.Brokers, b)
	}
	if q.IncludeClusterAuthorizedOperations {
		p.ClusterAuthorizedOperations = r.clusterOperations()
	}
	return p
}
