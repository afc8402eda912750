package scenario

import (
	"testing"

	"github.com/stretchr/testify/require"

	"kshare"
)

// The same seed writes the same scenario, and the scenario shows the same each time.
func TestRandomIsAFunctionOfItsSeed(t *testing.T) {
	for seed := range uint64(20) {
		f, err := Random(seed, 50)
		require.NoError(t, err)
		again, err := Random(seed, 50)
		require.NoError(t, err)
		require.Equal(t, f.Text(), again.Text(), "seed %d", seed)
		local := func() *Local { return NewLocal(kshare.WithTiming(kshare.TimingKafka)) }
		d := &Differ{Here: local, There: func() Target { return local() }, Prefix: "p"}
		c, err := d.Compare(f)
		require.NoError(t, err)
		require.False(t, c.Differs(), "seed %d\n%s", seed, c.SideBySide("first", "second"))
	}
}
