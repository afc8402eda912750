package explore

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"kshare"
	"kshare/internal/jsonhttp"
	"kshare/kip1289"
	"kshare/scenario"
)

//go:embed page
var page embed.FS

// Prefix is below which everything is that the explorer serves.
const Prefix = "/explore/"

// prefix is below which the requests of the page are.
const prefix = Prefix + "api/"

// Options are how the explorer is served.
type Options struct {
	// Live is the running cluster that can be looked at, nil for none.
	Live *kshare.Cluster
	// Names are the host names that clients may use besides localhost and addresses.
	Names []string
	// Log is where it is said what went wrong in the process, nil for nowhere.
	Log *slog.Logger
}

// Server serves the page and what it asks for.
type Server struct {
	sessions *sessions
	handler  http.Handler
	ending   context.Context
	end      context.CancelFunc
}

// NewServer makes a server, which Close ends.
func NewServer(o Options) *Server {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{sessions: newSessions(o.Live)}
	s.ending, s.end = context.WithCancel(context.Background())
	guard := &jsonhttp.Guard{Names: o.Names, Log: o.Log}
	s.handler = guard.Wrap(s.routes())
	return s
}

// ServeHTTP implements http.Handler for paths below Prefix.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Close ends all sessions and streams.
func (s *Server) Close() error {
	s.end()
	return s.sessions.close()
}

// route answers a request with what a function returns, nothing for nil.
func route[Q any](mux *http.ServeMux, pattern string, f func(ctx context.Context, q *Q) (any, error)) {
	method, path, _ := strings.Cut(pattern, " ")
	mux.HandleFunc(method+" "+prefix+path, func(w http.ResponseWriter, r *http.Request) {
		q := new(Q)
		if err := jsonhttp.Decode(w, r, q); err != nil {
			jsonhttp.Fail(w, err)
			return
		}
		a, err := f(r.Context(), q)
		switch {
		case err != nil:
			fail(w, err)
		case a == nil:
			w.WriteHeader(http.StatusNoContent)
		default:
			jsonhttp.Write(w, http.StatusOK, a)
		}
	})
}

// problem is the answer to a request that failed because of a mistake in a script.
type problem struct {
	Error string `json:"error"`
	Line  int    `json:"line"` // of the script
}

// fail answers with an error.
func fail(w http.ResponseWriter, err error) {
	var m *scenario.Mistake
	var r *jsonhttp.Refusal
	switch {
	case errors.As(err, &m):
		jsonhttp.Write(w, http.StatusBadRequest, problem{m.Reason, m.Line})
	case errors.As(err, &r), errors.Is(err, context.Canceled):
		jsonhttp.Fail(w, err)
	default:
		jsonhttp.Fail(w, jsonhttp.Refuse(http.StatusConflict, "%v", err))
	}
}

// Requests. The tags are those of package jsonhttp.
type (
	noFields struct{}
	byID     struct {
		ID string `path:"id"`
	}
	makeSession struct {
		Script string `json:"script,omitempty"`
		Tour   string `json:"tour,omitempty"`
	}
	newScript struct {
		ID     string `path:"id"`
		Script string `json:"script"`
	}
	stepsSince struct {
		ID    string `path:"id"`
		Since int    `query:"since,omitempty"`
	}
	doCommand struct {
		ID      string `path:"id"`
		Command string `json:"command"`
		Write   bool   `json:"write,omitempty"`
	}
	manySteps struct {
		ID    string `path:"id"`
		Steps *int64 `json:"steps,omitempty"`
	}
	goTo struct {
		ID   string `path:"id"`
		Step int    `json:"step"`
	}
	move struct {
		ID          string         `path:"id"`
		By          *time.Duration `json:"by,omitempty"`
		ToNextTimer bool           `json:"toNextTimer,omitempty"`
		Join        bool           `json:"join,omitempty"`
		Write       bool           `json:"write,omitempty"`
	}
	eventsSince struct {
		ID    string `path:"id"`
		Since uint64 `query:"since,omitempty"`
		Limit int    `query:"limit,omitempty"`
	}
	oneEvent struct {
		ID string `path:"id"`
		N  uint64 `path:"n"`
	}
	recordsFrom struct {
		ID        string `path:"id"`
		Topic     string `query:"topic"`
		Partition int32  `query:"partition"`
		Offset    int64  `query:"offset,omitempty"`
		Limit     int    `query:"limit,omitempty"`
	}
	completeLine struct {
		ID   string `path:"id"`
		Line string `query:"line,omitempty"`
	}
	byName struct {
		Name string `path:"name"`
	}
)

// Ran is the answer to what runs commands: the steps that were run, and what can be seen afterwards.
type Ran struct {
	State State  `json:"state"`
	Steps []Step `json:"steps"`
	View  *View  `json:"view"`
	// Differing is how many blocks of a script show something else than it says.
	Differing int `json:"differing"`
}

func ran(s *Session, steps []Step, differing int) *Ran {
	if steps == nil {
		steps = []Step{}
	}
	state, view := s.Now()
	return &Ran{state, steps, view, differing}
}

// routes are the paths that there are.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	route(mux, "GET sessions", s.getSessions)
	route(mux, "POST sessions", s.postSessions)
	route(mux, "GET sessions/{id}", withID(s, func(x *Session, _ *byID) (any, error) { return x.State(), nil }))
	route(mux, "DELETE sessions/{id}", func(_ context.Context, q *byID) (any, error) { return nil, s.sessions.remove(q.ID) })
	route(mux, "GET sessions/{id}/steps", func(_ context.Context, q *stepsSince) (any, error) {
		x, err := s.sessions.find(q.ID)
		if err != nil {
			return nil, err
		}
		return map[string]any{"steps": x.Steps(q.Since)}, nil
	})
	route(mux, "POST sessions/{id}/do", s.do)
	route(mux, "POST sessions/{id}/undo", s.undo)
	route(mux, "POST sessions/{id}/redo", s.redo)
	route(mux, "POST sessions/{id}/go", s.goTo)
	route(mux, "POST sessions/{id}/move", s.move)
	route(mux, "GET sessions/{id}/script", withID(s, func(x *Session, _ *byID) (any, error) {
		text, err := x.Script()
		return map[string]any{"script": text}, err
	}))
	route(mux, "PUT sessions/{id}/script", s.putScript)
	route(mux, "GET sessions/{id}/view", withID(s, func(x *Session, _ *byID) (any, error) { return x.View(), nil }))
	route(mux, "GET sessions/{id}/events", s.events)
	route(mux, "GET sessions/{id}/events/{n}", func(_ context.Context, q *oneEvent) (any, error) {
		x, err := s.sessions.find(q.ID)
		if err != nil {
			return nil, err
		}
		d, err := x.Event(q.N)
		if err != nil {
			return nil, jsonhttp.Refuse(http.StatusNotFound, "%v", err)
		}
		return d, nil
	})
	route(mux, "GET sessions/{id}/records", s.records)
	route(mux, "GET sessions/{id}/complete", func(_ context.Context, q *completeLine) (any, error) {
		x, err := s.sessions.find(q.ID)
		if err != nil {
			return nil, err
		}
		from, candidates := x.Complete(q.Line)
		return map[string]any{"from": from, "candidates": candidates}, nil
	})
	mux.HandleFunc("GET "+prefix+"sessions/{id}/stream", s.stream)
	route(mux, "GET commands", func(context.Context, *noFields) (any, error) {
		return map[string]any{"commands": scenario.Commands()}, nil
	})
	route(mux, "GET switches", func(context.Context, *noFields) (any, error) { return map[string]any{"switches": switches()}, nil })
	route(mux, "GET tours", func(context.Context, *noFields) (any, error) { return map[string]any{"tours": tourTitles()}, nil })
	route(mux, "GET tours/{name}", func(_ context.Context, q *byName) (any, error) {
		t := findTour(q.Name)
		if t == nil {
			return nil, noTour(q.Name)
		}
		return t, nil
	})
	mux.HandleFunc(prefix, func(w http.ResponseWriter, r *http.Request) {
		jsonhttp.Fail(w, jsonhttp.Refuse(http.StatusNotFound, "there is nothing at %s %s; docs/explore-api.md lists what there is", jsonhttp.Clip(r.Method), jsonhttp.Clip(r.URL.Path)))
	})
	files, err := fs.Sub(page, "page")
	if err != nil {
		panic(err) // it is embedded
	}
	static := http.StripPrefix(Prefix, http.FileServerFS(files))
	mux.HandleFunc(Prefix, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			jsonhttp.Fail(w, jsonhttp.Refuse(http.StatusMethodNotAllowed, "the page is there for GET alone"))
			return
		}
		w.Header().Set("Content-Security-Policy", pagePolicy)
		static.ServeHTTP(w, r)
	})
	return mux
}

// withID finds the session of a request.
func withID(s *Server, f func(*Session, *byID) (any, error)) func(context.Context, *byID) (any, error) {
	return func(_ context.Context, q *byID) (any, error) {
		x, err := s.sessions.find(q.ID)
		if err != nil {
			return nil, err
		}
		return f(x, q)
	}
}

func (s *Server) getSessions(context.Context, *noFields) (any, error) {
	all, err := s.sessions.all()
	if err != nil {
		return nil, err
	}
	states := []State{}
	for _, x := range all {
		states = append(states, x.State())
	}
	return map[string]any{"sessions": states}, nil
}

func (s *Server) postSessions(ctx context.Context, q *makeSession) (any, error) {
	if q.Tour != "" && findTour(q.Tour) == nil {
		return nil, noTour(q.Tour)
	}
	x, err := s.sessions.add()
	if err != nil {
		return nil, err
	}
	if q.Script == "" {
		return ran(x, nil, 0), nil
	}
	steps, differing, err := x.Edit(ctx, q.Script)
	if err != nil {
		return nil, errors.Join(err, s.sessions.remove(x.ID))
	}
	return ran(x, steps, differing), nil
}

// writable finds a session and refuses to change a running cluster unless that is meant.
func (s *Server) writable(id string, write bool) (*Session, error) {
	x, err := s.sessions.find(id)
	if err == nil && x.Live() && !write {
		err = jsonhttp.Refuse(http.StatusConflict, `this is a running cluster, at which clients of others may be at work: "write": true does it all the same`)
	}
	return x, err
}

func (s *Server) do(ctx context.Context, q *doCommand) (any, error) {
	x, err := s.writable(q.ID, q.Write)
	if err != nil {
		return nil, err
	}
	step, err := x.Do(ctx, q.Command)
	if err != nil {
		return nil, err
	}
	return ran(x, []Step{step}, 0), nil
}

// count is how many steps are meant, 1 unless said.
func (q *manySteps) count() (int, error) {
	if q.Steps == nil {
		return 1, nil
	}
	if *q.Steps < 1 || *q.Steps > MaxCommands {
		return 0, jsonhttp.Refuse(http.StatusBadRequest, "steps: %d is not a number from 1 to %d", *q.Steps, MaxCommands)
	}
	return int(*q.Steps), nil
}

func (s *Server) undo(_ context.Context, q *manySteps) (any, error) {
	x, err := s.sessions.find(q.ID)
	if err != nil {
		return nil, err
	}
	n, err := q.count()
	if err == nil {
		_, err = x.Undo(n)
	}
	if err != nil {
		return nil, err
	}
	return ran(x, nil, 0), nil
}

func (s *Server) redo(ctx context.Context, q *manySteps) (any, error) {
	x, err := s.sessions.find(q.ID)
	if err != nil {
		return nil, err
	}
	n, err := q.count()
	if err != nil {
		return nil, err
	}
	steps, err := x.Redo(ctx, n)
	if err != nil {
		return nil, err
	}
	return ran(x, steps, 0), nil
}

func (s *Server) goTo(ctx context.Context, q *goTo) (any, error) {
	x, err := s.sessions.find(q.ID)
	if err != nil {
		return nil, err
	}
	if q.Step < 0 {
		return nil, jsonhttp.Refuse(http.StatusBadRequest, "step: %d is below 0, the beginning", q.Step)
	}
	steps, err := x.Go(ctx, q.Step)
	if err != nil {
		return nil, err
	}
	return ran(x, steps, 0), nil
}

func (s *Server) move(ctx context.Context, q *move) (any, error) {
	x, err := s.writable(q.ID, q.Write)
	if err != nil {
		return nil, err
	}
	var step Step
	switch {
	case (q.By != nil) == q.ToNextTimer:
		err = jsonhttp.Refuse(http.StatusBadRequest, `"by" says how long time is moved, or "toNextTimer": true until something is due: one of both`)
	case q.ToNextTimer:
		step, err = x.ToNextTimer(ctx, q.Join)
	default:
		step, err = x.Move(ctx, *q.By, q.Join)
	}
	if err != nil {
		return nil, err
	}
	return ran(x, []Step{step}, 0), nil
}

func (s *Server) putScript(ctx context.Context, q *newScript) (any, error) {
	x, err := s.sessions.find(q.ID)
	if err != nil {
		return nil, err
	}
	_, differing, err := x.Edit(ctx, q.Script)
	if err != nil {
		return nil, err
	}
	return ran(x, x.Steps(0), differing), nil
}

// maxEventsAnswered bounds the events of an answer that was not asked for more.
const maxEventsAnswered = 500

func (s *Server) events(_ context.Context, q *eventsSince) (any, error) {
	x, err := s.sessions.find(q.ID)
	if err != nil {
		return nil, err
	}
	if q.Limit == 0 {
		q.Limit = maxEventsAnswered
	}
	if q.Limit < 1 || q.Limit > MaxEvents {
		return nil, jsonhttp.Refuse(http.StatusBadRequest, "limit: %d is not a number from 1 to %d", q.Limit, MaxEvents)
	}
	events, last, lost := x.Events(q.Since, q.Limit)
	return map[string]any{"events": events, "last": last, "lost": lost}, nil
}

// maxRecordsAnswered bounds the records of an answer.
const maxRecordsAnswered = 1000

func (s *Server) records(_ context.Context, q *recordsFrom) (any, error) {
	x, err := s.sessions.find(q.ID)
	if err != nil {
		return nil, err
	}
	if q.Limit == 0 {
		q.Limit = 100
	}
	if q.Limit < 1 || q.Limit > maxRecordsAnswered || q.Offset < 0 {
		return nil, jsonhttp.Refuse(http.StatusBadRequest, "limit is a number from 1 to %d, and offset 0 or more", maxRecordsAnswered)
	}
	records, start, end, err := x.Records(q.Topic, q.Partition, q.Offset, q.Limit)
	if err != nil {
		return nil, jsonhttp.Refuse(http.StatusNotFound, "%v", err)
	}
	return map[string]any{"records": records, "startOffset": start, "endOffset": end}, nil
}

// Switch is a switch of KIP-1289.
type Switch struct {
	Name    string `json:"name"`
	Subject string `json:"subject"`
	Default string `json:"default"`
	Sides   []Side `json:"sides"`
}

// Side is one choice of a switch.
type Side struct {
	Value string `json:"value"` // "N" stands for a number
	Does  string `json:"does"`
	Says  string `json:"says"`
}

func switches() []Switch {
	all := []Switch{}
	for i := range kip1289.List {
		s := &kip1289.List[i]
		x := Switch{Name: s.Name, Subject: s.Subject, Default: s.Default(), Sides: []Side{}}
		for _, side := range s.Sides {
			x.Sides = append(x.Sides, Side(side))
		}
		all = append(all, x)
	}
	return all
}

func tourTitles() []json.RawMessage {
	all := []json.RawMessage{}
	for _, t := range Tours() {
		t.Steps = []TourStep{}
		b, _ := json.Marshal(t) // text alone
		all = append(all, b)
	}
	return all
}

func findTour(name string) *Tour {
	for _, t := range Tours() {
		if t.Name == name {
			return &t
		}
	}
	return nil
}

func noTour(name string) error {
	var names []string
	for _, t := range Tours() {
		names = append(names, t.Name)
	}
	return jsonhttp.Refuse(http.StatusNotFound, "there is no tour %q%s; GET tours lists them", jsonhttp.Clip(name), suggest(jsonhttp.Clip(name), names))
}
