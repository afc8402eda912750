package sharecoordinator

import (
	"maps"

	"kshare/protocol/errorcode"
)

// Guard stands for a transaction in a partition of __share_group_state that is part of it. It holds from then until the transaction's marker comes there, or
// another share coordinator takes the partition over: what is staged with a guard that holds, a marker is still to come for. The epoch alone would not tell, for
// with EndTxn up to version 4 a producer keeps it from one transaction to the next.
// Source: org.apache.kafka.storage.internals.log.VerificationGuard, which does so for the transactional batches of a log.
type Guard struct {
	place
	epoch   int16
	sinceMs int64
}

// place is a producer in a partition of __share_group_state.
type place struct {
	partition  int32
	producerID int64
}

// ended is the last end of a producer's transactions.
type ended struct {
	epoch            int16
	coordinatorEpoch int32
	atMs             int64
}

// producers is what is known of producers beside what they have staged. As in a log it is forgotten once a producer has done nothing for producer.id.expiration.ms.
// It need not outlive the process: stages and markers that are late are on their way within it.
type producers struct {
	guards map[place]*Guard
	ended  map[int64]ended
}

func newProducers() producers { return producers{map[place]*Guard{}, map[int64]ended{}} }

var (
	refuseLateStage = &Refusal{errorcode.InvalidProducerEpoch, "The transaction has ended."}
	refuseUnguarded = &Refusal{errorcode.TransactionAbortable, "The transaction has ended, or its share coordinator has changed meanwhile."}
)

// Guard is the guard of a producer's transaction in a partition of __share_group_state. Its caller has just had the transaction coordinator make the partition part
// of the transaction, and no marker has come in between.
func (c *Coordinator) Guard(nowMs int64, partition int32, producerID int64, epoch int16) *Guard {
	at := place{partition, producerID}
	g := c.guards[at]
	if g == nil || g.epoch != epoch {
		g = &Guard{at, epoch, nowMs}
		c.guards[at] = g
	}
	return g
}

// Holds tells whether a guard holds.
func (c *Coordinator) Holds(g *Guard) bool { return g != nil && c.guards[g.place] == g }

// refuseStage is why a write may not stage what it does, nil where it may. A batch without a producer waits for no transaction.
func (c *Coordinator) refuseStage(u *Update) *Refusal {
	if c.config.Draft.NoLateStageFence {
		return nil
	}
	for i := range u.Batches {
		s := u.Batches[i].Staged
		if u.Batches[i].State != txPending || s == NoStaged {
			continue
		}
		if end, ok := c.ended[s.ProducerID]; ok && s.ProducerEpoch < end.epoch {
			return refuseLateStage
		}
		if g := u.Guard; !c.Holds(g) || g.producerID != s.ProducerID || g.epoch != s.ProducerEpoch {
			return refuseUnguarded
		}
	}
	return nil
}

// ForgetGuards has no guard of a partition of __share_group_state hold any more: another share coordinator takes it over.
func (c *Coordinator) ForgetGuards(partition int32) {
	maps.DeleteFunc(c.guards, func(at place, _ *Guard) bool { return at.partition == partition })
}

// ExpireProducers forgets what is known of producers for expirationMs or longer. What they have staged stays.
func (c *Coordinator) ExpireProducers(nowMs, expirationMs int64) {
	maps.DeleteFunc(c.guards, func(_ place, g *Guard) bool { return nowMs-g.sinceMs >= expirationMs })
	maps.DeleteFunc(c.ended, func(_ int64, e ended) bool { return nowMs-e.atMs >= expirationMs })
}
