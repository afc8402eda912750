package scenario

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"kshare"
)

// The same seed writes the same scenario, and the scenario shows the same each time.
func TestRandomIsAFunctionOfItsSeed(t *testing.T) {
	for seed := range uint64(20) {
		f, err := Random(seed, 50)
		require.NoError(t, err)
		again, err := Random(seed, 50)
		require.NoError(t, err)
		require.Equal(t, f.Text(), again.Text(), "seed %d", seed)
		local := func() *Local { return NewLocal(kshare.WithTiming(kshare.TimingKafka)) }
		d := &Differ{Here: local, There: func() Target { return local() }, Prefix: "p"}
		c, err := d.Compare(f)
		require.NoError(t, err)
		require.False(t, c.Differs(), "seed %d\n%s", seed, c.SideBySide("first", "second"))
	}
}

// notRandom are commands that ask brokers and that no random scenario has.
var notRandom = map[string]string{
	"dead-letters": "no group has a dead letter queue",
	"help":         "asks nothing",
	"send":         "random requests are what package probe of differential sends",
	"send-bytes":   "random requests are what package probe of differential sends",
	"wait":         "nothing runs in the background",
	"txn-ack":      "Apache Kafka has no transactional acknowledgements",
	"acl":          withoutAuthorizer,
	"acls":         withoutAuthorizer,
	"delete-acl":   withoutAuthorizer,
}

const withoutAuthorizer = "random scenarios run without an authorizer"

// Every command that asks brokers is in the scenarios that are run against a real Kafka, unless there is a reason.
func TestRandomHasEveryCommand(t *testing.T) {
	written := map[string]bool{}
	for seed := uint64(1); seed <= 40; seed++ {
		f, err := Random(seed, 50)
		require.NoError(t, err)
		for _, l := range f.commandLines() {
			written[strings.Fields(l)[0]] = true
		}
	}
	for name, c := range commands {
		if why := notRandom[name]; c.reach == anywhere {
			assert.Equal(t, why == "", written[name], "%s: %s", name, why)
		}
	}
	for name := range notRandom {
		assert.Contains(t, commands, name)
	}
}
