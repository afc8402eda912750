package probe

import (
	"math/rand/v2"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// request is a request on its way.
type request struct {
	kmsg.Request
	conn        int
	least, most int16  // of its versions
	state       *state // of the member that sends it
}

// anyVersion bounds a request's versions where it can be made in all.
const anyVersion = 1 << 14

func of(q kmsg.Request) request { return request{Request: q, most: anyVersion} }

// from is a request of a member.
func from(q kmsg.Request, m member, s *state) request {
	return request{Request: q, conn: m.conn, most: anyVersion, state: s}
}

// drawn are the requests that are drawn, by how often.
var drawn = []struct {
	weight int
	make   func(*world) request
}{
	{10, (*world).produce},
	{6, (*world).fetch},
	{5, (*world).listOffsets},
	{2, (*world).offsetForLeaderEpoch},
	{3, (*world).metadata},
	{1, (*world).describeTopicPartitions},
	{2, (*world).createTopics},
	{1, (*world).deleteTopics},
	{1, (*world).createPartitions},
	{2, (*world).deleteRecords},
	{2, (*world).describeConfigs},
	{3, (*world).alterConfigs},
	{2, (*world).initProducerID},
	{1, (*world).findCoordinator},
	{4, (*world).offsetCommit},
	{4, (*world).offsetFetch},
	{1, (*world).offsetDelete},
	{5, (*world).consumerHeartbeat},
	{1, (*world).consumerDescribe},
	{1, (*world).deleteGroups},
	{6, (*world).shareHeartbeat},
	{12, (*world).shareFetch},
	{10, (*world).shareAcknowledge},
	{2, (*world).shareDescribe},
	{3, (*world).describeShareOffsets},
	{1, (*world).alterShareOffsets},
	{1, (*world).deleteShareOffsets},
}

// request draws a request.
func (w *world) request() request {
	all := 0
	for _, d := range drawn {
		all += d.weight
	}
	n := w.rand.IntN(all)
	for _, d := range drawn {
		if n -= d.weight; n < 0 {
			return d.make(w)
		}
	}
	panic("unreachable")
}

// reads tells whether a request changes nothing, so that it can be sent again.
func (x request) reads() bool {
	switch q := x.Request.(type) {
	case *kmsg.FetchRequest:
		return q.SessionID == 0 && q.SessionEpoch == -1
	case *kmsg.ListOffsetsRequest, *kmsg.OffsetForLeaderEpochRequest, *kmsg.MetadataRequest, *kmsg.DescribeTopicPartitionsRequest,
		*kmsg.DescribeConfigsRequest, *kmsg.FindCoordinatorRequest, *kmsg.OffsetFetchRequest, *kmsg.ConsumerGroupDescribeRequest,
		*kmsg.ShareGroupDescribeRequest, *kmsg.DescribeShareGroupOffsetsRequest:
		return true
	}
	return false
}

// changes tells whether a request sets something off that other parts of a broker hear of later: it goes to the controller, or a share group has partitions
// initialised for who joins.
func (x request) changes() bool {
	switch q := x.Request.(type) {
	case *kmsg.ShareGroupHeartbeatRequest:
		return q.MemberEpoch == 0
	case *kmsg.CreateTopicsRequest, *kmsg.DeleteTopicsRequest, *kmsg.CreatePartitionsRequest, *kmsg.IncrementalAlterConfigsRequest:
		return true
	}
	return false
}

// few draws 1, seldom 2.
func few(r *rand.Rand) int {
	if r.IntN(5) == 0 {
		return 2
	}
	return 1
}
