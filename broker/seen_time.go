package broker

import (
	"encoding/json"
	"time"

	"kshare/clock"
)

// seenTimeKey is where a store that outlives the cluster keeps the latest time that it has seen.
const seenTimeKey = "time"

// seenTime is the latest time that a store has seen.
type seenTime struct {
	At time.Time `json:"at"`
}

// goOnInTime has a virtual clock that is behind the latest time which the store has seen go on from there, and the store see every later time before anything
// happens at it: time never goes back for what is stored. The machine's clock is as it is; the store sees when the cluster is started and closed.
func (c *Cluster) goOnInTime() error {
	var seen seenTime
	if err := c.loadJSON(seenTimeKey, &seen); err != nil {
		return err
	}
	c.seen = seen.At
	v, ok := c.clock.(*clock.Virtual)
	if ok {
		v.Advance(max(0, c.seen.Sub(v.Now())))
	}
	if err := c.seeTime(c.clock.Now()); err != nil {
		return err
	}
	if ok {
		c.stopSeeing = v.OnMove(func(to time.Time) {
			if err := c.seeTime(to); err != nil {
				c.log.Error("the time could not be stored; a restart may go back to an earlier one", "time", to, "error", err)
			}
		})
	}
	return nil
}

// seeTime stores a time if it is later than any before.
func (c *Cluster) seeTime(at time.Time) error {
	c.mu.Lock()
	if c.closed || !at.After(c.seen) {
		c.mu.Unlock()
		return nil
	}
	c.seen = at
	b, err := json.Marshal(seenTime{at.UTC()})
	if err == nil {
		err = c.timeStore.PutMetadata(seenTimeKey, b)
	}
	commit := c.timeStore.Commit()
	c.mu.Unlock()
	if err != nil || commit == nil {
		return err
	}
	return commit.Wait()
}
