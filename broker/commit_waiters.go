package broker

import (
	"time"

	"kshare/clock"
	"kshare/protocol/errorcode"
)

// commitWaiter waits until what was appended to a partition is committed, as long as a coordinator may take to write.
type commitWaiter struct {
	partition *partition
	timer     clock.Timer
	then      func(code int16)
}

// afterCommit calls f once what was appended to the partition is committed, with COORDINATOR_NOT_AVAILABLE if that takes too long.
func (p *partition) afterCommit(limit time.Duration, f func(code int16)) {
	w := &commitWaiter{partition: p, then: f}
	w.timer = p.cluster.after(limit, func() { w.end(errorcode.CoordinatorNotAvailable) })
	p.commitWaiters.add(w)
}

// end ends the wait.
func (w *commitWaiter) end(code int16) {
	w.timer.Stop()
	w.partition.commitWaiters.remove(w)
	w.then(code)
}
