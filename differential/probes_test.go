package differential

import (
	"flag"
	"fmt"
	"testing"

	"kshare/differential/probe"
	"kshare/replay"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	seed     = flag.Uint64("seed", 0, "the only seed of TestRandomProbes; 0: 3 of them in the short form, 30 in the full one")
	requests = flag.Bool("requests", false, "print each request of TestRandomProbes and what Apache Kafka answered")
	steps    = flag.Int("steps", 50, "how many requests TestRandomProbes sends for a seed")
)

// probeConfig makes share and consumer groups assign at once and keeps records, however old they say that they are:
// what happens by the clock would be told of one broker a moment before the other.
var probeConfig = map[string]string{
	"log.retention.ms":                      "-1",
	"group.share.assignment.interval.ms":    "0",
	"group.consumer.assignment.interval.ms": "0",
}

// TestRandomProbes sends the same random requests to Apache Kafka and to kshare and fails for the first answers that
// differ, with both of them and the seed.
func TestRandomProbes(t *testing.T) {
	f := asked(t)
	both := settings{config: (&replay.Script{Config: probeConfig}).AllConfig()}
	kafka := startKafka(t, both)
	defer func() { assert.NoError(t, kafka.Close()) }()
	p := probe.New()
	if *requests {
		p.Trace = func(line string) { fmt.Println(line) }
	}
	kshare, err := startKshare(both, p.TopicID)
	require.NoError(t, err)
	defer func() { assert.NoError(t, kshare.Close()) }()

	for _, s := range seeds(f) {
		t.Run(fmt.Sprint("seed=", s), func(t *testing.T) {
			d, err := p.Run(kafka, kshare, s, *steps)
			require.NoError(t, err)
			if d != nil {
				t.Errorf("-seed %d -steps %d: Apache Kafka (recorded) and kshare (ours) differ in %s", s, *steps, d)
			}
		})
	}
}

func seeds(f form) []uint64 {
	if *seed != 0 {
		return []uint64{*seed}
	}
	n := uint64(3)
	if f == full {
		n = 30
	}
	var all []uint64
	for i := range n {
		all = append(all, i+1)
	}
	return all
}
