// Package clock is the time of a cluster: the machine's, or a virtual one that moves only when told.
//
// The pure packages take the time as an argument. The broker asks a Clock and arms its timers on it, so
// the same broker runs on either.
package clock

import "time"

// Clock tells the time and calls functions at a time.
type Clock interface {
	// Now is the current time.
	Now() time.Time
	// AfterFunc calls f once the clock has passed Now()+d, d <= 0 meaning as soon as possible.
	// On a virtual clock f runs within Advance, in the order of deadlines; on the machine's it runs in a
	// goroutine of its own.
	AfterFunc(d time.Duration, f func()) Timer
}

// Timer is a call that a Clock still owes.
type Timer interface {
	// Stop cancels the call and reports whether it was still owed.
	Stop() bool
}

// Machine is the machine's clock. Inside a testing/synctest bubble it is the bubble's.
type Machine struct{}

// Now implements Clock.
func (Machine) Now() time.Time { return time.Now() }

// AfterFunc implements Clock.
func (Machine) AfterFunc(d time.Duration, f func()) Timer { return time.AfterFunc(d, f) }
