package clock

import (
	"sync"
	"time"
)

// Paced is a virtual clock that follows the machine's and can be moved ahead of it besides: who waits for a minute need not. Its timers fire up to a pace
// late, one after the other.
type Paced struct {
	*Virtual
	stop chan struct{}
	once sync.Once
	done sync.WaitGroup
}

// NewPaced returns a clock that stands at now and follows the machine's in steps of a pace. It is to be closed.
func NewPaced(now time.Time, pace time.Duration) *Paced {
	p := &Paced{Virtual: NewVirtual(now), stop: make(chan struct{})}
	p.done.Go(func() { p.follow(pace) })
	return p
}

func (p *Paced) follow(pace time.Duration) {
	tick := time.NewTicker(pace)
	defer tick.Stop()
	last := time.Now()
	for {
		select {
		case <-p.stop:
			return
		case <-tick.C:
			now := time.Now()
			p.Advance(now.Sub(last))
			last = now
		}
	}
}

// Close has the clock stand still from now on. It must not be called by a timer of the clock.
func (p *Paced) Close() {
	p.once.Do(func() { close(p.stop) })
	p.done.Wait()
}
