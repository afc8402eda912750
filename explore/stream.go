package explore

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"kshare/internal/jsonhttp"
)

// Update is what a stream tells of a session at a time.
type Update struct {
	State   State    `json:"state"`
	View    *View    `json:"view"`
	Changes []Change `json:"changes"` // since the update before, at most MaxChanges
	Events  []Event  `json:"events"`  // since the update before
	Lost    uint64   `json:"lost"`    // events since then that are not among them
}

// Times of a stream.
const (
	// updateEvery is the least time between two updates.
	updateEvery = 100 * time.Millisecond
	// quietFor is how long a stream is silent before it says that it is still there.
	quietFor = 15 * time.Second
	// sendLimit is how long a client may take to read an update.
	sendLimit = 30 * time.Second
)

// stream sends updates of a session until the client goes.
func (s *Server) stream(w http.ResponseWriter, r *http.Request) {
	x, err := s.sessions.find(r.PathValue("id"))
	if err != nil {
		jsonhttp.Fail(w, err)
		return
	}
	done, err := s.sessions.stream(x)
	if err != nil {
		jsonhttp.Fail(w, err)
		return
	}
	defer done()
	changed, forget := x.Watch()
	defer forget()
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{}) // a server without deadlines is as good
	w.Header().Set("Content-Type", "text/event-stream")
	f := &follower{session: x}
	quiet := time.NewTimer(quietFor)
	defer quiet.Stop()
	for id := 1; ; id++ {
		u, ok := f.next()
		if ok {
			b, err := json.Marshal(u)
			if err != nil {
				return
			}
			_ = control.SetWriteDeadline(time.Now().Add(sendLimit))
			if _, err := fmt.Fprintf(w, "event: update\nid: %d\ndata: %s\n\n", id, b); err != nil || control.Flush() != nil {
				return
			}
		}
		select {
		case <-time.After(updateEvery):
		case <-r.Context().Done():
			return
		case <-s.ending.Done():
			return
		}
		quiet.Reset(quietFor)
		for waiting := true; waiting; {
			select {
			case _, open := <-changed:
				if !open {
					return // the session has ended
				}
				waiting = false
			case <-quiet.C:
				_ = control.SetWriteDeadline(time.Now().Add(sendLimit))
				if _, err := fmt.Fprint(w, ": quiet\n\n"); err != nil || control.Flush() != nil {
					return
				}
				quiet.Reset(quietFor)
			case <-r.Context().Done():
				return
			case <-s.ending.Done():
				return
			}
		}
	}
}

// follower makes the updates of a session.
type follower struct {
	session *Session
	before  *View
	last    uint64 // the last event that was told
	hub     *hub   // whose events they were: a run that is made anew begins anew
}

// next makes an update, false where nothing has happened since the last one.
func (f *follower) next() (*Update, bool) {
	state, view, h := f.session.moment()
	if h != f.hub {
		f.hub, f.last = h, 0
		if f.before != nil {
			f.last = h.lastEvent() // what is run again was told
		}
	} else if f.before != nil && f.before.Version == view.Version {
		return nil, false
	}
	u := &Update{State: state, View: view, Changes: []Change{}}
	if f.before != nil {
		u.Changes, _ = diff(f.before, view)
	}
	u.Events, f.last, u.Lost = f.session.happened(h, f.last, maxEventsAnswered)
	f.before = view
	return u, true
}
