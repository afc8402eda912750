package differential

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"kshare"
	"kshare/differential/realkafka"

	"github.com/stretchr/testify/require"
)

// form is what KSHARE_DIFFERENTIAL asks for.
type form string

const (
	short form = "short"
	full  form = "full"
	nodes form = "nodes" // a cluster of several nodes alone
)

// asked skips the test unless a form with one node is asked for.
func asked(t *testing.T) form {
	t.Helper()
	return askedFor(t, short, full)
}

// askedFor skips the test unless one of some forms is asked for.
func askedFor(t *testing.T, some ...form) form {
	t.Helper()
	f := form(os.Getenv("KSHARE_DIFFERENTIAL"))
	switch f {
	case short, full, nodes:
		if !slices.Contains(some, f) {
			t.Skipf("KSHARE_DIFFERENTIAL is %s", f)
		}
	case "":
		t.Skip("KSHARE_DIFFERENTIAL is not set: make differential sets it")
	default:
		t.Fatalf("KSHARE_DIFFERENTIAL is %q, which is neither short, full nor nodes", f)
	}
	return f
}

// jars are the jars of Apache Kafka, copied once.
var jars = sync.OnceValues(func() (string, error) {
	return realkafka.Jars(context.Background(), "kafka", ".cache")
})

// settings are how both brokers are started.
type settings struct {
	config   map[string]string
	features map[string]int16
}

// startKafka starts an Apache Kafka, to be closed.
func startKafka(t *testing.T, s settings) *realkafka.Node {
	t.Helper()
	n, err := realkafka.Start(t.Context(), s.options(t))
	require.NoError(t, err)
	return n
}

// options are those of an Apache Kafka.
func (s settings) options(t *testing.T) realkafka.Options {
	t.Helper()
	dir, err := jars()
	require.NoError(t, err)
	logging, err := filepath.Abs("kafka/log4j2.xml")
	require.NoError(t, err)
	return realkafka.Options{Jars: dir, Logging: logging, Config: s.config, Features: s.features}
}

// startKshare starts a kshare with the timing of Apache Kafka, on a port unless an option says otherwise.
func startKshare(s settings, topicIDs func(string) [16]byte, more ...kshare.Option) (ours, error) {
	opts := append(more, kshare.WithTiming(kshare.TimingKafka), kshare.WithNodeID(1), kshare.WithTopicIDs(topicIDs))
	for k, v := range s.config {
		opts = append(opts, kshare.WithConfig(k, v))
	}
	for name, level := range s.features {
		opts = append(opts, kshare.WithFeature(name, level))
	}
	c, err := kshare.Start(opts...)
	return ours{c}, err
}

// ours is a kshare of one node.
type ours struct{ *kshare.Cluster }

// Dial opens a connection to the node.
func (c ours) Dial(ctx context.Context) (net.Conn, error) {
	return c.Cluster.Dial(ctx, "tcp", c.Addrs()[0])
}
