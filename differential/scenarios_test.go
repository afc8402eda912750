package differential

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"kshare"
	"kshare/differential/realkafka"
	"kshare/replay"
	"kshare/scenario"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	update      = flag.Bool("update", false, "write the pages of docs that say how scenarios compare")
	only        = flag.String("only", "", "a `regular expression` for names of files, the only ones of TestNodeScenarios")
	randomSeeds = flag.Int("seeds", 0, "how many random scenarios, 0: 10 in the short form, 200 in the full one")
	randomSteps = flag.Int("scenario-steps", 50, "commands of a random scenario")
)

// wire is where the scenarios lie that a real Kafka confirms.
const wire = "../testdata/scenarios/wire"

// warmConfig is how the Apache Kafka is started on which most scenarios run, beyond what makes it one small node. A scenario that names other
// settings in its cluster command has one of its own.
var warmConfig = map[string]string{
	"group.initial.rebalance.delay.ms":         "0",
	"auto.create.topics.enable":                "false",
	"group.share.min.record.lock.duration.ms":  "1000",
	"offsets.topic.replication.factor":         "1",
	"share.coordinator.state.topic.min.isr":    "1",
	"transaction.state.log.replication.factor": "1",
}

// side by side is how many scenarios run at once on a broker: most of their time they wait.
const sideBySide = 4

// TestScenarios runs the scenarios of the wire against Apache Kafka and kshare: what differs each time has a reason in DIFFERENCES, and
// docs/divergences.md says so.
func TestScenarios(t *testing.T) {
	asked(t)
	reasons, err := scenario.ReadReasons(filepath.Join(wire, "DIFFERENCES"))
	require.NoError(t, err)
	files, err := filepath.Glob(filepath.Join(wire, "*.txt"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	var all []*scenario.Comparison
	for _, group := range byConfig(t, files) {
		all = append(all, compareAll(t, group)...)
	}
	slices.SortFunc(all, func(a, b *scenario.Comparison) int { return strings.Compare(a.File.Name, b.File.Name) })
	judge(t, all, reasons)
	for _, r := range reasons.Unused() {
		t.Errorf("DIFFERENCES has a reason for what does not differ: %s", r)
	}
	oneNode := scenario.Suite{Directory: "wire", On: "a running Apache Kafka 4.4.0", Target: "differential", Test: "TestScenarios"}
	checkPage(t, "divergences.md", documentMarker, oneNode.DifferencesDocument(all, reasons))
	ofNodes, err := scenario.ReadReasons(filepath.Join(wireNodes, "DIFFERENCES"))
	require.NoError(t, err)
	text, err := os.ReadFile("../testdata/scenarios/RULES.md")
	require.NoError(t, err)
	rules, err := scenario.ParseRules(string(text))
	require.NoError(t, err)
	checkPage(t, "share-groups.md", "", scenario.RulesDocument(rules, all, reasons, ofNodes))
}

// judge prints a line of counts and fails for what differs without a reason.
func judge(t *testing.T, all []*scenario.Comparison, reasons *scenario.Reasons) {
	var commands, agree, differ, omitted int
	for _, c := range all {
		a, d, o := c.Tally()
		commands, agree, differ, omitted = commands+len(c.Commands), agree+a, differ+d, omitted+o
		logDoubts(t, c)
		if unexplained := reasons.Unexplained(c); len(unexplained) > 0 {
			t.Errorf("%s differs without a reason in DIFFERENCES:\n%s", c.File.Name, c.SideBySide("kshare", "Apache Kafka 4.4.0"))
		}
	}
	fmt.Printf("scenarios: %d files, %d commands, %d agree, %d differ with a reason, %d not compared\n", len(all), commands, agree, differ, omitted)
}

// documentMarker is the line of a page after which the part on scenarios begins.
const documentMarker = "<!-- scenarios -->\n"

// checkPage holds what follows a marker on a page of docs, the whole page where there is no marker, against what it should say.
func checkPage(t *testing.T, page, marker, want string) {
	path := filepath.Join("..", "docs", page)
	have, err := os.ReadFile(path)
	if !os.IsNotExist(err) {
		require.NoError(t, err)
	}
	before, after, _ := strings.Cut(string(have), marker)
	if marker == "" {
		before, after = "", string(have)
	}
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(before+marker+want), 0o644))
		return
	}
	assert.Equal(t, want, after, "write docs/%s with -update in ARGS, and read what changes", page)
}

// configured are scenarios that run on brokers of the same configuration.
type configured struct {
	config   map[string]string
	features map[string]int16
	files    []*scenario.File
}

// byConfig groups scenarios: the first group runs on the warm broker.
func byConfig(t *testing.T, names []string) []*configured {
	groups := []*configured{{config: warmConfig}}
	for _, name := range names {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		f, err := scenario.Parse(filepath.Base(name), text)
		require.NoError(t, err)
		config, features := scenario.BrokerConfig(f)
		own := maps.Clone(warmConfig)
		maps.Copy(own, config)
		at := slices.IndexFunc(groups, func(g *configured) bool { return maps.Equal(g.config, own) && maps.Equal(g.features, features) })
		if at < 0 {
			groups = append(groups, &configured{config: own, features: features})
			at = len(groups) - 1
		}
		groups[at].files = append(groups[at].files, f)
	}
	return groups
}

// compareAll runs scenarios against one Apache Kafka, several at once.
func compareAll(t *testing.T, g *configured) []*scenario.Comparison {
	kafka := startKafka(t, settings{(&replay.Script{Config: g.config}).AllConfig(), g.features})
	defer func() { assert.NoError(t, kafka.Close()) }()
	all := make([]*scenario.Comparison, len(g.files))
	var running sync.WaitGroup
	free := make(chan struct{}, sideBySide)
	for i, f := range g.files {
		free <- struct{}{}
		running.Go(func() {
			defer func() { <-free }()
			c, err := newDiffer(kafka, fmt.Sprintf("s%d-", i)).Compare(f)
			if assert.NoError(t, err, f.Name) {
				all[i] = c
			}
		})
	}
	running.Wait()
	return slices.DeleteFunc(all, func(c *scenario.Comparison) bool { return c == nil })
}

// logDoubts names the commands that do not count as differing though they did in some run.
func logDoubts(t *testing.T, c *scenario.Comparison) {
	for _, x := range c.Commands {
		if why := x.Doubt(); why != "" {
			t.Logf("%s:%d %s: %s", c.File.Name, x.Line, x.Command, why)
		}
	}
}

func newDiffer(kafka *realkafka.Node, prefix string) *scenario.Differ {
	return &scenario.Differ{
		Here:   func() *scenario.Local { return scenario.NewLocal(kshare.WithTiming(kshare.TimingKafka)) },
		There:  func() scenario.Target { return scenario.NewRemote(kafka.Addr) },
		Prefix: prefix,
	}
}

// TestRandomScenarios runs scenarios that follow from seeds against Apache Kafka and kshare. One that differs is shown as a shorter script.
func TestRandomScenarios(t *testing.T) {
	form := asked(t)
	n := *randomSeeds
	if n == 0 {
		if n = 10; form == full {
			n = 200
		}
	}
	kafka := startKafka(t, settings{config: (&replay.Script{Config: warmConfig}).AllConfig()})
	defer func() { assert.NoError(t, kafka.Close()) }()
	var mu sync.Mutex
	var running sync.WaitGroup
	var commands, agree, differ, omitted, failed int
	free := make(chan struct{}, sideBySide)
	for seed := uint64(1); seed <= uint64(n); seed++ {
		free <- struct{}{}
		running.Go(func() {
			defer func() { <-free }()
			f, err := scenario.Random(seed, *randomSteps)
			if !assert.NoError(t, err) {
				return
			}
			d := newDiffer(kafka, fmt.Sprintf("r%d-", seed))
			c, err := d.Compare(f)
			if !assert.NoError(t, err, "seed %d", seed) {
				return
			}
			logDoubts(t, c)
			a, x, o := c.Tally()
			mu.Lock()
			commands, agree, differ, omitted = commands+len(c.Commands), agree+a, differ+x, omitted+o
			if x > 0 {
				failed++
			}
			mu.Unlock()
			if x > 0 {
				small, err := d.Shrink(c, 60)
				assert.NoError(t, err)
				t.Errorf("seed %d differs; a shorter script:\n%s\n%s", seed, small.File.Text(), small.SideBySide("kshare", "Apache Kafka 4.4.0"))
			}
		})
	}
	running.Wait()
	fmt.Printf("random scenarios: %d seeds, %d differ; %d commands, %d agree, %d differ, %d not compared\n", n, failed, commands, agree, differ, omitted)
}
