package replay

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestJudge alters what is not in an answer's fields: how a step ended, how many answers came, how long it took.
func TestJudge(t *testing.T) {
	s, err := Load(vectors, "connection")
	require.NoError(t, err)
	p := &player{session: s, script: &Script{}, compare: newComparer(s, noon)}
	asRecorded := func(st *Step) *Played {
		least, _ := st.waitBounds()
		return &Played{Step: st, Outcome: st.Outcome, Answers: st.Answers, Took: least}
	}
	fields := func(r *Played) (fields []string) {
		p.compareStep(r)
		for _, d := range r.Diffs {
			fields = append(fields, d.Field)
		}
		return fields
	}
	for _, st := range s.Steps {
		r := asRecorded(st)
		assert.Empty(t, fields(r), "step %s", st)

		for _, o := range []Outcome{Answered, AnsweredClosed, AnsweredSilent, Closed, Silent} {
			if o != st.Outcome {
				r = asRecorded(st)
				r.Outcome = o
				assert.Contains(t, fields(r), "outcome", "step %s", st)
			}
		}
		if len(st.Answers) > 0 {
			r = asRecorded(st)
			r.Answers = r.Answers[1:]
			assert.Contains(t, fields(r), "frames", "step %s", st)
		}
		_, most := st.waitBounds()
		r = asRecorded(st)
		r.Took = most + time.Millisecond
		assert.Contains(t, fields(r), "wait", "step %s", st)
	}
}

// TestWaitBounds shows the rule for waits on recorded steps of each kind.
func TestWaitBounds(t *testing.T) {
	for _, x := range []struct {
		session, step string
		least, most   time.Duration // most 0: the recorded time and the rounding
	}{
		{"fetch", "at-end-min-1", 500 * time.Millisecond, 500 * time.Millisecond}, // waits MaxWait out
		{"fetch", "v18", 0, 0},                                                                              // data is there
		{"fetch", "wake-append", 164685 * time.Microsecond, 0},                                              // woken after 300 ms
		{"fetch", "wake-delete-records", 1500 * time.Millisecond, 1500 * time.Millisecond},                  // not woken
		{"share", "two-m2-woken-by-disconnect", 5 * time.Second, 5 * time.Second},                           // not woken
		{"share", "fetch-before-group-exists", 0, 0},                                                        // a slow machine's
		{"groups", "second-join", 59805 * time.Microsecond, 0},                                              // until the first rejoins
		{"produce", "create-topic-pr", 0, 0},                                                                // a slow machine's
		{"connection", "length-only-half", 500330 * time.Microsecond, 0},                                    // silence
		{"offsets", "describe-v1-unknown-topic", 0, 0},                                                      // answered at once
		{"offsets", "describe-v1-only-unknown-partition", 14388140500 * time.Nanosecond, 0},                 // 30 s, not a machine's
		{"connection", "pipelined-fetch-then-api-versions", 800 * time.Millisecond, 800 * time.Millisecond}, // raw
	} {
		s, err := Load(vectors, x.session)
		require.NoError(t, err)
		for _, st := range s.Steps {
			if st.Name == x.step {
				least, most := st.waitBounds()
				if x.most == 0 {
					x.most = st.Took + roundingError
				}
				assert.Equal(t, x.least.String(), least.String(), "%s %s took %v", x.session, st, st.Took)
				assert.Equal(t, x.most.String(), most.String(), "%s %s", x.session, st)
			}
		}
	}
}
