package pagetest

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

// serve starts a kshare serve and tells where its Kafka and its HTTP interface are.
func serve(t *testing.T, args ...string) (bootstrap, web string) {
	t.Helper()
	web, stop, err := start(append([]string{"serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"}, args...)...)
	require.NoError(t, err)
	t.Cleanup(stop)
	r, err := http.Get(web + "/v1/cluster")
	require.NoError(t, err)
	defer r.Body.Close()
	var answer struct {
		Nodes []struct{ Address string }
	}
	require.NoError(t, decode(r.Body, &answer))
	require.NotEmpty(t, answer.Nodes)
	return answer.Nodes[0].Address, web
}

// A page that watches a cluster goes on being usable while a client drains it, and keeps no more than it may.
func TestWatching(t *testing.T) {
	records := 1_000_000
	if testing.Short() {
		records = 50_000
	}
	bootstrap, web := serve(t, "--topic", "orders:3")
	r, err := http.Post(web+"/v1/scenarios", "application/json", strings.NewReader(`{"text": "config group workers share.auto.offset.reset=earliest\n"}`))
	require.NoError(t, err)
	_ = r.Body.Close()
	require.Equal(t, http.StatusOK, r.StatusCode)
	p := newTab(t, 1440, 900)
	p.server = web
	p.open("")
	p.button("Watch the running cluster")
	p.until(`document.querySelectorAll(".lane").length === 3`)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	producer, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.DefaultProduceTopic("orders"), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	require.NoError(t, err)
	defer producer.Close()
	value := []byte(strings.Repeat("x", 20))
	for range records {
		producer.Produce(ctx, &kgo.Record{Value: value}, nil)
	}
	require.NoError(t, producer.Flush(ctx))
	p.until(`document.querySelector(".lane .facts").textContent.includes("%s") || [...document.querySelectorAll(".lane .facts")].some(e => e.textContent.length > 30)`, "log")

	// how long the page keeps who clicks waiting: the time between two frames while all of it goes on
	js[any](p, `window.gaps = []; (f => { let last = performance.now(); requestAnimationFrame(function g(now) { window.gaps.push(now - last); last = now; requestAnimationFrame(g); }); })()`)
	consumer, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.ConsumeTopics("orders"), kgo.ShareGroup("workers"))
	require.NoError(t, err)
	defer consumer.Close()
	began := time.Now()
	for n := 0; n < records; {
		fetches := consumer.PollFetches(ctx)
		require.NoError(t, fetches.Err0())
		n += fetches.NumRecords()
	}
	took := time.Since(began)
	// filters, tabs and lanes answer meanwhile and afterwards
	p.until(`document.querySelector('[data-filter="api"]').querySelector('option[value="ShareFetch"]')`)
	p.filter("api", "ShareFetch")
	p.until(`[...document.querySelectorAll(".row.request")].every(e => e.innerText.includes("ShareFetch")) && document.querySelector(".row.request")`)
	p.click("#tab-state", "")
	p.until(`document.getElementById("panel-log").innerText.includes("ShareUpdate") || document.getElementById("panel-log").innerText.includes("ShareSnapshot")`)
	gaps := js[[]float64](p, `(a => [a[a.length >> 1], a[Math.floor(a.length * .99)], a.at(-1)])(window.gaps.sort((a, b) => a - b))`)
	t.Logf("%d records drained in %s; between two frames of the page %.0f ms in the middle, %.0f ms in 99 of 100, %.0f ms at most", records, took.Round(time.Millisecond), gaps[0], gaps[1], gaps[2])
	assert.LessOrEqual(t, js[int](p, `document.querySelectorAll("*").length`), 2500)
	js[any](p, `window.gc()`)
	heap, err := chromedp.Call(p.ctx, runtime.GetHeapUsage, cdp.Empty{})
	require.NoError(t, err)
	t.Logf("the page's heap: %.1f MB", heap.UsedSize/1e6)
	assert.Less(t, heap.UsedSize, 60e6)

	// who only watches changes nothing
	assert.True(t, js[bool](p, `document.querySelector(".prompt input").disabled`))
	p.click(`.script input[type="checkbox"]`, "")
	p.until(`!document.querySelector(".prompt input").disabled`)
	p.command("topic extra")
	p.until(`[...document.querySelectorAll(".lane h3")].some(e => e.textContent === "extra-0")`)
}

// A page that is open for days keeps as much as one that is open for an hour: whatever was sent, it remembers the last of it.
func TestBounds(t *testing.T) {
	bootstrap, web := serve(t, "--topic", "orders:1")
	p := newTab(t, 1440, 900)
	p.server = web
	p.open("#live")
	p.until(`document.querySelector(".lane")`)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.DefaultProduceTopic("orders"), kgo.ProducerLinger(0), kgo.MaxProduceRequestsInflightPerBroker(1))
	require.NoError(t, err)
	defer client.Close()
	// a page that has drawn no line yet has no height there
	lines := func() int {
		return js[int](p, `(parseInt(document.querySelector(".rows .fill").style.height) || 0) / 22`)
	}
	// requests of their own until the page is full, and as many again
	const full = 5000
	sent, reached := 0, 0
	for reached == 0 || sent < 2*reached {
		require.Less(t, sent, 200_000, "the page has %d lines only", lines())
		for range 200 {
			require.NoError(t, client.ProduceSync(ctx, &kgo.Record{Value: fmt.Append(nil, sent)}).FirstErr())
			sent++
		}
		if reached == 0 && lines() >= full {
			reached = sent
		}
	}
	t.Logf("%d requests sent, %d lines kept", sent, lines())
	assert.LessOrEqual(t, lines(), full+2000) // events and changes
	assert.LessOrEqual(t, js[int](p, `document.querySelectorAll("*").length`), 2000)
}
