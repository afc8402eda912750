package explore

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"kshare/scenario"
)

// commandsOf are the commands of a random scenario, between which time passes so that locks and sessions end.
func commandsOf(t *rapid.T) (all []string) {
	f, err := scenario.Random(rapid.Uint64Range(0, 1_000_000).Draw(t, "seed"), rapid.IntRange(1, 40).Draw(t, "steps"))
	require.NoError(t, err)
	for _, b := range f.Blocks() {
		for _, c := range b.Commands {
			all = append(all, c)
			if rapid.IntRange(0, 3).Draw(t, "advances") == 0 {
				all = append(all, fmt.Sprintf("advance %ds", rapid.IntRange(1, 40).Draw(t, "seconds")))
			}
		}
	}
	return all
}

// sight is all that can be seen of a session, without what counts how often it was looked at.
func sight(t require.TestingT, s *Session) string {
	view := *s.View()
	view.Version = 0
	script, err := s.Script()
	require.NoError(t, err)
	events, last, lost := s.Events(0, MaxEvents)
	steps := s.Steps(0)
	b, err := json.MarshalIndent(map[string]any{"view": &view, "script": script, "steps": steps, "events": events, "last": last, "lost": lost}, "", " ")
	require.NoError(t, err)
	return string(b)
}

// A session is a function of its script: undone and done again it is the same, saved and loaded too, run again too, and where all is undone it is a new one.
func TestASessionIsAFunctionOfItsScript(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ctx := context.Background()
		commands := commandsOf(t)
		s, fresh := New(), New()
		defer func() {
			require.NoError(t, s.Close())
			require.NoError(t, fresh.Close())
		}()
		for _, c := range commands {
			_, err := s.Do(ctx, c)
			require.NoError(t, err, c)
		}
		whole := sight(t, s)

		n := rapid.IntRange(1, len(commands)).Draw(t, "undone")
		undone, err := s.Undo(n)
		require.NoError(t, err)
		require.Equal(t, n, undone)
		prefix := New()
		for _, c := range commands[:len(commands)-n] {
			_, err := prefix.Do(ctx, c)
			require.NoError(t, err, c)
		}
		require.Equal(t, sight(t, prefix), sight(t, s), "what is left is a run of what came before")
		require.NoError(t, prefix.Close())
		steps, err := s.Redo(ctx, n)
		require.NoError(t, err)
		require.Len(t, steps, n)
		require.Equal(t, whole, sight(t, s), "done again it is as it was")

		script, err := s.Script()
		require.NoError(t, err)
		_, differing, err := fresh.Edit(ctx, script)
		require.NoError(t, err)
		require.Zero(t, differing, "a script shows what it says")
		require.Equal(t, whole, sight(t, fresh), "loaded it is as it was when it was saved")
		again, err := fresh.Script()
		require.NoError(t, err)
		require.Equal(t, script, again)
		f, err := scenario.Parse("saved", []byte(script))
		require.NoError(t, err)
		r, err := scenario.Run(f, scenario.NewLocal(), scenario.Options{})
		require.NoError(t, err)
		require.Empty(t, r.Differences(), "kshare run shows the same")

		_, err = s.Undo(len(commands) + 1)
		require.NoError(t, err)
		empty := New()
		require.Equal(t, sight(t, empty), sight(t, s), "where all is undone nothing is left")
		require.NoError(t, empty.Close())
	})
}

// Two advances do what one does that is as long as both.
func TestJoinedAdvances(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ctx := context.Background()
		joined, plain := New(), New()
		defer func() {
			require.NoError(t, joined.Close())
			require.NoError(t, plain.Close())
		}()
		for _, c := range commandsOf(t) {
			for _, s := range []*Session{joined, plain} {
				_, err := s.Do(ctx, c)
				require.NoError(t, err, c)
			}
		}
		moves := rapid.SliceOfN(rapid.IntRange(0, 40), 1, 4).Draw(t, "moves")
		for _, m := range moves {
			_, err := joined.Move(ctx, seconds(m), true)
			require.NoError(t, err)
		}
		script, err := joined.Script()
		require.NoError(t, err)
		_, differing, err := plain.Edit(ctx, script)
		require.NoError(t, err)
		require.Zero(t, differing)
		a, b := *joined.View(), *plain.View()
		a.Version, b.Version = 0, 0
		require.Equal(t, &a, &b)
	})
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }
