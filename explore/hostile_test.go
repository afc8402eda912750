package explore

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"kshare/requestlog"
	"kshare/scenario"
)

// A script that is too long, in bytes or in commands, is refused, at once and as it grows.
func TestScriptsAreBounded(t *testing.T) {
	s := session(t)
	ctx := context.Background()
	_, _, err := s.Edit(ctx, strings.Repeat("#", MaxScript+1))
	require.ErrorContains(t, err, "it may have 1048576")
	_, _, err = s.Edit(ctx, strings.Repeat("groups\n", MaxCommands+1))
	require.ErrorContains(t, err, "it may have 10000")
	_, err = s.Do(ctx, `topic "`+strings.Repeat("a", MaxScript)+`"`)
	require.ErrorContains(t, err, "it may have 1048576")
	s.mu.Lock()
	s.entries = make([]entry, MaxCommands)
	s.mu.Unlock()
	_, err = s.Do(ctx, "groups")
	require.ErrorContains(t, err, "10000 commands at most")
	s.mu.Lock()
	s.entries = nil
	s.mu.Unlock()
}

// A command that is stopped on its way, because its time is over or because nobody waits for it any more, leaves the session as it was.
func TestStoppedCommands(t *testing.T) {
	s := session(t)
	do(t, s, acquired...)
	before := sight(t, s)
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("it took too long"))
	_, err := s.Do(ctx, "advance 24000h")
	require.ErrorContains(t, err, "it took too long")
	require.Equal(t, before, sight(t, s))
	_, _, err = s.Edit(ctx, "topic others")
	require.ErrorContains(t, err, "it took too long")
	require.Equal(t, before, sight(t, s))
	_, err = s.Redo(ctx, 1)
	require.NoError(t, err, "there is nothing to do again")
	n, err := s.Undo(1)
	require.NoError(t, err)
	require.Equal(t, 1, n, "it goes on")
}

// What a command does before it turns out to be a mistake is undone, and what was undone before can still be done again.
func TestMistakesThatShowLate(t *testing.T) {
	s := session(t)
	do(t, s, acquired...)
	_, err := s.Undo(1)
	require.NoError(t, err)
	before := sight(t, s)
	for _, c := range []string{"wait f", "stop-node 7", "cluster brokers=2", "unfault f", "produce orders-0 a producer=p", "txn-end p commit", "move-leader orders-0 9"} {
		_, err := s.Do(context.Background(), c)
		var m *scenario.Mistake
		require.ErrorAs(t, err, &m, c)
		require.Equal(t, 5, m.Line, c)
		require.Equal(t, before, sight(t, s), c)
	}
	steps, err := s.Redo(context.Background(), 1)
	require.NoError(t, err)
	require.Len(t, steps, 1)
}

// A member that nobody hears of ends by itself, and years pass in a moment.
func TestManyDays(t *testing.T) {
	s := session(t)
	do(t, s, acquired...)
	step := do(t, s, "advance 240h")
	require.Contains(t, texts(step.Changes), "m1 is no member of workers any more")
	do(t, s, "advance 24000h", "advance 24000h")
	require.Equal(t, 8, s.State().Steps)
}

// Text of records, names and groups stays text: it comes back from a script as it was, whatever it looks like.
func TestTextOfStrangers(t *testing.T) {
	s := session(t)
	do(t, s, "topic orders")
	for _, text := range []string{"----", "# no comment", "a\nb\n\nproduce orders-0 x", "<script>alert(1)</script>", "\x1b[2J", "{\"json\": 1}", "&f", "key=value", "\u2028\"\\", "-- ", "\x00", strings.Repeat("long ", 1000)} {
		do(t, s, fmt.Sprintf("produce orders-0 %q", text))
		do(t, s, fmt.Sprintf("commit %q orders-0=1", "g"+text))
	}
	do(t, s, "read orders-0", "groups")
	records, _, _, err := s.Records("orders", 0, 0, 100)
	require.NoError(t, err)
	require.Equal(t, "a\nb\n\nproduce orders-0 x", *records[2].Value)
	require.Len(t, *records[11].Value, MaxText+len("..."))
	before := sight(t, s)
	script, err := s.Script()
	require.NoError(t, err)
	again := session(t)
	_, differing, err := again.Edit(context.Background(), script)
	require.NoError(t, err)
	require.Zero(t, differing)
	require.Equal(t, before, sight(t, again))
}

// However many requests there are, and however large, so many are remembered, in so many bytes.
func TestFloodsOfEvents(t *testing.T) {
	h := newHub()
	small := &requestlog.Entry{API: "Fetch", Key: 1, Version: 12}
	for range 3 * MaxEvents {
		h.Requested(1, small)
	}
	events, last, lost := h.find(0, 3*MaxEvents)
	require.Len(t, events, MaxEvents)
	require.EqualValues(t, 3*MaxEvents, last)
	require.EqualValues(t, 2*MaxEvents, lost)
	large := &requestlog.Entry{API: "Fetch", Key: 1, Version: 12}
	large.SetRequest(make([]byte, requestlog.MaxBody))
	for range 1000 {
		h.Requested(1, large)
	}
	require.LessOrEqual(t, h.bytes, maxEventBytes)
	require.Less(t, len(h.events), 20)
	_, ok := h.decoded(last)
	require.False(t, ok)
	d, ok := h.decoded(h.last())
	require.True(t, ok)
	require.NotEmpty(t, d.Undecodable)
}

// A session that produces as much as it may, and changes as much, has a bounded size.
func TestSessionsHaveABoundedSize(t *testing.T) {
	s := session(t)
	do(t, s, "topic orders", "config group workers share.auto.offset.reset=earliest", "join workers m1 orders")
	var err error
	for err == nil {
		_, err = s.Do(context.Background(), "produce orders-0 a size=1000000 count=8")
	}
	require.ErrorContains(t, err, "the scenario has produced")
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range 100 {
		do(t, s, "fetch workers m1 wait=0s", "advance 30s")
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	require.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(2*maxEventBytes), "events are bounded")
	s.mu.Lock()
	defer s.mu.Unlock()
	require.LessOrEqual(t, s.changes, maxChanges)
}

// Ten sessions at once do not know of each other.
func TestTenAtOnce(t *testing.T) {
	want := ""
	done := make(chan string)
	for range 10 {
		go func() {
			s := New()
			defer s.Close()
			for _, c := range append(acquired, "advance 30s", "fetch workers m1") {
				if _, err := s.Do(context.Background(), c); err != nil {
					done <- err.Error()
					return
				}
			}
			if _, err := s.Undo(3); err != nil {
				done <- err.Error()
				return
			}
			text, _ := s.Script()
			done <- text
		}()
	}
	for range 10 {
		got := <-done
		if want == "" {
			want = got
		}
		require.Equal(t, want, got)
		require.Contains(t, got, "join workers m1")
	}
}

// A session that is closed while a command runs ends the command.
func TestCloseEndsWhatRuns(t *testing.T) {
	s := New()
	do(t, s, acquired...)
	begun := make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		close(begun)
		var err error
		for err == nil { // each takes some milliseconds of the machine's time
			_, err = s.Do(context.Background(), "advance 100h")
			if n := s.State().Steps; n > 50 {
				_, _ = s.Undo(n)
			}
		}
		ended <- err
	}()
	<-begun
	require.NoError(t, s.Close())
	select {
	case err := <-ended:
		require.Error(t, err)
	case <-time.After(time.Minute):
		require.Fail(t, "it goes on")
	}
	_, err := s.Do(context.Background(), "groups")
	require.Error(t, err)
}
