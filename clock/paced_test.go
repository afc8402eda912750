package clock

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// A paced clock goes with the machine's, here that of a bubble, and further where it is told.
func TestPacedFollowsAndIsMovedAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
		p := NewPaced(start, 2*time.Millisecond)
		fired := make(chan time.Duration, 2)
		p.AfterFunc(time.Second, func() { fired <- p.Now().Sub(start) })
		p.AfterFunc(time.Minute, func() { fired <- p.Now().Sub(start) })
		assert.Equal(t, time.Second, <-fired)
		p.Advance(time.Minute)
		assert.Equal(t, time.Minute, <-fired)
		time.Sleep(10 * time.Millisecond)
		p.Close()
		at := p.Now()
		assert.InDelta(t, float64(time.Minute+time.Second+10*time.Millisecond), float64(at.Sub(start)), float64(4*time.Millisecond))
		time.Sleep(time.Second)
		assert.Equal(t, at, p.Now())
		p.Close()
	})
}
