package connect

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"kshare"
)

// sinkCase is a case of testdata/connect/cases.json, which docs/kip-1302.md describes: what a worker of the KIP does, whichever language it is written in.
type sinkCase struct {
	Name, What, KIP string
	Broker          map[string]string
	Connector       map[string]string
	Produce         []string            // one batch
	Put             map[string][]string // what a put with the value in it does, the first time, the second, ...
	Expect          struct {
		Written     []string
		Tried       map[string]int   // puts with the value
		Deliveries  map[string]int16 // the highest delivery count of the value
		DeadLetters map[string]int   // by topic
		State       State            // of a task: FAILED where one has
		Trace       string           // is in its trace
		Left        int64            // records that the group has not done with
	}
}

func cases(t *testing.T) (all []sinkCase) {
	file, err := os.Open("../testdata/connect/cases.json")
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	d := json.NewDecoder(file)
	d.DisallowUnknownFields()
	require.NoError(t, d.Decode(&all))
	return all
}

// behave is what the case's sink does.
func (c *sinkCase) behave(sink *testSink) func(context.Context, int, []*SinkRecord) error {
	return func(_ context.Context, _ int, records []*SinkRecord) error {
		for _, v := range valuesOf(records) {
			script, n := c.Put[v], sink.tried(v)
			if n > len(script) {
				continue
			}
			switch what := script[n-1]; {
			case what == "retriable":
				return Retriable(errors.New("later"))
			case what == "fatal":
				return errors.New("never")
			default:
				d, err := time.ParseDuration(strings.TrimPrefix(what, "slow "))
				if err != nil {
					return err
				}
				time.Sleep(d)
			}
		}
		return nil
	}
}

func TestCases(t *testing.T) {
	for _, c := range cases(t) {
		t.Run(c.Name, func(t *testing.T) {
			var options []kshare.Option
			for key, v := range c.Broker {
				options = append(options, kshare.WithConfig(key, v))
			}
			inBubble(t, func(h *house) {
				sink := &testSink{}
				sink.put = c.behave(sink)
				w, _ := h.worker(sink)
				defer w.Close()
				properties := config()
				for key, v := range c.Connector {
					properties[key] = v
				}
				require.NoError(h.t, w.Put(properties))
				h.eventually(time.Minute, func() bool { return len(states(w)) > 0 }, "it starts")
				time.Sleep(20 * time.Second) // all members have learned of each other
				h.batch("orders", c.Produce...)
				failed := func() bool { return slices.Contains(states(w), Failed) }
				h.eventually(10*time.Minute, func() bool {
					return failed() == (c.Expect.State == Failed) && h.lag("connect-copy", "orders") == c.Expect.Left && len(sink.all()) >= len(c.Expect.Written)
				}, "it comes to what is expected")
				time.Sleep(40 * time.Second) // nothing comes after it
				assert.ElementsMatch(h.t, c.Expect.Written, sink.all())
				for v, n := range c.Expect.Tried {
					assert.Equal(h.t, n, sink.tried(v), "puts with %s", v)
				}
				for v, n := range c.Expect.Deliveries {
					assert.Equal(h.t, n, sink.delivered(v), "deliveries of %s", v)
				}
				for topic, n := range c.Expect.DeadLetters {
					assert.Len(h.t, h.read(topic), n, topic)
				}
				assert.Equal(h.t, c.Expect.State == Failed, failed())
				assert.Contains(h.t, trace(w), c.Expect.Trace)
				assert.Equal(h.t, c.Expect.Left, h.lag("connect-copy", "orders"))
			}, options...)
		})
	}
}
