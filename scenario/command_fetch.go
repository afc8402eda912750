package scenario

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func init() {
	register(&command{
		name: "fetch",
		usage: "fetch GROUP MEMBER [PARTITION OFFSETS=TYPE,... ...] [wait=500ms] [min=1] [max=BYTES] [records=500] [batch=500] [mode=batch_optimized|record_limit] [partitions=P,...] " +
			"[epoch=N] [renew=yes] [node=N] [version=N]",
		summary: "Acquires records (ShareFetch) of the assigned partitions, or of those named, and acknowledges others on the way. The share session goes on by itself: its epoch, what is added to " +
			"and forgotten from its partitions; epoch=N sends another one.",
		example: `
topic orders
config group workers share.auto.offset.reset=earliest
produce orders-0 a b c
join workers m1 orders
fetch workers m1 records=2 mode=record_limit
fetch workers m1 orders-0 0=accept 1=release
fetch workers m1 epoch=9
----
orders: 1 partition
workers: ok
orders-0: offsets 0-2
m1: epoch 3, assigned orders-0
orders-0: acquired 0-1 count 1, lock 30s
  0 a | 1 b
orders-0: acquired 1 count 2, 2 count 1, lock 30s; acknowledged
  1 b | 2 c
INVALID_SHARE_SESSION_EPOCH (123)
`,
		optionNames: []string{"wait", "min", "max", "records", "batch", "mode", "partitions", "epoch", "renew", "node", "version"},
		freeWords:   true, least: 2, most: -1, waits: true,
		check: func(c *call) error {
			_, err := parseFetch(c)
			return err
		},
		run: shareFetch,
	})
}

// fetchOptions are what a fetch command asks for.
type fetchOptions struct {
	acks                     []acknowledgements
	wait                     time.Duration
	min, max, records, batch int64
	mode                     int8
	partitions               []topicPartition // nil for the assigned ones
	epoch                    *int32
	renew                    bool
}

var acquireModes = map[string]int8{"batch_optimized": 0, "record_limit": 1}

func parseFetch(c *call) (o fetchOptions, err error) {
	if o.acks, err = c.acknowledgements(2); err != nil {
		return o, err
	}
	if o.renew, err = c.flag("renew"); err != nil {
		return o, err
	}
	o.wait, o.min, o.max, o.records, o.batch = 500*time.Millisecond, 1, 50<<20, 500, 500
	if o.renew {
		o.wait, o.min, o.max, o.records = 0, 0, 0, 0
	}
	if o.wait, err = c.durationOption("wait", o.wait); err != nil {
		return o, err
	}
	for key, n := range map[string]*int64{"min": &o.min, "max": &o.max, "records": &o.records, "batch": &o.batch} {
		if *n, err = c.numberOption(key, *n, -1<<31, 1<<31-1); err != nil {
			return o, err
		}
	}
	if m, ok := c.options["mode"]; ok {
		if o.mode, ok = acquireModes[m]; !ok {
			n, err := number(m, -128, 127)
			if err != nil {
				return o, mistakef("mode=%s: batch_optimized, record_limit or a number", m)
			}
			o.mode = int8(n)
		}
	}
	if p, ok := c.options["partitions"]; ok {
		o.partitions = []topicPartition{}
		if p != "" {
			if o.partitions, err = partitionList(p); err != nil {
				return o, err
			}
		}
	}
	o.epoch, err = epochOption(c)
	return o, err
}

// epochOption is the epoch that a command asks for, nil where it leaves that to the session.
func epochOption(c *call) (*int32, error) {
	if _, ok := c.options["epoch"]; !ok {
		return nil, nil
	}
	n, err := c.numberOption("epoch", 0, -1<<31, 1<<31-1)
	epoch := int32(n)
	return &epoch, err
}

// shareFetch sends a ShareFetch to every node that leads one of the partitions.
func shareFetch(s *step, c *call) error {
	o, err := parseFetch(c)
	if err != nil {
		return err
	}
	m := s.shareMember(c.words[0], c.words[1])
	wanted := o.partitions
	if wanted == nil {
		wanted = m.assigned
	}
	all := slices.Clone(wanted)
	for _, a := range o.acks {
		if !slices.Contains(all, a.partition) {
			all = append(all, a.partition)
		}
	}
	nodes, of, err := s.byNode(c, all)
	if err != nil {
		return err
	}
	if len(nodes) == 0 {
		nodes = []int32{s.someNode()}
		if _, ok := c.options["node"]; ok {
			if nodes[0], err = s.node(c, topicPartition{}); err != nil {
				return err
			}
		}
	}
	var fetches []*nodeFetch // all are sent before one is waited for
	for _, node := range nodes {
		own := slices.DeleteFunc(slices.Clone(of[node]), func(p topicPartition) bool { return !slices.Contains(wanted, p) })
		f, err := s.putShareFetch(c, &o, m, node, own)
		if err != nil {
			return err
		}
		fetches = append(fetches, f)
	}
	var entries []fetched
	refused := false
	for _, f := range fetches {
		own, failed, no := s.takeShareFetch(m, f)
		if no != nil {
			err = no // the others are answered all the same
		}
		entries, refused = append(entries, own...), refused || failed
	}
	if err == nil {
		err = s.settleFetch(&o, fetches)
	}
	s.showFetched(entries, &o)
	if len(entries) == 0 && !refused && err == nil {
		s.printf("nothing")
	}
	return err
}

// settleFetch waits for what a broker does after it has answered.
func (s *step) settleFetch(o *fetchOptions, fetches []*nodeFetch) error {
	switch {
	case slices.ContainsFunc(fetches, func(f *nodeFetch) bool { return f.epoch == -1 }): // what the member held is given back
		return s.settleEverywhere()
	case o.wait <= 0: // states of share partitions are read
		return s.settle()
	}
	return nil
}

// nodeFetch is a ShareFetch on its way to a node.
type nodeFetch struct {
	*asked
	node  int32
	epoch int32
	after map[topicPartition][16]byte // the session's partitions once it is answered
}

// putShareFetch sends a ShareFetch to a node, for the partitions that it leads.
func (s *step) putShareFetch(c *call, o *fetchOptions, m *member, node int32, wanted []topicPartition) (*nodeFetch, error) {
	q := kmsg.NewPtrShareFetchRequest()
	if err := s.version(q, c); err != nil {
		return nil, err
	}
	group := s.wire(m.group)
	q.GroupID, q.MemberID = &group, &m.id
	q.MaxWaitMillis, q.MinBytes, q.MaxBytes, q.MaxRecords, q.BatchSize = int32(o.wait.Milliseconds()), int32(o.min), int32(o.max), int32(o.records), int32(o.batch)
	q.ShareAcquireMode, q.IsRenewAck = o.mode, o.renew
	session := m.session(node)
	q.ShareSessionEpoch = session.epoch
	if o.epoch != nil {
		q.ShareSessionEpoch = *o.epoch
	}
	after := map[topicPartition][16]byte{}
	for _, p := range wanted {
		id, err := s.topicID(p.topic)
		if err != nil {
			return nil, err
		}
		after[p] = id
		if q.ShareSessionEpoch == 0 || session.partitions[p] != id {
			*shareFetchPartition(q, id, p.partition) = kmsg.ShareFetchRequestTopicPartition{Partition: p.partition, PartitionMaxBytes: 1 << 20}
		}
	}
	if q.ShareSessionEpoch > 0 {
		s.forget(q, session, after)
	}
	for _, a := range o.acks {
		id, err := s.topicID(a.partition.topic)
		if err != nil {
			return nil, err
		}
		p := shareFetchPartition(q, id, a.partition.partition)
		for _, x := range a.batches {
			b := kmsg.NewShareFetchRequestTopicPartitionAcknowledgementBatch()
			b.FirstOffset, b.LastOffset, b.AcknowledgeTypes = x.first, x.last, x.types
			p.AcknowledgementBatches = append(p.AcknowledgementBatches, b)
		}
	}
	a, err := s.put(m.client(), node, q)
	return &nodeFetch{a, node, q.ShareSessionEpoch, after}, err
}

// takeShareFetch waits for the answer of a node and returns its partitions, or shows that it refuses.
func (s *step) takeShareFetch(m *member, f *nodeFetch) (entries []fetched, refused bool, err error) {
	p, err := take[*kmsg.ShareFetchResponse](s, f.asked)
	if err != nil {
		return nil, false, err
	}
	m.went(f.node, f.epoch, p.ErrorCode)
	if p.ErrorCode != 0 {
		s.printf("%s", failure(p.ErrorCode, p.ErrorMessage))
		return nil, true, nil
	}
	if f.epoch >= 0 {
		m.session(f.node).partitions = f.after
	}
	lock := time.Duration(p.AcquisitionLockTimeoutMillis) * time.Millisecond
	for i := range p.Topics {
		t := &p.Topics[i]
		for j := range t.Partitions {
			entries = append(entries, fetched{topicPartition{s.topicName(t.TopicID), t.Partitions[j].Partition}, lock, &t.Partitions[j]})
		}
	}
	return entries, false, nil
}

// forget adds what the session has and is no longer wanted.
func (s *step) forget(q *kmsg.ShareFetchRequest, session *session, after map[topicPartition][16]byte) {
	var gone []topicPartition
	for p, id := range session.partitions {
		if after[p] != id {
			gone = append(gone, p)
		}
	}
	for _, p := range sorted(gone) {
		q.ForgottenTopicsData = append(q.ForgottenTopicsData, kmsg.ShareFetchRequestForgottenTopicsData{TopicID: session.partitions[p], Partitions: []int32{p.partition}})
	}
}

// shareFetchPartition finds the entry of a partition, or makes it.
func shareFetchPartition(q *kmsg.ShareFetchRequest, id [16]byte, partition int32) *kmsg.ShareFetchRequestTopicPartition {
	i := slices.IndexFunc(q.Topics, func(t kmsg.ShareFetchRequestTopic) bool { return t.TopicID == id })
	if i < 0 {
		q.Topics = append(q.Topics, kmsg.ShareFetchRequestTopic{TopicID: id})
		i = len(q.Topics) - 1
	}
	t := &q.Topics[i]
	for j := range t.Partitions {
		if t.Partitions[j].Partition == partition {
			return &t.Partitions[j]
		}
	}
	t.Partitions = append(t.Partitions, kmsg.ShareFetchRequestTopicPartition{Partition: partition})
	return &t.Partitions[len(t.Partitions)-1]
}

// fetched is a partition of an answer, and how long locks are that begin with it.
type fetched struct {
	at   topicPartition
	lock time.Duration
	*kmsg.ShareFetchResponseTopicPartition
}

// showFetched shows what was answered, partition by partition.
func (s *step) showFetched(all []fetched, o *fetchOptions) {
	slices.SortStableFunc(all, func(a, b fetched) int { return comparePartitions(a.at, b.at) })
	for _, e := range all {
		var parts []string
		if e.ErrorCode != 0 {
			parts = append(parts, failure(e.ErrorCode, e.ErrorMessage)+leaderHint(e.ErrorCode, e.CurrentLeader.LeaderID, e.CurrentLeader.LeaderEpoch))
		}
		if len(e.AcquiredRecords) > 0 {
			parts = append(parts, "acquired "+acquiredRanges(e.AcquiredRecords)+", lock "+show(e.lock))
		}
		acknowledged := slices.ContainsFunc(o.acks, func(a acknowledgements) bool { return a.partition == e.at })
		switch {
		case e.AcknowledgeErrorCode != 0:
			parts = append(parts, "acknowledgement: "+failure(e.AcknowledgeErrorCode, e.AcknowledgeErrorMessage))
		case acknowledged && e.ErrorCode == 0:
			parts = append(parts, "acknowledged")
		}
		if len(parts) == 0 {
			parts = append(parts, "nothing")
		}
		s.printf("%s: %s", e.at, strings.Join(parts, "; "))
		s.showAcquired(e.ShareFetchResponseTopicPartition)
	}
}

func acquiredRanges(all []kmsg.ShareFetchResponseTopicPartitionAcquiredRecord) string {
	texts := make([]string, len(all))
	for i, r := range all {
		texts[i] = fmt.Sprintf("%s count %d", offsets(r.FirstOffset, r.LastOffset), r.DeliveryCount)
	}
	return strings.Join(texts, ", ")
}

// showAcquired shows the records that were acquired: what else comes with their batches is not the member's.
func (s *step) showAcquired(p *kmsg.ShareFetchResponseTopicPartition) {
	records, err := decodeRecords(p.Records)
	mine := slices.DeleteFunc(records, func(r shownRecord) bool {
		return !slices.ContainsFunc(p.AcquiredRecords, func(a kmsg.ShareFetchResponseTopicPartitionAcquiredRecord) bool {
			return a.FirstOffset <= r.offset && r.offset <= a.LastOffset
		})
	})
	if len(mine) > 0 {
		s.printf("  %s", showRecords(mine))
	}
	if err != nil {
		s.printf("  records that cannot be read: %v", err)
	}
}
