package clock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var start = time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)

func TestTimersFireInOrderAtTheirDeadlines(t *testing.T) {
	v := NewVirtual(start)
	var fired []string
	at := func(name string, d time.Duration) Timer {
		return v.AfterFunc(d, func() {
			require.Equal(t, start.Add(max(0, d)), v.Now())
			fired = append(fired, name)
		})
	}
	at("c", 3*time.Second)
	at("a", time.Second)
	at("b1", 2*time.Second)
	at("b2", 2*time.Second)
	at("now", -time.Second)
	stopped := at("stopped", time.Second)
	require.True(t, stopped.Stop())
	require.False(t, stopped.Stop())

	next, ok := v.NextDeadline()
	require.True(t, ok)
	require.Equal(t, start, next)
	v.Advance(2*time.Second - 1)
	require.Equal(t, []string{"now", "a"}, fired)
	v.Advance(1)
	require.Equal(t, []string{"now", "a", "b1", "b2"}, fired, "a deadline is inclusive, and equal ones fire in the order in which they were armed")
	v.Advance(time.Hour)
	require.Equal(t, []string{"now", "a", "b1", "b2", "c"}, fired)
	require.Equal(t, start.Add(time.Hour+2*time.Second), v.Now())
	_, ok = v.NextDeadline()
	require.False(t, ok)
}

func TestTimersArmTimers(t *testing.T) {
	v := NewVirtual(start)
	var fired []time.Duration
	var again func()
	again = func() {
		fired = append(fired, v.Now().Sub(start))
		v.AfterFunc(time.Second, again)
	}
	v.AfterFunc(time.Second, again)
	v.Advance(3 * time.Second)
	require.Equal(t, []time.Duration{time.Second, 2 * time.Second, 3 * time.Second}, fired)
}

func TestAdvanceToNextStopsAtTheNextTimerOrTheLimit(t *testing.T) {
	v := NewVirtual(start)
	var fired []string
	for name, d := range map[string]time.Duration{"a": time.Second, "b": 3 * time.Second} {
		v.AfterFunc(d, func() { fired = append(fired, name) })
	}
	limit := start.Add(2 * time.Second)
	v.AdvanceToNext(limit)
	require.Equal(t, start.Add(time.Second), v.Now())
	require.Equal(t, []string{"a"}, fired)
	v.AdvanceToNext(limit)
	require.Equal(t, limit, v.Now(), "the next timer is after the limit")
	v.AdvanceToNext(start)
	require.Equal(t, limit, v.Now(), "time does not go back")
	require.Equal(t, []string{"a"}, fired)
	v.AdvanceToNext(start.Add(3 * time.Second))
	require.Equal(t, []string{"a", "b"}, fired, "the limit is inclusive")
	v.AdvanceToNext(start.Add(time.Minute))
	require.Equal(t, start.Add(time.Minute), v.Now(), "no timer is left")
}

func TestAFiredTimerIsNotOwed(t *testing.T) {
	v := NewVirtual(start)
	var timer Timer
	timer = v.AfterFunc(time.Second, func() { require.False(t, timer.Stop()) })
	v.Advance(time.Second)
	require.False(t, timer.Stop())
	require.Panics(t, func() { v.Advance(-1) })
}

// Whatever is armed and stopped, timers fire in the order of (deadline, arming), each once, and never after Stop.
func TestRandomTimers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := NewVirtual(start)
		type armed struct {
			timer    Timer
			deadline time.Time
			done     bool
		}
		var all []*armed
		last, lastIndex := start, -1
		t.Repeat(map[string]func(*rapid.T){
			"arm": func(t *rapid.T) {
				d := time.Duration(rapid.IntRange(0, 5).Draw(t, "s")) * time.Second
				a := &armed{deadline: v.Now().Add(d)}
				index := len(all)
				a.timer = v.AfterFunc(d, func() {
					require.False(t, a.done)
					require.Equal(t, a.deadline, v.Now())
					require.False(t, a.deadline.Before(last))
					if a.deadline.Equal(last) && lastIndex >= 0 && all[lastIndex].deadline.Equal(a.deadline) {
						require.Greater(t, index, lastIndex)
					}
					a.done, last, lastIndex = true, a.deadline, index
				})
				all = append(all, a)
			},
			"stop": func(t *rapid.T) {
				if len(all) == 0 {
					t.Skip("none")
				}
				a := rapid.SampledFrom(all).Draw(t, "timer")
				require.Equal(t, !a.done, a.timer.Stop())
				a.done = true
			},
			"advance": func(t *rapid.T) {
				v.Advance(time.Duration(rapid.IntRange(0, 3).Draw(t, "s")) * time.Second)
				for _, a := range all {
					require.Equal(t, !a.deadline.After(v.Now()) || a.done, a.done, "due means done")
				}
			},
		})
	})
}
