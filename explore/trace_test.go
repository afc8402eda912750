package explore

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "write what was traced into testdata")

func trace(t require.TestingT, script string) []byte {
	var b bytes.Buffer
	require.NoError(t, Export(context.Background(), script, &b))
	return b.Bytes()
}

// A trace is the same bytes whenever a script is run, and holds what it held.
func TestTrace(t *testing.T) {
	script, err := os.ReadFile("testdata/trace.txt")
	require.NoError(t, err)
	got := trace(t, string(script))
	if *update {
		require.NoError(t, os.WriteFile("testdata/trace.ndjson", got, 0o644))
	}
	want, err := os.ReadFile("testdata/trace.ndjson")
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
}

// What a trace says of records follows from one event to the next, its events are in their order, and it is a function of the script.
func TestTracesFollow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		script := strings.Join(commandsOf(t), "\n\n")
		b := trace(t, script)
		require.Equal(t, string(b), string(trace(t, script)))
		type partition struct {
			known      bool
			start, end int64
			states     map[int64]string
		}
		partitions := map[string]*partition{}
		n := 0
		var before TraceEvent
		for line := range strings.Lines(string(b)) {
			var e TraceEvent
			require.NoError(t, json.Unmarshal([]byte(line), &e), line)
			n++
			require.Equal(t, n, e.N)
			require.False(t, e.Time.Before(before.Time), line)
			require.GreaterOrEqual(t, e.Command, before.Command)
			before = e
			if e.Group == "" || e.Action == "state-record" {
				continue
			}
			key := e.Group + " " + partitionText(e.Topic, *e.Partition)
			p := partitions[key]
			if p == nil || e.Action == "load" || e.Action == "forget" {
				p = &partition{states: map[int64]string{}}
				partitions[key] = p
			}
			if e.Action == "forget" {
				require.Nil(t, e.Start, line)
				continue
			}
			require.NotNil(t, e.Start, line)
			for _, r := range e.Records {
				require.LessOrEqual(t, r.First, r.Last, line)
				for o := r.First; o <= r.Last; o++ {
					was := p.states[o]
					if was == "" {
						was = available
					}
					require.Equal(t, was, r.From, "offset %d: %s", o, line)
					p.states[o] = r.State
				}
			}
			if p.known {
				require.GreaterOrEqual(t, *e.Start, p.start, line)
			}
			p.known, p.start, p.end = true, *e.Start, *e.End
			for o, state := range p.states {
				require.Equal(t, o < p.start, state == done, "offset %d is %s: %s", o, state, line)
			}
		}
	})
}
