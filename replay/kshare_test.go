package replay

import (
	"context"
	"fmt"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"kshare"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// inProcess is a kshare cluster inside the test's bubble.
type inProcess struct {
	*kshare.Cluster
	opts []kshare.Option
}

// Kill closes the cluster: one in memory stores nothing as it closes, so that what the next one finds is what a killed one leaves.
func (c *inProcess) Kill() error { return c.Close() }

// Start starts a cluster on the memory of the one that was.
func (c *inProcess) Start() (err error) {
	c.Cluster, err = kshare.Start(c.opts...)
	return err
}

func (c *inProcess) Dial(ctx context.Context, listener string) (net.Conn, error) {
	return c.Cluster.Dial(ctx, "tcp", c.ListenerAddrs(listener)[0])
}

// start starts kshare as the session's broker was started.
func start(s *Session, script *Script) (Server, error) {
	opts := []kshare.Option{
		kshare.WithTiming(kshare.TimingKafka), kshare.WithInMemoryNetwork(), kshare.WithNodeID(1),
		kshare.WithTopicIDs(TopicIDs(s, script)), kshare.WithMemory(kshare.NewMemory()),
	}
	if script.Secured {
		opts = append(opts, kshare.WithListener(Plain+"://127.0.0.1:0"), kshare.WithListener(SASL+"://127.0.0.1:0"))
	}
	for k, v := range script.AllConfig() {
		opts = append(opts, kshare.WithConfig(k, v))
	}
	for name, level := range script.Features {
		opts = append(opts, kshare.WithFeature(name, level))
	}
	c, err := kshare.Start(opts...)
	if err != nil {
		return nil, err
	}
	return &inProcess{c, opts}, nil
}

// playInProcess plays a session against a cluster of its own, in no time.
func playInProcess(t *testing.T, s *Session, script *Script) (report *Report) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(Began(script)))
		server, err := start(s, script)
		require.NoError(t, err)
		report, err = Play(s, script, server)
		assert.NoError(t, server.Close())
		require.NoError(t, err)
	})
	return report
}

// TestReplay plays the recorded sessions against kshare: every step of those of the gate agrees or stands in
// divergences.txt. KSHARE_REPLAY=all plays the others too, for their figures.
func TestReplay(t *testing.T) {
	table, err := Table()
	require.NoError(t, err)
	fmt.Println("steps that agree / have a reason / all")
	var gate Tally
	var played []string
	all := 0
	for _, name := range Names() {
		script := Scripts[name]
		if script.Gate {
			all++
		} else if os.Getenv("KSHARE_REPLAY") != "all" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			s, err := Load(vectors, name)
			require.NoError(t, err)
			r := playInProcess(t, s, script)
			for _, p := range r.Steps {
				show(t, p, !script.Gate || table.Explains(name, p))
			}
			sum := r.Tally(table)
			fmt.Printf("session %-15s %v\n", name, sum)
			t.Log("masked:", r.Masks())
			if script.Gate {
				gate.Add(sum)
				played = append(played, name)
			}
		})
	}
	if len(played) < all {
		return // -run chose some
	}
	fmt.Printf("session %-15s %v\n", "all of the gate", gate)
	assert.Equal(t, gate.All, gate.Agree+gate.Explained, "steps that neither agree nor have a reason")
	assert.LessOrEqual(t, gate.Explained*20, gate.All, "more than 5% of the steps explained")
	assert.Empty(t, table.Stale(played))
}
