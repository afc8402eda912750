package control_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"kshare"
	"kshare/clock"
	"kshare/control"
	"kshare/internal/jsonhttp"
)

// When all tests have run, each operation of the document has been seen to succeed.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if code == 0 && flag.Lookup("test.run").Value.String() == "" && flag.Lookup("test.list").Value.String() == "" {
			for _, name := range unseen() {
				fmt.Println("no test has seen this succeed:", name)
				code = 1
			}
		}
		os.Exit(code)
	}))
}

var began = time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)

// api is an interface that is called without a network.
type api struct {
	t       *testing.T
	cluster *kshare.Cluster
	handler http.Handler
}

// newAPI starts a cluster on a virtual clock, unless an option says otherwise, with a topic orders of one partition.
func newAPI(t *testing.T, opts ...kshare.Option) *api {
	t.Helper()
	all := append([]kshare.Option{kshare.WithInMemoryNetwork(), kshare.WithClock(clock.NewVirtual(began)), kshare.WithTopic("orders", 1), kshare.WithRequestLog(100)}, opts...)
	cluster, err := kshare.Start(all...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Close()) })
	return &api{t, cluster, control.Handler(cluster, control.Options{Names: []string{"kshare.test"}})}
}

// request makes a request as a program makes it. A body that is no text is written as JSON.
func request(t *testing.T, method, target string, body any) *http.Request {
	t.Helper()
	text, is := body.(string)
	if !is && body != nil {
		b, err := json.Marshal(body)
		require.NoError(t, err)
		text = string(b)
	}
	r := httptest.NewRequest(method, target, strings.NewReader(text))
	r.Host = "127.0.0.1:8080"
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	return r
}

func (a *api) do(r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	a.handler.ServeHTTP(w, r)
	return w
}

// call makes a request that succeeds and reads its answer, which keeps to the document.
func (a *api) call(method, target string, body, answer any) {
	a.t.Helper()
	w := a.do(request(a.t, method, target, body))
	require.Less(a.t, w.Code, 300, "%s %s: %s", method, target, w.Body)
	checkAnswer(a.t, method, target, w)
	if answer != nil {
		require.NoError(a.t, json.Unmarshal(w.Body.Bytes(), answer))
	}
}

func (a *api) get(target string, answer any) {
	a.t.Helper()
	a.call(http.MethodGet, target, nil, answer)
}
func (a *api) post(target string, body, answer any) {
	a.t.Helper()
	a.call(http.MethodPost, target, body, answer)
}

// refused makes a request that is refused and returns the error.
func (a *api) refused(status int, method, target string, body any) string {
	a.t.Helper()
	w := a.do(request(a.t, method, target, body))
	require.Equal(a.t, status, w.Code, "%s %s: %s", method, target, w.Body)
	checkAnswer(a.t, method, target, w)
	var p jsonhttp.Problem
	require.NoError(a.t, json.Unmarshal(w.Body.Bytes(), &p))
	require.NotEmpty(a.t, p.Error)
	return p.Error
}

// run runs a scenario and returns what its commands have shown, by lines.
func (a *api) run(text string) []string {
	a.t.Helper()
	var r control.ScenarioReport
	a.post("/v1/scenarios", map[string]any{"text": text}, &r)
	require.Nil(a.t, r.Stopped)
	var lines []string
	for _, b := range r.Blocks {
		for _, c := range b.Commands {
			lines = append(lines, c.Shown...)
		}
	}
	return lines
}

// hold has a real client produce a record to orders and another one acquire it and keep it.
func (a *api) hold() {
	a.t.Helper()
	client := func(opts ...kgo.Opt) *kgo.Client {
		client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(a.cluster.Addrs()...), kgo.Dialer(a.cluster.Dial), kgo.MaxConcurrentFetches(0)}, opts...)...)
		require.NoError(a.t, err)
		a.t.Cleanup(client.Close)
		return client
	}
	producer := client()
	a.run("config group workers share.auto.offset.reset=earliest\n")
	require.NoError(a.t, producer.ProduceSync(context.Background(), &kgo.Record{Topic: "orders", Value: []byte("a")}).FirstErr())
	worker := client(kgo.ConsumeTopics("orders"), kgo.ShareGroup("workers"), kgo.ClientID("worker"))
	require.Len(a.t, worker.PollFetches(context.Background()).Records(), 1)
}

// acquire has a member m1 of the share group workers hold the record 0 of orders.
const acquire = `config group workers share.auto.offset.reset=earliest
produce orders-0 a
join workers m1 orders
fetch workers m1
`
