package explore

import (
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"slices"
	"sync"
	"time"

	"kshare"
	"kshare/internal/jsonhttp"
)

// Bounds of the sessions of a server.
const (
	MaxSessions = 16
	MaxStreams  = 16
	// MaxIdle is how long a session may rest before it ends, LookAway how long after the last look the running cluster is followed no longer.
	MaxIdle  = 6 * time.Hour
	LookAway = 30 * time.Second
)

// liveID is the id of the session that is the running cluster.
const liveID = "live"

// sessions are those of a server. It may be used from several goroutines.
type sessions struct {
	cluster *kshare.Cluster // nil where none runs

	mu      sync.Mutex
	byID    map[string]*held
	streams int
	looking int // streams of the running cluster
	live    *Session
	away    *time.Timer // ends the look at the running cluster, nil while nobody looks
	looked  time.Time   // the last time that somebody did
	closed  bool
}

// held is a session and when it was last used.
type held struct {
	session *Session
	used    time.Time
}

func newSessions(c *kshare.Cluster) *sessions { return &sessions{cluster: c, byID: map[string]*held{}} }

// add makes a session of an empty script. Where there are as many as there may be, the one that was used the longest time ago ends.
func (s *sessions) add() (*Session, error) {
	var b [8]byte
	rand.Read(b[:]) // never fails
	made := New()
	made.ID = hex.EncodeToString(b[:])
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		_ = made.Close() // nothing of it has begun
		return nil, jsonhttp.Refuse(http.StatusServiceUnavailable, "kshare ends")
	}
	ended := s.idle()
	for len(s.byID) >= MaxSessions {
		oldest := ""
		for id, h := range s.byID {
			if oldest == "" || h.used.Before(s.byID[oldest].used) {
				oldest = id
			}
		}
		ended = append(ended, s.byID[oldest].session)
		delete(s.byID, oldest)
	}
	s.byID[made.ID] = &held{made, time.Now()}
	s.mu.Unlock()
	return made, closeAll(ended)
}

// idle takes out the sessions that have rested for too long. The lock is held.
func (s *sessions) idle() (ended []*Session) {
	for id, h := range s.byID {
		if time.Since(h.used) > MaxIdle {
			ended = append(ended, h.session)
			delete(s.byID, id)
		}
	}
	return ended
}

func closeAll(all []*Session) (err error) {
	for _, x := range all {
		if e := x.Close(); err == nil {
			err = e
		}
	}
	return err
}

// find returns a session, which counts as used.
func (s *sessions) find(id string) (*Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if id == liveID {
		return s.look()
	}
	h := s.byID[id]
	if h == nil || time.Since(h.used) > MaxIdle {
		return nil, jsonhttp.Refuse(http.StatusNotFound, "there is no session %q: it has ended, or was never there; POST sessions makes one", jsonhttp.Clip(id))
	}
	h.used = time.Now()
	return h.session, nil
}

// look returns the session of the running cluster, which is followed for a while from now on. The lock is held.
func (s *sessions) look() (*Session, error) {
	switch {
	case s.cluster == nil:
		return nil, jsonhttp.Refuse(http.StatusNotFound, "no cluster runs here: kshare serve --http has one")
	case s.closed:
		return nil, jsonhttp.Refuse(http.StatusServiceUnavailable, "kshare ends")
	case s.live == nil:
		s.live = NewLive(s.cluster)
		s.live.ID = liveID
		s.away = time.AfterFunc(LookAway, s.lookAway)
	}
	s.looked = time.Now()
	return s.live, nil
}

// lookAway ends the look at the running cluster if nobody has looked for long enough.
func (s *sessions) lookAway() {
	s.mu.Lock()
	live := s.live
	switch left := LookAway - time.Since(s.looked); {
	case live == nil:
		s.mu.Unlock()
		return
	case s.looking > 0 || left > 0:
		s.away.Reset(max(left, time.Second))
		s.mu.Unlock()
		return
	}
	s.live, s.away = nil, nil
	s.mu.Unlock()
	_ = live.Close() // the cluster is told nothing any more; it is another's
}

// remove ends a session.
func (s *sessions) remove(id string) error {
	s.mu.Lock()
	h := s.byID[id]
	delete(s.byID, id)
	s.mu.Unlock()
	if h == nil {
		return jsonhttp.Refuse(http.StatusNotFound, "there is no session %q that can be ended", jsonhttp.Clip(id))
	}
	return h.session.Close()
}

// all are the sessions, the running cluster first, then in the order of their ids.
func (s *sessions) all() ([]*Session, error) {
	s.mu.Lock()
	ended := s.idle()
	var all []*Session
	for _, h := range s.byID {
		all = append(all, h.session)
	}
	slices.SortFunc(all, func(a, b *Session) int { return compare(a.ID, b.ID) })
	if s.cluster != nil && !s.closed {
		if live, err := s.look(); err == nil {
			all = append([]*Session{live}, all...)
		}
	}
	s.mu.Unlock()
	return all, closeAll(ended)
}

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// stream counts a stream of a session until done is called.
func (s *sessions) stream(x *Session) (done func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.streams >= MaxStreams {
		return nil, jsonhttp.Refuse(http.StatusConflict, "%d streams are open, which is all that there may be: close another page", MaxStreams)
	}
	s.streams++
	if x.Live() {
		s.looking++
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.streams--
		if x.Live() {
			s.looking--
			s.looked = time.Now()
		} else if h := s.byID[x.ID]; h != nil {
			h.used = time.Now()
		}
	}, nil
}

// close ends all sessions.
func (s *sessions) close() error {
	s.mu.Lock()
	var all []*Session
	for _, h := range s.byID {
		all = append(all, h.session)
	}
	if s.live != nil {
		all = append(all, s.live)
		s.away.Stop()
	}
	s.closed, s.live = true, nil
	clear(s.byID)
	s.mu.Unlock()
	return closeAll(all)
}
