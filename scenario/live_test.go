package scenario

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"kshare"
	"kshare/clock"
)

// live starts a cluster that goes on after scenarios.
func live(t *testing.T, c clock.Clock) *kshare.Cluster {
	t.Helper()
	cluster, err := kshare.Start(kshare.WithInMemoryNetwork(), kshare.WithClock(c), kshare.WithBrokers(2), kshare.WithNodeID(5))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Close()) })
	return cluster
}

func runLive(t *testing.T, c *kshare.Cluster, text string) {
	t.Helper()
	f, err := Parse(t.Name(), []byte(text))
	require.NoError(t, err)
	r, err := Run(f, NewLive(c), Options{})
	require.NoError(t, err)
	require.Empty(t, r.Differences())
}

// Scenarios leave a cluster that goes on as they have made it, look inside, and share its time.
func TestLive(t *testing.T) {
	virtual := clock.NewVirtual(Began)
	for name, c := range map[string]clock.Clock{"virtual": virtual, "machine": clock.Machine{}} {
		t.Run(name, func(t *testing.T) {
			before := goleak.IgnoreCurrent()
			cluster := live(t, c)
			runLive(t, cluster, `cluster brokers=2 timing=kafka
topic orders
config group workers share.auto.offset.reset=earliest
produce orders-0 a
join workers m1 orders
fetch workers m1
----
orders: 1 partition
workers: ok
orders-0: offset 0
m1: epoch 3, assigned orders-0
orders-0: acquired 0 count 1, lock 30s
  0 a

share-writes slow workers hold=yes
----
slow: set

leave workers m1
unfault slow
----
m1: left
slow: ended
`)
			runLive(t, cluster, "produce orders-0 b\n----\norders-0: offset 1\n")
			require.NoError(t, cluster.Close())
			goleak.VerifyNone(t, before)
		})
	}
	cluster := live(t, virtual)
	now := virtual.Now()
	runLive(t, cluster, "advance 31s\n----\n")
	require.Equal(t, now.Add(31*time.Second), virtual.Now())
}

// A run ends with its context wherever it waits.
func TestRunContext(t *testing.T) {
	over := errors.New("nobody waits any more")
	f, err := Parse("endless", []byte("advance 10s\nadvance 10s\n"))
	require.NoError(t, err)
	for name, c := range map[string]clock.Clock{"virtual": clock.NewVirtual(Began), "machine": clock.Machine{}} {
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(over)
		r, err := RunContext(ctx, f, NewLive(live(t, c)), Options{})
		require.ErrorIs(t, err, over, name)
		require.ErrorContains(t, err, "endless:1: the run was ended", name)
		require.Empty(t, r.Blocks[0].Commands[0].Shown, name)
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), time.Millisecond, over)
	defer cancel()
	_, err = RunContext(ctx, f, NewLive(live(t, clock.Machine{})), Options{})
	require.ErrorIs(t, err, over)
}

func TestMaxShown(t *testing.T) {
	f, err := Parse("loud", []byte("help\nhelp\n"))
	require.NoError(t, err)
	all, err := Help("")
	require.NoError(t, err)
	_, err = Run(f, NewLocal(), Options{MaxShown: 2 * len(all)})
	require.NoError(t, err)
	r, err := Run(f, NewLocal(), Options{MaxShown: 2*len(all) - 1})
	var m *Mistake
	require.ErrorAs(t, err, &m)
	require.Equal(t, 2, m.Line)
	require.True(t, strings.Contains(m.Reason, "they may show"))
	require.Empty(t, r.Blocks[0].Commands[1].Shown)
}

// What a cluster that runs already is not, a scenario cannot make of it; topics that it has not named before have their names all the same.
func TestLiveClusterIsAsItWasStarted(t *testing.T) {
	cluster, err := kshare.Start(kshare.WithInMemoryNetwork(), kshare.WithClock(clock.NewVirtual(Began)), kshare.WithTopic("orders", 1))
	require.NoError(t, err)
	defer func() { require.NoError(t, cluster.Close()) }()
	for text, want := range map[string]string{
		"cluster brokers=3": "the scenario wants 3 brokers, there are 1",
		"cluster group.share.record.lock.duration.ms=15000": "the scenario wants a broker with group.share.record.lock.duration.ms=15000, it has 30000",
		"requests": "requests are not logged",
		"cluster num.partitions=1 brokers=1 timing=kafka\nwait x": "nothing runs under the name x",
	} {
		f, err := Parse("x", []byte(text))
		require.NoError(t, err)
		_, err = Run(f, NewLive(cluster), Options{})
		require.ErrorContains(t, err, want, text)
	}
	runLive(t, cluster, `join workers m1 orders
fetch workers m1
----
m1: epoch 3, assigned orders-0
after 500ms: orders-0: nothing
`)
}
