package differential

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"kshare"
	"kshare/differential/realkafka"
	"kshare/scenario"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// wireNodes is where the scenarios lie that a real Kafka of three nodes confirms.
const wireNodes = "../testdata/scenarios/wire-nodes"

// brokers is how many brokers the cluster has.
const brokers = 3

// clusterConfig is how its nodes are started. Leaders stay where scenarios put them.
var clusterConfig = map[string]string{
	"offsets.topic.num.partitions":                 "5",
	"transaction.state.log.num.partitions":         "5",
	"share.coordinator.state.topic.num.partitions": "5",
	"group.initial.rebalance.delay.ms":             "0",
	"group.share.min.record.lock.duration.ms":      "1000",
	"auto.create.topics.enable":                    "false",
	"auto.leader.rebalance.enable":                 "false",
	"initial.broker.registration.timeout.ms":       "60000",
}

// TestNodeScenarios runs the scenarios of several nodes against Apache Kafka and kshare, one after the other, for they stop nodes.
func TestNodeScenarios(t *testing.T) {
	askedFor(t, nodes)
	reasons, err := scenario.ReadReasons(filepath.Join(wireNodes, "DIFFERENCES"))
	require.NoError(t, err)
	files, err := filepath.Glob(filepath.Join(wireNodes, "*.txt"))
	require.NoError(t, err)
	some, err := regexp.Compile(*only)
	require.NoError(t, err)
	files = slices.DeleteFunc(files, func(name string) bool { return !some.MatchString(filepath.Base(name)) })
	require.NotEmpty(t, files)
	kafka, err := realkafka.StartCluster(t.Context(), settings{config: clusterConfig}.options(t), brokers)
	require.NoError(t, err)
	defer func() { assert.NoError(t, kafka.Close()) }()
	var all []*scenario.Comparison
	for i, name := range files {
		began := time.Now()
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		f, err := scenario.Parse(filepath.Base(name), text)
		require.NoError(t, err)
		d := &scenario.Differ{
			Here: func() *scenario.Local { return scenario.NewLocal(kshare.WithTiming(kshare.TimingKafka)) },
			There: func() scenario.Target {
				assert.NoError(t, kafka.Restore())
				return scenario.NewOperated(kafka.Bootstrap(), kafka)
			},
			Prefix: fmt.Sprintf("n%d-", i),
		}
		c, err := d.Compare(f)
		if !assert.NoError(t, err, f.Name) {
			t.Log(kafka.Log())
			continue
		}
		all = append(all, c)
		t.Logf("%s in %s", f.Name, time.Since(began).Round(time.Second))
	}
	judge(t, all, reasons) // a reason may be needed in some runs only, where it is one of time
	if *only == "" {
		several := scenario.Suite{Directory: "wire-nodes", On: "a cluster of three brokers of Apache Kafka 4.4.0", Target: "differential-nodes", Test: "TestNodeScenarios"}
		checkPage(t, "nodes.md", documentMarker, several.DifferencesDocument(all, reasons))
	}
}
