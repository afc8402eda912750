package scenario

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// as is the client id of what the step does itself: one in the background has connections of its own, so that others need not wait for it.
func (s *step) as(client string) string {
	if s.behind != "" {
		return client + "&" + s.behind
	}
	return client
}

// step is one command on its way. It runs as a coroutine: where it has to wait it yields.
type step struct {
	*world
	out    strings.Builder
	yield  func(struct{}) bool
	behind string // the name under which it runs in the background, "" otherwise
	began  time.Time
}

func (s *step) printf(format string, args ...any) { fmt.Fprintf(&s.out, format+"\n", args...) }

// errStopped ends a command that nobody waits for any more.
var errStopped = errors.New("the scenario has ended")

// pause lets other things happen.
func (s *step) pause() error {
	if !s.yield(struct{}{}) {
		return errStopped
	}
	return nil
}

// sleep lets time pass.
func (s *step) sleep(d time.Duration) error {
	for until := s.target.now().Add(d); s.target.now().Before(until); {
		s.wakeBy(until)
		if err := s.pause(); err != nil {
			return err
		}
	}
	return nil
}

// noAnswer is why a request has none, a result of a command.
type noAnswer struct{ why string }

func (n noAnswer) Error() string { return n.why }

// wakeBy asks to be looked at by a time.
func (w *world) wakeBy(t time.Time) {
	if w.wake.IsZero() || t.Before(w.wake) {
		w.wake = t
	}
}
