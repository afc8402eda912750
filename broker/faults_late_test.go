package broker

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/fault"
)

// What ends a wait may come as its connection or the cluster ends: the request is not applied then.
func TestAWaitThatEndsTooLate(t *testing.T) {
	for _, end := range []func(*Cluster, *Direct){
		func(_ *Cluster, d *Direct) { d.Close() },
		func(c *Cluster, _ *Direct) { require.NoError(t, c.Close()) },
	} {
		var log panics
		c := fuzzCluster(t, &log)
		_, err := c.AddFault(fault.Rule{Name: "stop", Hold: true})
		require.NoError(t, err)
		d, err := c.OpenDirect(1)
		require.NoError(t, err)
		q := kmsg.NewPtrDeleteTopicsRequest()
		q.Version, q.TopicNames, q.TimeoutMillis = 1, []string{"t"}, 1000
		d.Send(frame(q)[4:])
		require.True(t, d.Waits())
		require.Len(t, c.faults.held, 1)
		goOn := slices.Collect(maps.Keys(c.faults.held))[0].goOn
		end(c, d)
		goOn()
		require.NotNil(t, c.topics["t"])
		require.Empty(t, log.seen)
		require.NoError(t, c.Close())
	}
}
