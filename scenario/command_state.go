package scenario

import (
	"fmt"
	"strings"
	"time"

	"kshare"
	"kshare/sharepartition"
)

func init() {
	register(&command{
		name:  "state",
		usage: "state GROUP PARTITION",
		summary: "Draws a share partition: start offset, end (the next offset that was never handed out), each run of records with state, delivery count, owner and lock left, waiting fetches, and what " +
			"is persisted.",
		example: `
topic orders
config group workers share.auto.offset.reset=earliest
produce orders-0 a b c
join workers m1 orders
fetch workers m1 records=2 mode=record_limit
ack workers m1 orders-0 0=release
advance 10s
----
orders: 1 partition
workers: ok
orders-0: offsets 0-2
m1: epoch 3, assigned orders-0
orders-0: acquired 0-1 count 1, lock 30s
  0 a | 1 b
orders-0: ok

state workers orders-0
----
orders-0: start 0, end 3, 3 in flight
  0  AVAILABLE  count 1
  1  ACQUIRED   count 1  m1, lock 20s
  2  AVAILABLE  count 0
persisted: start 0, state epoch 2; 0 AVAILABLE count 1
`,
		least: 2, most: 2, reach: inside, looks: true,
		check: func(c *call) error { _, err := parsePartition(c.words[1]); return err },
		run: func(s *step, c *call) error {
			at, err := parsePartition(c.words[1])
			if err != nil {
				return err
			}
			p, err := s.target.cluster().InspectSharePartition(s.wire(c.words[0]), s.wire(at.topic), at.partition)
			if err != nil {
				return noAnswer{err.Error()}
			}
			s.showState(at, p)
			return nil
		},
	})
}

func (s *step) showState(at topicPartition, p *kshare.SharePartitionState) {
	if !p.Known {
		s.printf("%s: not read by the leader", at)
	} else {
		waiting := ""
		if p.Waiting > 0 {
			waiting = ", " + plural(p.Waiting, "waiting fetch")
			if p.Waiting > 1 {
				waiting = strings.Replace(waiting, "fetchs", "fetches", 1)
			}
		}
		s.printf("%s: start %d, end %d, %d in flight%s", at, p.StartOffset, p.EndOffset, p.InFlight, waiting)
		s.showRuns(p.Runs)
	}
	s.showPersisted(p)
}

// showRuns shows runs of records, those that differ in nothing but their batch as one.
func (s *step) showRuns(runs []sharepartition.Run) {
	var merged []sharepartition.Run
	for _, r := range runs {
		if n := len(merged); n > 0 {
			m := &merged[n-1]
			same := *m
			same.FirstOffset, same.LastOffset, same.Batch, same.Split = r.FirstOffset, r.LastOffset, r.Batch, r.Split
			if same == r && m.LastOffset+1 == r.FirstOffset {
				m.LastOffset = r.LastOffset
				continue
			}
		}
		merged = append(merged, r)
	}
	width := 0
	for _, r := range merged {
		width = max(width, len(offsets(r.FirstOffset, r.LastOffset)))
	}
	for _, r := range merged {
		owner := ""
		if r.Member != "" && r.State == sharepartition.Acquired {
			owner = fmt.Sprintf("  %s, lock %s", r.Member, show(r.LockLeft.Round(time.Millisecond)))
		}
		if r.State == sharepartition.TxPending {
			owner = fmt.Sprintf("  %s in a transaction of producer %s, epoch %d", AcknowledgeTypeName(r.Staged.Type), s.producerName(r.Staged.ProducerID), r.Staged.ProducerEpoch)
		}
		if r.Pending {
			owner += "  (its write is unanswered)"
		}
		s.printf("  %-*s  %-10s count %d%s", width, offsets(r.FirstOffset, r.LastOffset), r.State, r.DeliveryCount, owner)
	}
}

func (s *step) showPersisted(p *kshare.SharePartitionState) {
	if p.Persisted == nil {
		s.printf("persisted: nothing")
		return
	}
	parts := []string{}
	for _, b := range p.Persisted.Batches {
		parts = append(parts, fmt.Sprintf("%s %s count %d", offsets(b.FirstOffset, b.LastOffset), sharepartition.State(b.State), b.DeliveryCount))
	}
	text := fmt.Sprintf("persisted: start %d, state epoch %d", p.Persisted.StartOffset, p.Persisted.StateEpoch)
	if len(parts) > 0 {
		text += "; " + strings.Join(parts, ", ")
	}
	s.printf("%s", text)
}
