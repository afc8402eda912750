package crash

import (
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"kshare/storage/directory"
)

// With log.flush.interval.messages=1 an answer outlives a loss of power. The file system of this test keeps at each loss what was synced, and of the rest
// any part that it likes.
func TestPowerLoss(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	fs := vfs.NewCrashableMem()
	m := bootMachine(t, fs, directory.FlushAlways)
	l := newLedger()
	work := m.work(t, l, seed)
	for loss := range 8 {
		<-l.after(1 + rng.IntN(500))
		answered := l.snapshot()
		clone := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: []int{0, 0, 30, 90}[loss%4], RNG: rng})
		after := bootMachine(t, clone, directory.FlushAlways)
		after.verify(t, l, answered)
		require.NoError(t, after.stop(t))
	}
	work.stopAll()
	require.Empty(t, l.broken())
	require.NotEmpty(t, l.settled)
	require.NoError(t, m.stop(t))
	t.Logf("8 losses of power, %d answers", l.events)
}

// Without it a loss of power costs what the disk had not taken yet, as with Kafka: the end of a partition. The rest is whole, and the cluster starts.
func TestPowerLossWithoutFlush(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	fs := vfs.NewCrashableMem()
	m := bootMachine(t, fs, directory.FlushNever)
	l := newLedger()
	work := m.work(t, l, seed)
	for loss := range 8 {
		<-l.after(1 + rng.IntN(500))
		clone := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: []int{0, 50, 90, 100}[loss%4], RNG: rng})
		after := &machine{addr: m.addr}
		if err := after.boot(clone, directory.FlushNever); err != nil {
			t.Logf("refused: %v", err)
			require.ErrorContains(t, err, storeDir, "the message says where")
			continue
		}
		after.verify(t, l, snapshot{}) // that it is whole and in order
		require.NoError(t, after.stop(t))
	}
	work.stopAll()
	require.NoError(t, m.stop(t))
}
