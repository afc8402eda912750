package differential

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"kshare"
	"kshare/replay"
	"kshare/scenario"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A kshare that was given a bug, which accepts what is released, is found out on Apache Kafka by a scenario of the wire and by a random seed, where kshare
// itself agrees. The script is shrunk against kshare, which takes no time, and what is left still shows the bug on Apache Kafka.
func TestABugIsFoundOut(t *testing.T) {
	asked(t)
	kafka := startKafka(t, settings{config: (&replay.Script{Config: warmConfig}).AllConfig()})
	defer func() { assert.NoError(t, kafka.Close()) }()
	mutant := newDiffer(kafka, "m")
	mutant.Here = func() *scenario.Local { return scenario.NewMutant(kshare.WithTiming(kshare.TimingKafka)) }
	plain := newDiffer(kafka, "k")
	foundOut := func(f *scenario.File) (*scenario.Comparison, bool) {
		c, err := mutant.Compare(f)
		require.NoError(t, err)
		if !c.Differs() {
			return c, false
		}
		right, err := plain.Compare(f)
		require.NoError(t, err)
		return c, !right.Differs()
	}

	const telling = "released-records-come-before-new-ones.txt"
	text, err := os.ReadFile(filepath.Join(wire, telling))
	require.NoError(t, err)
	f, err := scenario.Parse(telling, text)
	require.NoError(t, err)
	_, found := foundOut(f)
	assert.True(t, found, "%s does not find it out", telling)

	inProcess := &scenario.Differ{Here: mutant.Here, There: func() scenario.Target { return plain.Here() }, Prefix: "p"}
	for seed := uint64(1); seed <= 10; seed++ {
		f, err := scenario.Random(seed, 50)
		require.NoError(t, err)
		if _, found := foundOut(f); !found {
			continue
		}
		c, err := inProcess.Compare(f)
		require.NoError(t, err)
		small, err := inProcess.Shrink(c, 300)
		require.NoError(t, err)
		c, found := foundOut(small.File)
		assert.True(t, found)
		assert.Less(t, len(c.Commands), 15)
		fmt.Printf("a bug found out by seed %d, in %d commands:\n%s%s", seed, len(c.Commands), small.File.Text(), c.SideBySide("mutant", "Apache Kafka 4.4.0"))
		return
	}
	t.Error("no seed from 1 to 10 finds it out")
}
