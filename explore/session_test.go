package explore

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func do(t *testing.T, s *Session, commands ...string) (last Step) {
	t.Helper()
	for _, c := range commands {
		var err error
		last, err = s.Do(context.Background(), c)
		require.NoError(t, err, c)
	}
	return last
}

func texts(changes []Change) (all []string) {
	for _, c := range changes {
		all = append(all, c.Text)
	}
	return all
}

func session(t *testing.T) *Session {
	s := New()
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// What a lock's end, a transaction's abort and an acknowledgement change is said in words.
func TestChangesInWords(t *testing.T) {
	s := session(t)
	do(t, s, "cluster kip1289=on", "topic orders", "config group workers share.auto.offset.reset=earliest", "produce orders-0 a b c", "join workers m1 orders")
	step := do(t, s, "fetch workers m1")
	t.Log(strings.Join(texts(step.Changes), "\n"))
	step = do(t, s, "advance 30s")
	t.Log(strings.Join(texts(step.Changes), "\n"))
	do(t, s, "fetch workers m1", "init-producer p1 txn=payments")
	step = do(t, s, "txn-ack workers m1 p1 orders-0 0-1=accept 2=reject")
	t.Log(strings.Join(texts(step.Changes), "\n"))
	step = do(t, s, "txn-end p1 abort")
	t.Log(strings.Join(texts(step.Changes), "\n"))
	script, err := s.Script()
	require.NoError(t, err)
	t.Log(script)
	begin := time.Now()
	n, err := s.Undo(1)
	t.Log(n, err, time.Since(begin))
	for _, x := range s.View().Timers {
		t.Log(x.At, x.Kind, x.Text)
	}
}
