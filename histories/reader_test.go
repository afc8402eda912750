package histories

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol"
)

// reader reads partitions from their start, as a consumer of either isolation level does.
type reader struct {
	*client
	doing *operation
}

func (r *reader) turn() error {
	if r.request != nil {
		return r.listen()
	}
	if r.s.one(4) {
		return r.fetchOffset(pick(r.s, r.s.producers...).id, false)
	}
	return r.read(r.s.rand.IntN(partitions), r.s.one(2), false)
}

// read asks a partition's leader.
func (r *reader) read(partition int, committed, final bool) error {
	q := kmsg.NewPtrFetchRequest()
	q.SetVersion(12)
	q.ReplicaID, q.MaxBytes, q.SessionEpoch = -1, 1<<20, -1
	if committed {
		q.IsolationLevel = 1
	}
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.CurrentLeaderEpoch, p.PartitionMaxBytes = int32(partition), -1, 1<<20
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.Partitions = topicName, append(t.Partitions, p)
	q.Topics = append(q.Topics, t)
	return r.ask(r.s.machine.leader(topicName, int32(partition)), q, &operation{kind: read, partition: partition, committed: committed, final: final})
}

// fetchOffset asks for the stable offset of an id's group.
func (r *reader) fetchOffset(id string, final bool) error {
	q := kmsg.NewPtrOffsetFetchRequest()
	q.SetVersion(8)
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group, g.Topics = id, []kmsg.OffsetFetchRequestGroupTopic{{Topic: topicName, Partitions: []int32{0}}}
	q.RequireStable, q.Groups = true, append(q.Groups, g)
	return r.ask(r.s.machine.groupCoordinator(id), q, &operation{kind: fetched, id: id, final: final})
}

// ask sends a request. Where there is nobody to send it to, nothing comes of it.
func (r *reader) ask(node int32, q kmsg.Request, o *operation) error {
	o.client, o.ret = r.name, never
	r.doing = o
	r.doing.call, r.doing.at = r.s.moment()
	if node == 0 || !r.send(node, q) {
		return nil
	}
	r.s.trace("%s: %s to node %d", r.name, kmsg.NameForKey(q.Key()), node)
	return r.listen()
}

// listen takes the answer if it has come. One that is lost or an error says nothing.
func (r *reader) listen() error {
	a, _, err := r.received()
	if a == nil || err != nil {
		return err
	}
	o := r.doing
	if f, ok := a.(*kmsg.OffsetFetchResponse); ok {
		g := &f.Groups[0]
		if g.ErrorCode != 0 || len(g.Topics) == 0 || g.Topics[0].Partitions[0].ErrorCode != 0 {
			return nil
		}
		o.value = int(g.Topics[0].Partitions[0].Offset)
		return r.done()
	}
	f := a.(*kmsg.FetchResponse)
	if f.ErrorCode != 0 || len(f.Topics) == 0 || f.Topics[0].Partitions[0].ErrorCode != 0 {
		return nil
	}
	p := &f.Topics[0].Partitions[0]
	o.high, o.stable = p.HighWatermark, p.LastStableOffset
	if o.seen, err = consume(p, o.committed); err != nil {
		return fmt.Errorf("%s: partition %d: %w", r.name, o.partition, err)
	}
	return r.done()
}

func (r *reader) done() error {
	r.doing.ret, r.doing.until = r.s.moment()
	r.s.trace("%s", r.doing)
	r.s.note(r.doing)
	return nil
}

// consume is what a consumer makes of an answer: those of committed records leave out what the answer says is aborted.
func consume(p *kmsg.FetchResponseTopicPartition, committed bool) (seen []record, err error) {
	left := slices.Clone(p.AbortedTransactions)
	slices.SortFunc(left, func(a, b kmsg.FetchResponseTopicPartitionAbortedTransaction) int {
		return int(a.FirstOffset - b.FirstOffset)
	})
	aborting := map[int64]bool{}
	for b := p.RecordBatches; len(b) > 0; {
		h, err := protocol.ParseBatchHeader(b)
		if err != nil || h.Size() > len(b) {
			return nil, fmt.Errorf("a batch that cannot be read: %w", err)
		}
		batch := b[:h.Size()]
		b = b[h.Size():]
		for committed && len(left) > 0 && left[0].FirstOffset <= h.LastOffset() {
			aborting[left[0].ProducerID] = true
			left = left[1:]
		}
		if h.IsControl() {
			if kind, _, ok := protocol.ParseEndTxnMarker(&h, batch); ok && kind == 0 {
				delete(aborting, h.ProducerID)
			}
			continue
		}
		if committed && aborting[h.ProducerID] {
			continue
		}
		if seen, err = appendRecords(seen, &h, batch); err != nil {
			return nil, err
		}
	}
	return seen, nil
}

func appendRecords(seen []record, h *protocol.BatchHeader, batch []byte) ([]record, error) {
	rr, err := protocol.OpenRecords(h, batch, math.MaxInt32)
	if err != nil {
		return nil, err
	}
	defer rr.Close()
	for {
		var x protocol.Record
		if err := rr.Next(&x); errors.Is(err, io.EOF) {
			return seen, nil
		} else if err != nil {
			return nil, err
		}
		value, err := strconv.Atoi(string(x.Value))
		if err != nil {
			return nil, err
		}
		seen = append(seen, record{h.BaseOffset + int64(x.OffsetDelta), value})
	}
}
