package txn

import (
	"math"
	"time"
)

// NextDeadline is the earliest time at which Expire has something to do; ok is false if there is none.
func (c *Coordinator) NextDeadline() (at time.Time, ok bool) {
	at = c.aborts
	if at.IsZero() || !c.expires.IsZero() && c.expires.Before(at) {
		at = c.expires
	}
	if !at.IsZero() && at.Before(c.notBefore) {
		at = c.notBefore
	}
	return at, !at.IsZero()
}

// Expire returns what is to be stored because time has passed: the aborts of transactions whose timeout is over, and
// the removal of ids that have not been used for long, in the order of the ids.
func (c *Coordinator) Expire(now time.Time) []*Transition {
	aborts, expires := due(c.aborts, now), due(c.expires, now)
	var found []*Transition
	for _, id := range c.IDs() {
		e := c.ids[id]
		switch {
		case e.busy():
		case aborts && e.State == Ongoing && !e.TwoPhase() && !now.Before(e.timesOut()):
			if d := c.abort(now, id, e); d.Transition != nil {
				found = append(found, d.Transition)
			}
		case expires && e.State.idle() && !now.Before(c.forgottenAt(e)):
			t := &Transition{ID: id, Forget: true, from: e}
			e.pending = t
			found = append(found, t)
		}
	}
	c.aborts, c.expires = time.Time{}, time.Time{}
	for _, e := range c.ids {
		c.arm(now, e)
	}
	return found
}

// AbortsAt is when Expire aborts the transaction of an id unless it ends before, zero where it does not.
func (c *Coordinator) AbortsAt(now time.Time, id string) time.Time {
	e := c.ids[id]
	if e == nil || e.State != Ongoing || e.TwoPhase() {
		return time.Time{}
	}
	return c.check(now, e.timesOut(), c.config.AbortPeriod)
}

func due(at, now time.Time) bool { return !at.IsZero() && !now.Before(at) }

// timesOut is when a transaction under way may be aborted that is no part of a two-phase commit: once more than its timeout has passed.
func (e *entry) timesOut() time.Time {
	return time.UnixMilli(e.StartMs + int64(e.TimeoutMs) + 1)
}

// forgottenAt is when an id that is not used any more expires.
func (c *Coordinator) forgottenAt(e *entry) time.Time {
	return time.UnixMilli(e.UpdateMs).Add(c.config.IDExpiration)
}

// arm has Expire called in time for an id. One whose change is on its way waits until that has ended. A deadline that a
// later change has made void stays until Expire is called.
func (c *Coordinator) arm(now time.Time, e *entry) {
	switch {
	case e.busy() || e.Epoch == math.MaxInt16:
	case e.State == Ongoing && e.TwoPhase():
	case e.State == Ongoing:
		earlier(&c.aborts, c.check(now, e.timesOut(), c.config.AbortPeriod))
	case e.State.idle() && e.Epoch != NoEpoch:
		earlier(&c.expires, c.check(now, c.forgottenAt(e), c.config.ExpirePeriod))
	}
}

func earlier(at *time.Time, other time.Time) {
	if at.IsZero() || other.Before(*at) {
		*at = other
	}
}

// check is the first check after now that comes at or after a time. Checks come each period, or exactly then where that is 0.
func (c *Coordinator) check(now, at time.Time, period time.Duration) time.Time {
	if period <= 0 {
		return at
	}
	if at.Before(now) {
		at = now
	}
	n := (at.Sub(c.since) + period - 1) / period
	next := c.since.Add(n * period)
	if !next.After(now) {
		next = next.Add(period)
	}
	return next
}
