package broker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"kshare/clock"
)

// lateClock hands over the functions of its timers, as if each had fired already.
type lateClock struct {
	clock.Machine
	fired []func()
}

func (c *lateClock) AfterFunc(_ time.Duration, f func()) clock.Timer {
	c.fired = append(c.fired, f)
	return firedTimer{}
}

type firedTimer struct{}

func (firedTimer) Stop() bool { return false }

// A timer that fires while the lock is held, and is stopped before it gets the lock, does nothing: a request that was answered meanwhile would be
// answered twice.
func TestStoppedTimerDoesNothing(t *testing.T) {
	late := &lateClock{}
	c := &Cluster{clock: late, timers: map[*lockedTimer]struct{}{}}
	calls := 0
	c.mu.Lock()
	stopped := c.after(time.Second, func() { calls++ })
	c.after(time.Second, func() { calls += 10 })
	stopped.Stop()
	c.mu.Unlock()
	for _, f := range late.fired {
		f()
	}
	require.Equal(t, 10, calls)
}
