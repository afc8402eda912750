package control_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"kshare"
	"kshare/control"
)

// What a web page could have a browser send is refused, what programs send is not.
func TestBrowsersOfOthersAreRefused(t *testing.T) {
	a := newAPI(t)
	for _, c := range []struct {
		name, host string
		headers    map[string]string
		status     int
	}{
		{"a program", "127.0.0.1:8080", nil, 200},
		{"localhost", "localhost:8080", nil, 200},
		{"IPv6", "[::1]:8080", nil, 200},
		{"IPv6 without a port", "[::1]", nil, 200},
		{"another address, as a container's", "10.1.2.3:8080", nil, 200},
		{"a name that was told", "KSHARE.test:8080", nil, 200},
		{"the page itself", "localhost:8080", map[string]string{"Origin": "http://localhost:8080", "Sec-Fetch-Site": "same-origin"}, 200},
		{"an address typed by the user", "localhost:8080", map[string]string{"Sec-Fetch-Site": "none"}, 200},
		{"a name that leads here", "evil.example:8080", nil, 403},
		{"a name that looks like ours", "localhost.evil.example", nil, 403},
		{"no name", "", nil, 403},
		{"another origin", "localhost:8080", map[string]string{"Origin": "http://evil.example"}, 403},
		{"another port", "localhost:8080", map[string]string{"Origin": "http://localhost:9999"}, 403},
		{"another scheme", "localhost:8080", map[string]string{"Origin": "https://localhost:8080"}, 403},
		{"a sandboxed frame", "localhost:8080", map[string]string{"Origin": "null"}, 403},
		{"a link or picture of another page", "localhost:8080", map[string]string{"Sec-Fetch-Site": "cross-site"}, 403},
		{"a neighbour", "localhost:8080", map[string]string{"Sec-Fetch-Site": "same-site"}, 403},
	} {
		for _, target := range []string{"/v1/cluster", "/openapi.json", "/metrics", "/nothing"} {
			r := request(t, http.MethodGet, target, nil)
			r.Host = c.host
			for name, value := range c.headers {
				r.Header.Set(name, value)
			}
			want := c.status
			if target == "/nothing" && want == 200 {
				want = 404
			}
			w := a.do(r)
			assert.Equal(t, want, w.Code, "%s %s: %s", c.name, target, w.Body)
			assert.Empty(t, w.Header().Get("Access-Control-Allow-Origin"))
			assert.Equal(t, "no-store", w.Header().Get("Cache-Control"))
		}
	}
	preflight := request(t, http.MethodOptions, "/v1/reset", nil)
	preflight.Header.Set("Access-Control-Request-Method", "POST")
	require.Equal(t, http.StatusMethodNotAllowed, a.do(preflight).Code)
	for _, kind := range []string{"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/jsonp", ";"} {
		r := request(t, http.MethodPost, "/v1/reset", "{}")
		r.Header.Set("Content-Type", kind)
		require.Equal(t, http.StatusUnsupportedMediaType, a.do(r).Code, kind)
	}
	r := request(t, http.MethodPost, "/v1/reset", "{}")
	r.Header.Set("Content-Type", "application/json; charset=utf-8")
	require.Equal(t, http.StatusNoContent, a.do(r).Code)
}

func TestHostileRequests(t *testing.T) {
	a := newAPI(t)
	long := strings.Repeat("x", 100_000)
	for _, c := range []struct {
		name, method, target, body string
		status                     int
		reason                     string
	}{
		{"a path that is not there", "GET", "/v1/clusters", "", 404, "/openapi.json lists"},
		{"a long path", "GET", "/" + long, "", 404, "there is nothing at"},
		{"a method that is not taken", "PUT", "/v1/faults", "{}", 405, "takes GET or POST or DELETE"},
		{"a long method", strings.ToUpper(long), "/v1/cluster", "", 405, "takes GET"},
		{"a field that is not there", "POST", "/v1/time/advance", `{"by":"1s","until":1}`, 400, `no field "until" here; there are by`},
		{"a field in another case", "POST", "/v1/time/advance", `{"By":"1s"}`, 400, `no field "By" here: did you mean by?; there are by`},
		{"a long field", "POST", "/v1/time/advance", `{"` + long + `":1}`, 400, "there are by"},
		{"a field where there are none", "POST", "/v1/reset", `{"hard":true}`, 400, `no field "hard" here; there are none`},
		{"a field twice", "POST", "/v1/time/advance", `{"by":"1s","by":"2h"}`, 400, `"by" is there twice`},
		{"null", "POST", "/v1/time/advance", `{"by":null}`, 400, `"by" is null`},
		{"a list for text", "POST", "/v1/time/advance", `{"by":["1s"]}`, 400, "is not a duration as text"},
		{"text for a number", "POST", "/v1/leader", `{"topic":"orders","partition":"0","to":1}`, 400, `partition: "0" is not a whole number of 32 bits`},
		{"a fraction", "POST", "/v1/leader", `{"topic":"orders","partition":0.5,"to":1}`, 400, "partition: 0.5 is not a whole number"},
		{"a number that is too large", "POST", "/v1/leader", `{"topic":"orders","partition":99999999999,"to":1}`, 400, "is not a whole number of 32 bits"},
		{"text for yes or no", "POST", "/v1/leader", `{"topic":"orders","partition":0,"to":1,"hint":"no"}`, 400, "is not true or false"},
		{"a list", "POST", "/v1/reset", `[]`, 400, "no JSON object"},
		{"a word", "POST", "/v1/reset", `"reset"`, 400, "no JSON object"},
		{"no JSON", "POST", "/v1/reset", `reset`, 400, "no JSON: at byte"},
		{"half of an object", "POST", "/v1/reset", `{"a":`, 400, "it ends too early"},
		{"two objects", "POST", "/v1/reset", `{}{}`, 400, "something behind"},
		{"deep objects", "POST", "/v1/faults", strings.Repeat(`{"a":`, 17) + "1" + strings.Repeat("}", 17), 400, "more than 16 deep"},
		{"deep lists", "POST", "/v1/faults", `{"a":` + strings.Repeat("[", 200_000), 400, "more than 16 deep"},
		{"a long body", "POST", "/v1/scenarios", `{"text":"` + strings.Repeat("#", 2<<20) + `"}`, 413, "it may have 1048576"},
		{"a zero byte in a path", "GET", "/v1/%00", "", 404, "there is nothing"},
		{"a number beyond all", "DELETE", "/v1/faults/99999999999999999999", "", 400, "is not a whole number of 64 bits"},
	} {
		w := a.do(request(t, c.method, c.target, c.body))
		assert.Equal(t, c.status, w.Code, "%s: %s", c.name, w.Body)
		assert.Contains(t, w.Body.String(), strings.ReplaceAll(c.reason, `"`, `\"`), c.name)
		assert.Less(t, w.Body.Len(), 1000, "%s: an error does not repeat all that it was sent", c.name)
		assert.Equal(t, "application/json", w.Header().Get("Content-Type"), c.name)
	}
	require.NotEmpty(t, a.run("produce orders-0 a\n"), "the cluster is as good as before")
}

// A body without a length is bounded too.
func TestEndlessBody(t *testing.T) {
	a := newAPI(t)
	r := request(t, http.MethodPost, "/v1/scenarios", "")
	r.Body, r.ContentLength = io.NopCloser(io.MultiReader(strings.NewReader(`{"text":"`), endless{})), -1
	require.Equal(t, http.StatusRequestEntityTooLarge, a.do(r).Code)
	r = request(t, http.MethodPost, "/v1/reset", "")
	r.Body, r.ContentLength = io.NopCloser(broken{}), -1
	w := a.do(r)
	require.Equal(t, http.StatusBadRequest, w.Code)
	require.Contains(t, w.Body.String(), "the body cannot be read")
}

type endless struct{}

func (endless) Read(b []byte) (int, error) { return copy(b, bytes.Repeat([]byte("x"), len(b))), nil }

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// A panic is an answer and a line of the log, and the next request is served.
func TestPanicIsCaught(t *testing.T) {
	var log bytes.Buffer
	handler := control.Handler(&kshare.Cluster{}, control.Options{Log: slog.New(slog.NewTextHandler(&log, nil))}) // which was never started
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, request(t, http.MethodGet, "/v1/cluster", nil))
	require.Equal(t, http.StatusInternalServerError, w.Code)
	require.Contains(t, w.Body.String(), "its log says more")
	require.NotContains(t, w.Body.String(), "nil pointer", "what the process is like inside is for the log")
	require.Contains(t, log.String(), "nil pointer")
	w = httptest.NewRecorder()
	handler.ServeHTTP(w, request(t, http.MethodGet, "/openapi.json", nil))
	require.Equal(t, http.StatusOK, w.Code)
}

// Everything at once, with clients attached: under the race detector this is the test of the interface's locks.
func TestEverythingAtOnce(t *testing.T) {
	a := newAPI(t, kshare.WithBrokers(2), kshare.WithConfig("default.replication.factor", "2"))
	ctx, cancel := context.WithCancel(context.Background())
	var clients sync.WaitGroup
	for _, group := range []kgo.Opt{kgo.ShareGroup("workers"), kgo.ConsumerGroup("readers")} {
		client, err := kgo.NewClient(kgo.SeedBrokers(a.cluster.Addrs()...), kgo.Dialer(a.cluster.Dial), kgo.ConsumeTopics("orders"), group)
		require.NoError(t, err)
		clients.Go(func() {
			defer client.Close()
			for ctx.Err() == nil {
				client.PollFetches(ctx)
			}
		})
	}
	var all sync.WaitGroup
	for _, c := range [][3]string{
		{"GET", "/v1/cluster"}, {"GET", "/v1/topics"}, {"GET", "/v1/groups"}, {"GET", "/v1/requests?limit=5"}, {"GET", "/v1/faults"}, {"GET", "/v1/share-write-faults"},
		{"GET", "/v1/share-partition?group=workers&topic=orders&partition=0"},
		{"POST", "/v1/time/advance", `{"by":"7s"}`}, {"POST", "/v1/time/advance-to-next-timer", ""}, {"POST", "/v1/reset", ""},
		{"POST", "/v1/faults", `{"text":"api=Fetch times=1 error=UNKNOWN_SERVER_ERROR"}`}, {"DELETE", "/v1/faults", ""},
		{"POST", "/v1/share-write-faults", `{"hold":true,"count":1}`}, {"DELETE", "/v1/share-write-faults/1", ""},
		{"POST", "/v1/nodes/2/stop", ""}, {"POST", "/v1/nodes/2/start", ""}, {"POST", "/v1/nodes/1/cut", ""}, {"POST", "/v1/nodes/1/heal", ""},
		{"POST", "/v1/leader", `{"topic":"orders","partition":0,"to":2}`}, {"POST", "/v1/scenarios", `{"text":"produce orders-0 a\n"}`},
	} {
		all.Go(func() {
			for range 20 {
				r := httptest.NewRequest(c[0], c[1], strings.NewReader(c[2]))
				r.Host = "localhost"
				r.Header.Set("Content-Type", "application/json")
				w := a.do(r)
				assert.Less(t, w.Code, 500, "%s %s: %s", c[0], c[1], w.Body)
			}
		})
	}
	all.Wait()
	cancel()
	a.post("/v1/reset", nil, nil)
	clients.Wait()
	require.NotEmpty(t, a.run("produce orders-0 a\n"))
}

// Over a network the server ends what runs with itself, and leaves nothing behind.
func TestServerClose(t *testing.T) {
	a := newAPI(t)
	server := control.Server(a.cluster, control.Options{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error)
	go func() { served <- server.Serve(l) }()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	answer, err := client.Get("http://" + l.Addr().String() + "/v1/time")
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.NoError(t, server.Close())
	require.ErrorIs(t, <-served, http.ErrServerClosed)
}
