package clock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Who asks for it is told of each move before anything happens on the way, until it no longer wants to be.
func TestOnMove(t *testing.T) {
	start := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	v := NewVirtual(start)
	var told []string
	stop := v.OnMove(func(to time.Time) {
		require.True(t, v.Now().Before(to), "it has not moved yet")
		told = append(told, to.Sub(start).String())
	})
	v.AfterFunc(time.Second, func() { told = append(told, "timer") })
	v.Advance(0)
	require.Empty(t, told, "it stands still")
	v.Advance(time.Minute)
	v.AfterFunc(time.Second, func() {})
	v.AdvanceToNext(v.Now().Add(time.Hour))
	require.Equal(t, []string{"1m0s", "timer", "1m1s"}, told)
	stop()
	v.Advance(time.Minute)
	require.Len(t, told, 3)
}
