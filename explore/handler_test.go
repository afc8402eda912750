package explore

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"kshare"
	"kshare/clock"
)

// site is a server that is asked without a network.
type site struct {
	t      *testing.T
	server *Server
}

func newSite(t *testing.T, o Options) *site {
	s := &site{t, NewServer(o)}
	t.Cleanup(func() { require.NoError(t, s.server.Close()) })
	return s
}

// send sends a request, as a page of the server's own does.
func (s *site) send(method, path, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://localhost:8080"+path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Origin", "http://localhost:8080")
	for i := 0; i < len(headers); i += 2 {
		if r.Header.Set(headers[i], headers[i+1]); headers[i] == "Host" {
			r.Host = headers[i+1]
		}
	}
	w := httptest.NewRecorder()
	s.server.ServeHTTP(w, r)
	return w
}

// ask sends a request below the API that succeeds.
func (s *site) ask(method, path string, body, answer any) {
	s.t.Helper()
	text, err := json.Marshal(body)
	require.NoError(s.t, err)
	w := s.send(method, prefix+path, string(text))
	require.Less(s.t, w.Code, 300, w.Body.String())
	if answer != nil {
		require.NoError(s.t, json.Unmarshal(w.Body.Bytes(), answer))
	}
}

// refused sends a request below the API that is refused, and returns why.
func (s *site) refused(status int, method, path string, body any) string {
	s.t.Helper()
	text, err := json.Marshal(body)
	require.NoError(s.t, err)
	w := s.send(method, prefix+path, string(text))
	require.Equal(s.t, status, w.Code, w.Body.String())
	var p problem
	require.NoError(s.t, json.Unmarshal(w.Body.Bytes(), &p))
	require.NotEmpty(s.t, p.Error)
	return p.Error
}

type object = map[string]any

func (s *site) session(commands ...string) (id string) {
	s.t.Helper()
	var r Ran
	s.ask("POST", "sessions", object{"script": strings.Join(commands, "\n\n")}, &r)
	return r.State.ID
}

var acquired = []string{"topic orders", "config group workers share.auto.offset.reset=earliest", "produce orders-0 a b c", "join workers m1 orders", "fetch workers m1"}

// A page makes a session, runs commands, goes back and forth, and has the script.
func TestSessionOverHTTP(t *testing.T) {
	s := newSite(t, Options{})
	var made Ran
	s.ask("POST", "sessions", object{}, &made)
	require.NotEmpty(t, made.State.ID)
	require.Empty(t, made.Steps)
	require.NotNil(t, made.View.Topics)
	at := "sessions/" + made.State.ID
	var r Ran
	for i, c := range acquired {
		s.ask("POST", at+"/do", object{"command": c}, &r)
		require.Len(t, r.Steps, 1)
		require.Equal(t, i+1, r.Steps[0].N)
		require.Equal(t, i+1, r.State.Steps)
	}
	require.Equal(t, []string{"orders-0: acquired 0-2 count 1, lock 30s", "  0 a | 1 b | 2 c"}, r.Steps[0].Shown)
	require.Len(t, r.View.SharePartitions, 1)
	run := r.View.SharePartitions[0].Runs
	require.Len(t, run, 1)
	require.Equal(t, "ACQUIRED 0-2 m1 1", fmt.Sprintf("%s %d-%d %s %d", run[0].State, run[0].First, run[0].Last, run[0].Member, run[0].DeliveryCount))
	require.Equal(t, "2027-01-01T00:00:30Z", run[0].LockEnds.Format(time.RFC3339))

	s.ask("POST", at+"/move", object{"toNextTimer": true}, &r)
	require.Equal(t, "advance 30s", r.Steps[0].Command)
	require.Equal(t, "AVAILABLE", r.View.SharePartitions[0].Runs[0].State)
	s.ask("POST", at+"/move", object{"by": "1s", "join": true}, &r)
	require.Equal(t, "advance 31s", r.Steps[0].Command)
	require.Equal(t, 6, r.State.Steps)
	s.ask("POST", at+"/undo", object{"steps": 2}, &r)
	require.Equal(t, [3]int{4, 4, 2}, [3]int{r.State.Steps, r.State.Undoes, r.State.Redoes})
	s.ask("POST", at+"/redo", object{}, &r)
	require.Equal(t, "fetch workers m1", r.Steps[0].Command)
	s.ask("POST", at+"/go", object{"step": 0}, &r)
	require.Empty(t, r.View.Topics)
	s.ask("POST", at+"/go", object{"step": 6}, &r)
	require.Len(t, r.Steps, 6)

	var script struct{ Script string }
	s.ask("GET", at+"/script", nil, &script)
	require.Contains(t, script.Script, "fetch workers m1\n----\norders-0: acquired 0-2 count 1, lock 30s\n")
	s.ask("PUT", at+"/script", object{"script": strings.Replace(script.Script, "0-2 count 1", "0-3 count 1", 1)}, &r)
	require.Equal(t, 1, r.Differing)
	require.Len(t, r.Steps, 6)
	s.ask("GET", at+"/steps?since=5", nil, &struct{ Steps []Step }{})

	var events struct {
		Events     []Event
		Last, Lost uint64
	}
	s.ask("GET", at+"/events?limit=3", nil, &events)
	require.Len(t, events.Events, 3)
	require.Equal(t, events.Last, events.Events[2].N)
	answer := events.Events[2]
	require.Equal(t, "answer ShareFetch m1 orders-0", fmt.Sprintf("%s %s %s %s", answer.Kind, answer.API, strings.Join(answer.Members, ","), strings.Join(answer.Partitions, ",")))
	require.Equal(t, 5, answer.Command)
	var decoded struct{ Fields object }
	s.ask("GET", fmt.Sprintf("%s/events/%d", at, answer.N), nil, &decoded)
	require.Contains(t, decoded.Fields, "Topics")
	var records struct {
		Records                []Record
		StartOffset, EndOffset int64
	}
	s.ask("GET", at+"/records?topic=orders&partition=0&offset=1", nil, &records)
	require.Len(t, records.Records, 2)
	require.Equal(t, "b", *records.Records[0].Value)
	require.EqualValues(t, 3, records.EndOffset)

	var all struct{ Sessions []State }
	s.ask("GET", "sessions", nil, &all)
	require.Len(t, all.Sessions, 1)
	s.ask("DELETE", at, nil, nil)
	require.Contains(t, s.refused(404, "GET", at+"/view", nil), "there is no session")
	require.Contains(t, s.refused(404, "DELETE", at, nil), "there is no session")
}

// What is wrong is said with its line, and changes nothing.
func TestMistakesOverHTTP(t *testing.T) {
	s := newSite(t, Options{})
	id := s.session(acquired...)
	at := "sessions/" + id
	sight := func() string { return s.send("GET", prefix+at+"/script", "").Body.String() }
	before := sight()
	for _, x := range []struct {
		status             int
		method, path, want string
		body               any
	}{
		{400, "POST", "/do", `there is no command "fech": did you mean fetch?`, object{"command": "fech workers m1"}},
		{400, "POST", "/do", "a command is one line", object{"command": "groups\ngroups"}},
		{400, "POST", "/do", "there is no command in it", object{"command": "# only a comment"}},
		{400, "POST", "/do", "cluster comes before every other command", object{"command": "cluster brokers=2"}},
		{400, "POST", "/do", `the script makes no group "worker": did you mean workers?`, object{"command": "fetch worker m1"}},
		{400, "POST", "/do", `there is no field "comand" here: did you mean command?`, object{"comand": "groups"}},
		{400, "PUT", "/script", "there is no command", object{"script": "topic orders\n\nfrobnicate"}},
		{400, "PUT", "/script", "nothing runs under the name f", object{"script": "topic orders\n\nwait f"}},
		{400, "PUT", "/script", "a zero byte", object{"script": "topic orders\x00"}},
		{400, "POST", "/undo", "steps: 0 is not a number", object{"steps": 0}},
		{400, "POST", "/go", "step: -1 is below 0", object{"step": -1}},
		{400, "POST", "/move", "one of both", object{}},
		{409, "POST", "/move", "not by -1s", object{"by": "-1s"}},
		{400, "GET", "/events?limit=10001", "limit: 10001", nil},
		{404, "GET", "/events/999", "there is no event 999", nil},
		{404, "GET", "/records?topic=order&partition=0", "there is no partition order-0", nil},
		{404, "GET", "/nothing", "there is nothing at GET", nil},
	} {
		require.Contains(t, s.refused(x.status, x.method, at+x.path, x.body), x.want)
		require.Equal(t, before, sight(), x.want)
	}
	w := s.send("PUT", prefix+at+"/script", `{"script":"topic orders\n\n# a comment\n\nwait f"}`)
	require.JSONEq(t, `{"error":"nothing runs under the name f","line":5}`, w.Body.String())
	require.Contains(t, s.refused(404, "GET", "sessions/live", nil), "no cluster runs here")
	require.Contains(t, s.refused(404, "POST", "sessions", object{"tour": "a-poison-recort"}), "did you mean a-poison-record?")
}

// Pages of others, and hosts whose names lead here, get nothing, as from the control interface.
func TestStrangersOverHTTP(t *testing.T) {
	s := newSite(t, Options{Names: []string{"kshare"}})
	for _, path := range []string{prefix + "sessions", Prefix, prefix + "commands"} {
		for _, h := range [][2]string{{"Origin", "http://evil.example"}, {"Origin", "null"}, {"Host", "evil.example"}, {"Sec-Fetch-Site", "cross-site"}} {
			require.Equal(t, 403, s.send("GET", path, "", h[0], h[1]).Code, h)
		}
	}
	require.Equal(t, 200, s.send("GET", Prefix, "", "Host", "kshare:8080", "Origin", "http://kshare:8080").Code)
	require.Equal(t, 415, s.send("POST", prefix+"sessions", "{}", "Content-Type", "text/plain").Code)
	require.Equal(t, 413, s.send("POST", prefix+"sessions", `{"script":"`+strings.Repeat("#", 1<<20)+`"}`).Code)
	page := s.send("GET", Prefix, "")
	require.Equal(t, pagePolicy, page.Header().Get("Content-Security-Policy"))
	require.Equal(t, "nosniff", page.Header().Get("X-Content-Type-Options"))
	require.Contains(t, page.Body.String(), "<title>kshare")
}

// There are so many sessions: a further one ends the one that was used the longest time ago, and one that rests for too long ends.
func TestSessionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, Options{})
		defer s.server.Close()
		var ids []string
		for range MaxSessions {
			ids = append(ids, s.session("topic orders"))
			time.Sleep(time.Minute)
		}
		s.ask("GET", "sessions/"+ids[0], nil, nil)
		s.session("topic orders")
		s.ask("GET", "sessions/"+ids[0], nil, nil)
		s.refused(404, "GET", "sessions/"+ids[1], nil)
		time.Sleep(MaxIdle - time.Second)
		s.ask("GET", "sessions/"+ids[0], nil, nil)
		time.Sleep(2 * time.Second)
		s.ask("GET", "sessions/"+ids[0], nil, nil)
		s.refused(404, "GET", "sessions/"+ids[15], nil)
		var all struct{ Sessions []State }
		s.ask("GET", "sessions", nil, &all)
		require.Len(t, all.Sessions, 1)
	})
}

// page reads a stream in a bubble.
type reading struct {
	http.ResponseWriter
	header  http.Header
	updates []Update
	at      []time.Time
	quiet   int
}

func (r *reading) Header() http.Header { return r.header }
func (*reading) WriteHeader(int)       {}
func (*reading) Flush()                {}
func (r *reading) Write(b []byte) (int, error) {
	lines := bufio.NewScanner(strings.NewReader(string(b)))
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			var u Update
			if err := json.Unmarshal([]byte(data), &u); err != nil {
				return 0, err
			}
			r.updates, r.at = append(r.updates, u), append(r.at, time.Now())
		}
		if strings.HasPrefix(lines.Text(), ":") {
			r.quiet++
		}
	}
	return len(b), nil
}

// stream reads the stream of a session until stop is called.
func (s *site) stream(id string) (r *reading, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	r = &reading{header: http.Header{}}
	q := httptest.NewRequestWithContext(ctx, "GET", "http://localhost"+prefix+"sessions/"+id+"/stream", nil)
	go s.server.ServeHTTP(r, q)
	return r, cancel
}

// A stream tells all that happens in updates that are a tenth of a second apart, and no more than there are.
func TestStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, Options{})
		defer s.server.Close()
		id := s.session("topic orders")
		r, stop := s.stream(id)
		synctest.Wait()
		require.Len(t, r.updates, 1, "one at once")
		for range 50 {
			s.ask("POST", "sessions/"+id+"/do", object{"command": "produce orders-0 a"}, nil)
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		require.InDelta(t, 6, len(r.updates), 1, "fifty changes within half a second")
		for i := 1; i < len(r.at); i++ {
			require.GreaterOrEqual(t, r.at[i].Sub(r.at[i-1]), updateEvery)
		}
		last := r.updates[len(r.updates)-1]
		require.EqualValues(t, 50, last.View.Topics[len(last.View.Topics)-1].Partitions[0].EndOffset)
		events, next := 0, uint64(1)
		for _, u := range r.updates {
			for _, e := range u.Events {
				require.Equal(t, next, e.N)
				next++
				events++
			}
		}
		require.EqualValues(t, last.State.LastEvent, events, "all events, once")
		require.Contains(t, texts(last.Changes)[0], "appended")
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, 4, r.quiet)
		n := len(r.updates)
		s.ask("POST", "sessions/"+id+"/undo", object{}, nil)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Len(t, r.updates, n+1)
		require.Empty(t, r.updates[n].Events, "what is run again is not told again")
		s.ask("DELETE", "sessions/"+id, nil, nil)
		synctest.Wait()
		require.Zero(t, s.server.sessions.streams, "it ends with the session")
		stop()
	})
}

// There are so many streams.
func TestStreamsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, Options{})
		defer s.server.Close()
		id := s.session("topic orders")
		var stops []func()
		for range MaxStreams {
			_, stop := s.stream(id)
			stops = append(stops, stop)
		}
		synctest.Wait()
		require.Contains(t, s.refused(409, "GET", "sessions/"+id+"/stream", nil), "16 streams are open")
		for _, stop := range stops {
			stop()
		}
		synctest.Wait()
		require.Zero(t, s.server.sessions.streams)
	})
}

// A running cluster tells nobody anything until somebody looks, and nobody again once nobody does.
func TestLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := kshare.Start(kshare.WithInMemoryNetwork(), kshare.WithTopic("orders", 1), kshare.WithClock(clock.NewVirtual(time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC))))
		require.NoError(t, err)
		defer c.Close()
		s := newSite(t, Options{Live: c})
		defer s.server.Close()
		require.Nil(t, c.Followed().Follower())
		var v View
		s.ask("GET", "sessions/live/view", nil, &v)
		require.NotNil(t, c.Followed().Follower())
		require.Equal(t, "orders", v.Topics[0].Name)
		require.Contains(t, s.refused(409, "POST", "sessions/live/do", object{"command": "produce orders-0 a"}), `"write": true`)
		require.Contains(t, s.refused(409, "POST", "sessions/live/undo", object{}), "nothing to undo")
		require.Contains(t, s.refused(409, "GET", "sessions/live/script", nil), "has no script")
		require.Contains(t, s.refused(409, "PUT", "sessions/live/script", object{"script": ""}), "has no script")
		r, stop := s.stream("live")
		synctest.Wait()
		var ran Ran
		s.ask("POST", "sessions/live/do", object{"command": "produce orders-0 a", "write": true}, &ran)
		require.Equal(t, []string{"orders-0: offset 0"}, ran.Steps[0].Shown)
		time.Sleep(time.Second)
		synctest.Wait()
		last := r.updates[len(r.updates)-1]
		require.Contains(t, texts(last.Changes), "orders-0: offsets 0 appended")
		require.NotEmpty(t, last.Events)
		time.Sleep(time.Hour)
		require.NotNil(t, c.Followed().Follower(), "a stream looks")
		stop()
		time.Sleep(LookAway + time.Minute)
		synctest.Wait()
		require.Nil(t, c.Followed().Follower())
		s.ask("GET", "sessions", nil, nil)
		require.NotNil(t, c.Followed().Follower())
	})
}

// Lines are completed from what there is.
func TestComplete(t *testing.T) {
	s := newSite(t, Options{})
	id := s.session(append([]string{"cluster kip1289=on"}, append(acquired, "init-producer p1 txn=payments", "fault slow api=Produce delay=1s")...)...)
	for line, want := range map[string]string{
		"fet":                        "fetch",
		"fetch w":                    "workers",
		"fetch workers ":             "m1 orders-0", // a partition may come, and the option that it may be
		"fetch workers m1 mode=":     "batch_optimized record_limit",
		"ack workers m1 o":           "orders-0",
		"ack workers m1 orders-0 0":  "0-2=accept 0-2=release 0-2=reject",
		"ack workers m1 orders-0 0=": "accept release reject renew gap",
		"txn-end ":                   "p1",
		"txn-end p1 ":                "commit abort",
		"txn-describe ":              "payments",
		"produce or":                 "orders-0",
		"unfault ":                   "slow",
		"advance 3":                  "30s",
		"join workers m2 ":           "orders",
		"nonsense ":                  "",
	} {
		var c struct {
			From       int
			Candidates []Candidate
		}
		s.ask("GET", "sessions/"+id+"/complete?line="+url.QueryEscape(line), nil, &c)
		var got []string
		for _, x := range c.Candidates {
			got = append(got, x.Text)
		}
		if want == "" {
			require.Empty(t, got, line)
			continue
		}
		require.Subset(t, append(got, "orders-0"), strings.Fields(want), line)
		require.True(t, strings.HasPrefix(strings.Fields(want)[0], line[c.From:]), line)
	}
}

// What does not change is there: commands, switches, tours.
func TestCatalogs(t *testing.T) {
	s := newSite(t, Options{})
	var commands struct{ Commands []object }
	s.ask("GET", "commands", nil, &commands)
	require.Greater(t, len(commands.Commands), 50)
	require.Contains(t, commands.Commands[0], "usage")
	var switches struct{ Switches []Switch }
	s.ask("GET", "switches", nil, &switches)
	require.Len(t, switches.Switches, 16)
	require.Equal(t, "95", switches.Switches[0].Default)
	var tours struct{ Tours []Tour }
	s.ask("GET", "tours", nil, &tours)
	require.NotEmpty(t, tours.Tours)
	var tour Tour
	s.ask("GET", "tours/"+tours.Tours[0].Name, nil, &tour)
	require.NotEmpty(t, tour.Steps)
	require.Contains(t, s.refused(404, "GET", "tours/none", nil), "there is no tour")
}
