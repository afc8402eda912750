package conformance_test

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"kshare"
	"kshare/conformance"
)

// broken are the rules of a level that a report has as broken.
func broken(r *conformance.Report) []string {
	return append(append([]string{}, r.Failures...), r.Warnings...)
}

func show(t *testing.T, r *conformance.Report) string {
	var text []byte
	for _, rr := range r.Rules {
		if rr.Verdict == conformance.Fail || rr.Verdict == conformance.Warn {
			b, err := json.MarshalIndent(rr, "", " ")
			require.NoError(t, err)
			text = append(text, b...)
		}
	}
	return string(text)
}

// The reference client breaks nothing, alone and beside another, on one node and on three.
func TestReferenceClientKeepsEveryRule(t *testing.T) {
	for name, opts := range map[string][]kshare.Option{"one node": nil, "three nodes": {kshare.WithBrokers(3)}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, opts...)
			a, b := w.consumer("a"), w.consumer("b")
			a.steady()
			b.join()
			for range 12 {
				w.produce(0, 3)
				for _, c := range []*consumer{a, b} {
					for _, n := range c.nodes() {
						c.poll(n)
						if len(c.order(c.sessions[n])) > 0 {
							c.accept(n)
						}
					}
					c.pass(time.Second)
				}
			}
			for _, n := range a.nodes() {
				a.poll(n)
			}
			a.leave()
			b.pass(6 * time.Second)
			b.leave()
			r := w.report()
			require.Empty(t, broken(r), show(t, r))
			require.GreaterOrEqual(t, r.Summary[conformance.Pass], 40)
		})
	}
}

// The same frames give the same report.
func TestFramesJudgedAgainGiveTheSameReport(t *testing.T) {
	w := newWorld(t, kshare.WithBrokers(3))
	a := w.consumer("a")
	a.steady()
	q := a.share(a.nodes()[0])
	q.ShareSessionEpoch += 5
	a.send(a.nodes()[0], q)
	a.leave()
	first, err := json.Marshal(w.report())
	require.NoError(t, err)
	require.Contains(t, string(first), `"failures":["share.session.epoch.2"]`)
	again := conformance.New(conformance.Options{})
	for _, f := range w.frames {
		again.Observe(f)
	}
	second, err := json.Marshal(again.Report(w.clock.Now()))
	require.NoError(t, err)
	require.JSONEq(t, string(first), string(second))
	require.Equal(t, first, second)
}

// Frames with wrong bits in the middle of a session stop no judge, and the same wrong bits give the same report.
func TestWrongBitsStopNoJudge(t *testing.T) {
	w := newWorld(t, kshare.WithBrokers(3))
	a := w.consumer("a")
	a.steady()
	for range 5 {
		w.produce(0, 3)
		for _, n := range a.nodes() {
			a.poll(n)
			if len(a.order(a.sessions[n])) > 0 {
				a.accept(n)
			}
		}
	}
	a.leave()
	for seed := range uint64(40) {
		var reports [2][]byte
		for i := range reports {
			draw := rand.New(rand.NewPCG(seed, 1))
			j := conformance.New(conformance.Options{})
			for _, f := range w.frames {
				f.Bytes = slices.Clone(f.Bytes)
				if len(f.Bytes) > 0 && draw.IntN(8) == 0 {
					f.Bytes[draw.IntN(len(f.Bytes))] ^= 1 << draw.IntN(8)
				}
				j.Observe(f)
			}
			var err error
			reports[i], err = json.Marshal(j.Report(w.clock.Now().Add(time.Minute)))
			require.NoError(t, err)
		}
		require.Equal(t, string(reports[0]), string(reports[1]), "seed %d", seed)
	}
}
