package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol"
	"kshare/protocol/errorcode"
)

const transactionsSection = "Transactions"

// producer is a transactional producer over a connection of its own.
type producer struct {
	*conn
	transactionalID string
	id              int64
	epoch           int16
}

// newProducer makes a producer whose coordinator knows it.
func newProducer(ctx context.Context, addr, transactionalID string) (*producer, error) {
	c, err := dial(addr)
	if err != nil {
		return nil, err
	}
	p := &producer{conn: c, transactionalID: transactionalID}
	if err := p.begin(ctx); err != nil {
		c.close()
		return nil, err
	}
	return p, nil
}

func (p *producer) begin(ctx context.Context) error {
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.Version, find.CoordinatorType, find.CoordinatorKeys = 4, 1, []string{p.transactionalID}
	return again(ctx, "FindCoordinator and InitProducerId", func() (int16, error) {
		var found kmsg.FindCoordinatorResponse
		if err := p.request(find, &found); err != nil {
			return 0, err
		}
		if code := found.Coordinators[0].ErrorCode; code != errorcode.None {
			return code, nil
		}
		q := kmsg.NewPtrInitProducerIDRequest()
		q.Version, q.TransactionalID, q.TransactionTimeoutMillis, q.ProducerID, q.ProducerEpoch = 5, &p.transactionalID, 60_000, -1, -1
		var made kmsg.InitProducerIDResponse
		err := p.request(q, &made)
		p.id, p.epoch = made.ProducerID, made.ProducerEpoch
		return made.ErrorCode, err
	})
}

// again asks until the answer is not that the coordinator is loading, or still at the transaction before.
func again(ctx context.Context, what string, ask func() (int16, error)) error {
	for {
		code, err := ask()
		if err != nil {
			return err
		}
		switch code {
		case errorcode.ConcurrentTransactions, errorcode.CoordinatorLoadInProgress, errorcode.CoordinatorNotAvailable, errorcode.NotCoordinator:
			if ctx.Err() != nil {
				return ctx.Err()
			}
			continue
		}
		return failure(what, code)
	}
}

// produce produces a batch, which it changes: into the transaction, or without one where plain is set.
func (p *producer) produce(ctx context.Context, topic [16]byte, partition int32, batch []byte, plain bool) error {
	const transactional = 1 << 4
	id, epoch, sequence, transactionalID := p.id, p.epoch, int32(0), &p.transactionalID // the epoch is new in each transaction, so the sequence is 0
	batch[atAttributes] &^= transactional
	binary.BigEndian.PutUint64(batch, 0) // the base offset, where the batch comes from a broker
	if plain {
		id, epoch, sequence, transactionalID = -1, -1, -1, nil
	} else {
		batch[atAttributes] |= transactional
	}
	binary.BigEndian.PutUint64(batch[atProducerID:], uint64(id))
	binary.BigEndian.PutUint16(batch[atProducerEpoch:], uint16(epoch))
	binary.BigEndian.PutUint32(batch[atBaseSequence:], uint32(sequence))
	binary.BigEndian.PutUint32(batch[atCRC:], protocol.BatchCRC(batch))
	q := kmsg.NewPtrProduceRequest()
	q.Version, q.Acks, q.TimeoutMillis, q.TransactionID = 13, -1, 30_000, transactionalID
	q.Topics = []kmsg.ProduceRequestTopic{{TopicID: topic, Partitions: []kmsg.ProduceRequestTopicPartition{{Partition: partition, Records: batch}}}}
	return again(ctx, "Produce", func() (int16, error) {
		var answer kmsg.ProduceResponse
		err := p.request(q, &answer)
		if err != nil || len(answer.Topics) != 1 || len(answer.Topics[0].Partitions) != 1 {
			return 0, errors.Join(err, errors.New("Produce: an answer without its partition"))
		}
		return answer.Topics[0].Partitions[0].ErrorCode, nil
	})
}

// Where fields of a batch begin that a producer sets; the attributes that matter are in the second byte.
const (
	atAttributes    = 22
	atProducerID    = 43
	atProducerEpoch = 51
	atBaseSequence  = 53
)

// end ends the transaction.
func (p *producer) end(ctx context.Context, commit bool) error {
	q := kmsg.NewPtrEndTxnRequest()
	q.Version, q.TransactionalID, q.ProducerID, q.ProducerEpoch, q.Commit = 5, p.transactionalID, p.id, p.epoch, commit
	return again(ctx, "EndTxn", func() (int16, error) {
		var answer kmsg.EndTxnResponse
		err := p.request(q, &answer)
		if err == nil && answer.ErrorCode == errorcode.None {
			p.id, p.epoch = answer.ProducerID, answer.ProducerEpoch
		}
		return answer.ErrorCode, err
	})
}

// oneRecordTrial finds how many transactions of one record there are in a second.
func oneRecordTrial(producers, transactions int) trial {
	return trial{
		section: transactionsSection,
		name:    fmt.Sprintf("one record each, %s", plural(producers, "producer")),
		measures: []measure{
			{name: "transactions", unit: "K/s", digits: 2},
			{name: "broker CPU", unit: "us/transaction", digits: 1, target: &target{"at most kfake", func(k, f float64) bool { return k <= f }}},
		},
		run: func(ctx context.Context, b *broker) (found []float64, err error) {
			err = withTopic(ctx, b, producers, func(p *process, _ *conn, topic [16]byte) error {
				var all []*producer
				for i := range producers {
					one, err := newProducer(ctx, p.addr, fmt.Sprintf("bench-%d", i))
					if err != nil {
						return err
					}
					defer one.close()
					all = append(all, one)
				}
				took, cpu, err := timed(p, func() error {
					errs := make([]error, producers)
					var wg sync.WaitGroup
					for i, one := range all {
						wg.Go(func() { errs[i] = one.transact(ctx, topic, int32(i), transactions) })
					}
					wg.Wait()
					return errors.Join(errs...)
				})
				n := producers * transactions
				found = []float64{float64(n) / took.Seconds() / 1000, perRecord(cpu, n)}
				return err
			})
			return found, err
		},
	}
}

// transact commits transactions of one record of 100 B each.
func (p *producer) transact(ctx context.Context, topic [16]byte, partition int32, transactions int) error {
	batch := makeBatch(1, 100)
	for range transactions {
		if err := p.produce(ctx, topic, partition, batch, false); err != nil {
			return err
		}
		if err := p.end(ctx, true); err != nil {
			return err
		}
	}
	return nil
}

// stage makes the acceptance of records of partition 0 part of a producer's transaction (KIP-1289).
func (m *member) stage(ctx context.Context, by *producer, r acquired) error {
	q := &protocol.TxnShareAcknowledgeRequest{
		TransactionalID: &by.transactionalID, GroupID: groupName, ProducerID: by.id, ProducerEpoch: by.epoch, MemberID: m.id, MemberEpoch: m.memberEpoch,
		Topics: []protocol.TxnShareAcknowledgeTopic{{TopicID: m.q.Topics[0].TopicID, Partitions: []protocol.TxnShareAcknowledgePartition{{
			AcknowledgementBatches: []protocol.TxnShareAcknowledgeBatch{{FirstOffset: r.FirstOffset, LastOffset: r.LastOffset, AcknowledgeTypes: acceptAll}},
		}}}},
	}
	return again(ctx, "TxnShareAcknowledge", func() (int16, error) {
		var p protocol.TxnShareAcknowledgeResponse
		if err := m.request(q, &p); err != nil || p.ErrorCode != errorcode.None {
			return p.ErrorCode, err
		}
		return p.Topics[0].Partitions[0].ErrorCode, nil
	})
}

// way is how a member of a share group that produces what it consumes acknowledges it.
type way int

const (
	within way = iota // the transaction of its output (KIP-1289)
	beside            // that transaction
	plain             // there is no transaction
)

// loopTrial compares the loop of KIP-1289 (consume, produce, acknowledge in the transaction, commit) with the same loop that acknowledges beside the
// transaction, and with one that has no transactions. What comes out is what went in, each record once, or the trial fails.
func loopTrial(s *sizes) trial {
	return trial{
		section: transactionsSection,
		name:    fmt.Sprintf("consume %d records of 100 B, produce them, acknowledge, commit", loopBatch),
		note: "kfake has no acknowledgements in transactions (KIP-1289). All of the output is read afterwards: each record of the input is there once, " +
			"also where every third transaction was aborted.",
		alone: true,
		measures: []measure{
			{name: "acknowledged in the transaction", unit: "K records/s", digits: 1},
			{name: "acknowledged beside the transaction", unit: "K records/s", digits: 1},
			{name: "without transactions", unit: "K records/s", digits: 1},
			{name: "broker CPU in it / beside it", digits: 2, target: &target{"at most 1.25", func(k, _ float64) bool { return k <= 1.25 }}},
			{name: "time in it / beside it", digits: 2},
			{name: "time in it / without transactions", digits: 2},
		},
		run: func(ctx context.Context, b *broker) ([]float64, error) {
			var took, cpu [3]time.Duration
			for w := range took {
				var err error
				if took[w], cpu[w], err = loop(ctx, b, s.loops, way(w), false); err != nil {
					return nil, err
				}
			}
			if _, _, err := loop(ctx, b, s.loops/10, within, true); err != nil {
				return nil, err
			}
			rate := func(w way) float64 { return float64(s.loops*loopBatch) / took[w].Seconds() / 1000 }
			return []float64{
				rate(within), rate(beside), rate(plain), cpu[within].Seconds() / cpu[beside].Seconds(),
				took[within].Seconds() / took[beside].Seconds(), took[within].Seconds() / took[plain].Seconds(),
			}, nil
		},
	}
}

// loopBatch is how many records a turn of the loop consumes and produces.
const loopBatch = 100

// Partitions of the loop's topic.
const (
	loopInput  = 0
	loopOutput = 1
)

// loop has a fresh broker, consumes, produces and acknowledges so many batches and checks that what came out is what went in. With aborts, every third
// transaction is aborted.
func loop(ctx context.Context, b *broker, batches int, how way, aborts bool) (took, cpu time.Duration, err error) {
	err = withTopic(ctx, b.transactional(), 2, func(p *process, c *conn, topic [16]byte) (err error) {
		took, cpu, err = loopIn(ctx, p, c, topic, batches, how, aborts)
		return err
	})
	return took, cpu, err
}

func loopIn(ctx context.Context, p *process, c *conn, topic [16]byte, batches int, how way, aborts bool) (took, cpu time.Duration, err error) {
	by, err := newProducer(ctx, p.addr, "bench")
	if err != nil {
		return 0, 0, err
	}
	defer by.close()
	for i := range batches {
		batch, err := numberedBatch(i*loopBatch, loopBatch)
		if err != nil {
			return 0, 0, err
		}
		if err := by.produce(ctx, topic, loopInput, batch, true); err != nil {
			return 0, 0, err
		}
	}
	if err := c.readFromStart(groupName); err != nil {
		return 0, 0, err
	}
	m, err := join(ctx, p.addr, 0, topic)
	if err != nil {
		return 0, 0, err
	}
	defer m.close()
	took, cpu, err = timed(p, func() error {
		for turn, done := 0, 0; done < batches; turn++ {
			commit := !aborts || turn%3 != 0
			if err := m.turn(ctx, by, topic, how, commit); err != nil {
				return err
			}
			if commit {
				done++
			}
		}
		return nil
	})
	if err == nil {
		err = c.checkOutput(topic, batches*loopBatch)
	}
	return took, cpu, err
}

// turn is one turn of the loop.
func (m *member) turn(ctx context.Context, by *producer, topic [16]byte, how way, commit bool) error {
	got, err := m.fetch(loopBatch, time.Second, nil)
	if err != nil {
		return err
	}
	records := m.records
	if h, err := protocol.ParseBatchHeader(records); err != nil || len(got) != 1 || h.Size() != len(records) || h.BaseOffset != got[0].FirstOffset || h.LastOffset() != got[0].LastOffset {
		return fmt.Errorf("ShareFetch: %d ranges acquired and %d bytes, expected one range that is one batch: %w", len(got), len(records), err)
	}
	if err := by.produce(ctx, topic, loopOutput, records, how == plain); err != nil {
		return err
	}
	if how == within {
		err = m.stage(ctx, by, got[0])
	} else {
		err = m.acknowledge(got[0])
	}
	if err != nil || how == plain {
		return err
	}
	return by.end(ctx, commit)
}

// numberedBatch is a batch of records of 100 B whose values begin with numbers from first on.
func numberedBatch(first, records int) ([]byte, error) {
	b := protocol.NewBatchBuilder()
	value := make([]byte, 100)
	for i := range records {
		binary.BigEndian.PutUint64(value, uint64(first+i))
		if err := b.Append(time.Now().UnixMilli(), nil, value); err != nil {
			return nil, err
		}
	}
	return b.Finish()
}

// checkOutput reads what is committed of the loop's output and tells which of the numbers from 0 to n, n not included, is not there once.
func (c *conn) checkOutput(topic [16]byte, n int) error {
	seen := make([]int, n)
	for next := int64(0); ; {
		q := fetchRequest(topic, 2)
		q.IsolationLevel = 1 // read_committed
		q.Topics[0].Partitions = q.Topics[0].Partitions[loopOutput:]
		q.Topics[0].Partitions[0].FetchOffset = next
		q.MaxWaitMillis = 0
		var p kmsg.FetchResponse
		if err := c.request(q, &p); err != nil {
			return err
		}
		if err := failure("Fetch", p.ErrorCode); err != nil {
			return err
		}
		if len(p.Topics) == 0 || len(p.Topics[0].Partitions) == 0 {
			return errors.New("Fetch: an answer without its partition")
		}
		x := &p.Topics[0].Partitions[0]
		if err := failure("Fetch", x.ErrorCode); err != nil {
			return err
		}
		if len(x.RecordBatches) == 0 {
			break
		}
		after, err := countNumbers(x.RecordBatches, x.AbortedTransactions, seen)
		if err != nil {
			return err
		}
		next = after
	}
	return eachOnce(seen)
}

// eachOnce tells which record did not come out once.
func eachOnce(seen []int) error {
	for i, times := range seen {
		if times != 1 {
			return fmt.Errorf("record %d of the input came out %d times", i, times)
		}
	}
	return nil
}

// countNumbers counts the numbers of numberedBatch that are in the batches of an answer to a consumer of read_committed, and returns the offset behind them.
func countNumbers(batches []byte, aborted []kmsg.FetchResponseTopicPartitionAbortedTransaction, seen []int) (next int64, err error) {
	for len(batches) > 0 {
		h, err := protocol.ParseBatchHeader(batches)
		if err != nil || h.Size() > len(batches) {
			return next, err // a last batch may be cut off
		}
		batch := batches[:h.Size()]
		batches = batches[h.Size():]
		next = h.LastOffset() + 1
		isAborted := func(a kmsg.FetchResponseTopicPartitionAbortedTransaction) bool { return a.FirstOffset == h.BaseOffset } // a transaction has one batch
		if h.IsControl() || slices.ContainsFunc(aborted, isAborted) {
			continue
		}
		records, err := protocol.OpenRecords(&h, batch, maxAnswer)
		if err != nil {
			return next, err
		}
		defer records.Close()
		for range h.NumRecords {
			var r protocol.Record
			if err := records.Next(&r); err != nil {
				return next, err
			}
			i := binary.BigEndian.Uint64(r.Value)
			if i >= uint64(len(seen)) {
				return next, fmt.Errorf("record %d came out, which never went in", i)
			}
			seen[i]++
		}
	}
	return next, nil
}

// endTrial finds what the end of a transaction costs in a share partition, where few or many share partitions have their state in the same partition of
// __share_group_state.
func endTrial(s *sizes) trial {
	measures := make([]measure, 0, 2*len(s.shares)+1)
	for _, n := range s.shares {
		of := "of " + plural(n, "share partition")
		measures = append(measures, measure{name: "EndTxn in one " + of + ", p50", unit: "us", digits: 1},
			measure{name: "ShareFetch, TxnShareAcknowledge and EndTxn in one " + of + ", broker CPU", unit: "us", digits: 1})
	}
	measures = append(measures, measure{
		name: fmt.Sprintf("CPU in one of %d / one of %d", s.shares[len(s.shares)-1], s.shares[0]), digits: 2,
		target: &target{"at most 1.5", func(k, _ float64) bool { return k <= 1.5 }},
	})
	return trial{
		section:  transactionsSection,
		name:     "the end of a transaction in one share partition",
		note:     "kfake has no acknowledgements in transactions (KIP-1289). All share partitions have their state in one partition of __share_group_state, the others of a record that was released.",
		alone:    true,
		measures: measures,
		run: func(ctx context.Context, b *broker) (found []float64, err error) {
			b = b.transactional().with("share.coordinator.state.topic.num.partitions=1")
			for _, n := range s.shares {
				err := withTopic(ctx, b, n, func(p *process, c *conn, topic [16]byte) error {
					p50, cpu, err := endEach(ctx, p, c, topic, n-1, s.ends)
					found = append(found, p50, cpu)
					return err
				})
				if err != nil {
					return nil, err
				}
			}
			return append(found, found[len(found)-1]/found[1]), nil
		},
	}
}

// endEach ends transactions that each have one record of partition 0 and returns how long an EndTxn takes and how much CPU time of the broker each
// transaction, both in us.
func endEach(ctx context.Context, p *process, c *conn, topic [16]byte, others, transactions int) (p50, cpu float64, err error) {
	by, err := newProducer(ctx, p.addr, "bench")
	if err != nil {
		return 0, 0, err
	}
	defer by.close()
	for partition := range others + 1 {
		if err := by.produce(ctx, topic, int32(partition), makeBatch(1, 100), true); err != nil {
			return 0, 0, err
		}
	}
	for range transactions - 1 {
		if err := by.produce(ctx, topic, 0, makeBatch(1, 100), true); err != nil {
			return 0, 0, err
		}
	}
	if err := c.readFromStart(groupName); err != nil {
		return 0, 0, err
	}
	if err := releaseOthers(ctx, p, topic, others); err != nil {
		return 0, 0, err
	}
	m, err := join(ctx, p.addr, 1, topic)
	if err != nil {
		return 0, 0, err
	}
	defer m.close()
	var took []float64
	_, all, err := timed(p, func() error {
		for range transactions {
			got, err := m.fetch(1, time.Second, nil)
			if err != nil {
				return err
			}
			if len(got) != 1 {
				return fmt.Errorf("ShareFetch of one record gave %d ranges", len(got))
			}
			if err := m.stage(ctx, by, got[0]); err != nil {
				return err
			}
			begun := time.Now()
			if err := by.end(ctx, true); err != nil {
				return err
			}
			took = append(took, float64(time.Since(begun).Nanoseconds())/1000)
		}
		return nil
	})
	return quantile(took, 0.5), perRecord(all, transactions), err
}

// releaseOthers has a member take the first record of each partition but 0 and release it, which is in the state of each then.
func releaseOthers(ctx context.Context, p *process, topic [16]byte, others int) error {
	if others == 0 {
		return nil
	}
	m, err := join(ctx, p.addr, 0, topic)
	if err != nil {
		return err
	}
	defer m.close()
	const atOnce = 1000 // partitions of a request
	for first := 1; first <= others; first += atOnce {
		q, ack := *m.q, *m.ack
		fetched, acked := kmsg.ShareFetchRequestTopic{TopicID: topic}, kmsg.ShareAcknowledgeRequestTopic{TopicID: topic}
		n := min(atOnce, others-first+1)
		for i := range n {
			fetched.Partitions = append(fetched.Partitions, kmsg.ShareFetchRequestTopicPartition{Partition: int32(first + i)})
			acked.Partitions = append(acked.Partitions, kmsg.ShareAcknowledgeRequestTopicPartition{Partition: int32(first + i),
				AcknowledgementBatches: []kmsg.ShareAcknowledgeRequestTopicPartitionAcknowledgementBatch{{AcknowledgeTypes: []int8{release}}}})
		}
		q.ShareSessionEpoch, q.MaxRecords, q.BatchSize, q.ShareAcquireMode = m.epoch, int32(n), int32(n), recordLimit
		q.MaxWaitMillis, q.Topics = 1000, []kmsg.ShareFetchRequestTopic{fetched}
		q.ForgottenTopicsData = nil
		if first > 1 {
			gone := kmsg.ShareFetchRequestForgottenTopicsData{TopicID: topic}
			for i := range atOnce {
				gone.Partitions = append(gone.Partitions, int32(first-atOnce+i))
			}
			q.ForgottenTopicsData = append(q.ForgottenTopicsData, gone)
		}
		for taken := 0; taken < n; q.Topics, q.ForgottenTopicsData = nil, nil {
			q.ShareSessionEpoch = m.epoch
			got, err := m.fetched(&q)
			if err != nil {
				return err
			}
			if len(got) == 0 {
				return fmt.Errorf("ShareFetch gave the records of %d of %d partitions", taken, n)
			}
			taken += len(got)
		}
		ack.ShareSessionEpoch, ack.Topics = m.epoch, []kmsg.ShareAcknowledgeRequestTopic{acked}
		m.epoch++
		var answer kmsg.ShareAcknowledgeResponse
		if err := m.request(&ack, &answer); err != nil {
			return err
		}
		if err := failure("ShareAcknowledge", answer.ErrorCode); err != nil {
			return err
		}
		for _, t := range answer.Topics {
			for _, x := range t.Partitions {
				if err := failure("ShareAcknowledge", x.ErrorCode); err != nil {
					return err
				}
			}
		}
	}
	return m.leave()
}
