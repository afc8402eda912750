package kshare_test

import (
	"context"
	"encoding/json"
	"os"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"kshare"
	"kshare/conformance"
)

// franz-go breaks no MUST on one node, and on three whose leaders move.
func TestJudgeOfFranzGo(t *testing.T) {
	for name, nodes := range map[string]int{"one node": 1, "three nodes": 3} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster, err := kshare.Start(kshare.WithBrokers(nodes), kshare.WithTopic("orders", 4), kshare.WithInMemoryNetwork(), kshare.WithJudge(), kshare.WithConfig("default.replication.factor", strconv.Itoa(nodes)))
				require.NoError(t, err)
				defer cluster.Close()
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
				defer cancel()
				dial := []kgo.Opt{kgo.SeedBrokers(cluster.Addrs()...), kgo.Dialer(cluster.Dial)}
				producer, err := kgo.NewClient(append(dial, kgo.ClientID("producer"))...)
				require.NoError(t, err)
				defer producer.Close()
				setGroupConfig(t, producer, "workers", "share.auto.offset.reset", "earliest")
				for i := range 300 {
					producer.Produce(ctx, &kgo.Record{Topic: "orders", Key: []byte{byte(i)}, Value: []byte("v")}, nil)
				}
				require.NoError(t, producer.Flush(ctx))
				var clients []*kgo.Client
				for _, id := range []string{"one", "two"} {
					c, err := kgo.NewClient(append(dial, kgo.ClientID(id), kgo.ConsumeTopics("orders"), kgo.ShareGroup("workers"))...)
					require.NoError(t, err)
					clients = append(clients, c)
				}
				got := 0
				for round := 0; got < 600; round++ {
					for _, c := range clients {
						pctx, done := context.WithTimeout(ctx, 500*time.Millisecond)
						fetches := c.PollFetches(pctx)
						done()
						got += fetches.NumRecords()
					}
					if round == 6 && nodes > 1 {
						require.NoError(t, cluster.MoveLeader("orders", 0, int32(1+int(partitionLeader(cluster))%nodes), true))
					}
					if round == 10 {
						for i := range 300 {
							producer.Produce(ctx, &kgo.Record{Topic: "orders", Key: []byte{byte(i)}, Value: []byte("v")}, nil)
						}
						require.NoError(t, producer.Flush(ctx))
					}
					require.NoError(t, ctx.Err())
				}
				time.Sleep(20 * time.Second)
				for _, c := range clients {
					c.Close()
				}
				r := cluster.Judge().Report()
				if os.Getenv("JUDGE_SHOW") != "" {
					b, _ := json.MarshalIndent(r, "", " ")
					require.NoError(t, os.WriteFile(os.Getenv("JUDGE_SHOW")+name, b, 0o644))
				}
				require.Empty(t, r.Failures)
			})
		})
	}
}

func partitionLeader(c *kshare.Cluster) int32 {
	for _, t := range c.InspectTopics() {
		if t.Name == "orders" {
			return t.Partitions[0].Leader
		}
	}
	return -1
}

// The judge sees answers as clients do: an error that a fault injects is one that they must react to.
func TestJudgeSeesFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, err := kshare.Start(kshare.WithTopic("orders", 1), kshare.WithInMemoryNetwork(), kshare.WithJudge())
		require.NoError(t, err)
		defer cluster.Close()
		for _, f := range []kshare.Fault{
			{API: "ShareFetch", Nth: 3, Times: 1, Error: "SHARE_SESSION_NOT_FOUND"},
			{API: "ShareGroupHeartbeat", Nth: 3, Times: 1, Error: "UNKNOWN_MEMBER_ID"},
			{API: "ShareFetch", Nth: 8, Times: 1, Close: true, Stage: "after"},
		} {
			_, err = cluster.AddFault(f)
			require.NoError(t, err)
		}
		c, err := kgo.NewClient(kgo.SeedBrokers(cluster.Addrs()...), kgo.Dialer(cluster.Dial), kgo.ConsumeTopics("orders"), kgo.ShareGroup("workers"))
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		c.PollFetches(ctx)
		cancel()
		c.Close()
		r := cluster.Judge().Report()
		require.Empty(t, r.Failures)
		for _, rule := range []string{"share.session.epoch.6", "share.member.fence.1", "share.member.id.1", "share.session.conn.1"} {
			require.Contains(t, []conformance.Verdict{conformance.Pass, conformance.Noted}, r.Rule(rule).Verdict, rule)
		}
	})
}
