package scenario

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"kshare"
)

// A Kafka on the network whose nodes the runner has started is asked by requests, and its nodes are stopped and started by who started them. On any other the
// comparison ends there.
func TestOperated(t *testing.T) {
	const script = `cluster brokers=2 timing=kafka
topic orders assignment=1:2,2:1
stop-node 1
describe-topic orders
start-node 1
describe-topic orders
----
orders: 2 partitions
node 1: stopped
orders: id <topic:orders>
  orders-0: leader 2 epoch 1, replicas 1 2, in sync 2, offline 1
  orders-1: leader 2 epoch 0, replicas 2 1, in sync 2, offline 1
node 1: started
orders: id <topic:orders>
  orders-0: leader 2 epoch 1, replicas 1 2, in sync 1 2
  orders-1: leader 2 epoch 0, replicas 2 1, in sync 1 2
`
	synctest.Test(t, func(t *testing.T) {
		cluster, err := kshare.Start(kshare.WithInMemoryNetwork(), kshare.WithBrokers(2), kshare.WithTiming(kshare.TimingKafka))
		require.NoError(t, err)
		defer func() { assert.NoError(t, cluster.Close()) }()
		f, err := Parse(t.Name(), []byte(script))
		require.NoError(t, err)
		addrs := strings.Join(cluster.Addrs(), ",")

		there := NewOperated(addrs, cluster)
		there.dial = cluster.Dial
		r, err := Run(f, there, Options{})
		require.NoError(t, err)
		assert.Empty(t, r.Differences())
		assert.True(t, r.Blocks[0].Compared)

		plain := NewRemote(addrs)
		plain.dial = cluster.Dial
		r, err = Run(f, plain, Options{Prefix: "again-"})
		require.NoError(t, err)
		assert.Equal(t, "stop-node cannot be done to a real Kafka", r.Blocks[0].Commands[2].Omitted)
		assert.NotEmpty(t, r.Blocks[0].Commands[5].Omitted)
	})
}

func TestAssignmentMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"topic orders assignment=1:x":            `"x" is no whole number`,
		"topic orders assignment=1 partitions=2": "leave out partitions and replicas",
	} {
		_, err := Parse("topic", []byte(text+"\n----\n"))
		assert.ErrorContains(t, err, want, text)
	}
}
