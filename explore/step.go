package explore

import "time"

// Step is a command that was run and what came of it.
type Step struct {
	N       int       `json:"n"` // its place in the script, from 1 on
	Command string    `json:"command"`
	Comment []string  `json:"comment"` // lines of the script before the command, without #
	Shown   []string  `json:"shown"`   // lines that it showed
	Began   time.Time `json:"began"`
	Ended   time.Time `json:"ended"`
	Changes []Change  `json:"changes"` // at most MaxChanges
	// MoreChanges is how many changes were left out.
	MoreChanges int `json:"moreChanges"`
	// FirstEvent to LastEvent are the events that happened meanwhile; LastEvent is below FirstEvent where there are none.
	FirstEvent uint64 `json:"firstEvent"`
	LastEvent  uint64 `json:"lastEvent"`
}

// MaxChanges bounds the changes of a step.
const MaxChanges = 200

// State is a session from outside.
type State struct {
	ID      string    `json:"id"`
	Live    bool      `json:"live"`    // it is the running cluster of this process, not a run of a script
	Virtual bool      `json:"virtual"` // time stands still until it is moved
	Time    time.Time `json:"time"`
	Version uint64    `json:"version"` // as in View
	Steps   int       `json:"steps"`   // how many commands the script has
	Undoes  int       `json:"undoes"`  // how many commands can be undone
	Redoes  int       `json:"redoes"`  // how many of those undone can be done again
	// LastEvent is the number of the last event, 0 where there was none.
	LastEvent uint64 `json:"lastEvent"`
}
