package differential

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kshare"
	"kshare/replay"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// shortSessions are those of the short form: each takes less than a minute.
var shortSessions = []string{"versions", "groups", "membership", "share"}

// unsteady are steps whose answers depend on how fast the machine is that Apache Kafka runs on.
var unsteady = map[string]string{
	"codecs 43 fetch-all-after-delete": "offsets of a deleted topic are removed a moment later",
	"codecs 44 fetch-v9-after-delete":  "offsets of a deleted topic are removed a moment later",
	"groups 29 heartbeat-rebalancing":  "the join that begins the rebalance comes over another connection, a moment before",
	"order 24 txn-bad-crc-describe":    "the transaction began as late as the session ran behind the recording",
	"produce 161 init":                 "the first block of producer ids may still be on its way",
	"topics 212 fetch-deleted-topic":   "a topic is gone a moment after it was deleted",
}

// patience is how much longer than the recorder's the polling on a busy machine may take.
const patience = 10 * time.Second

// TestSessions plays the recorded sessions of the gate against a running Apache Kafka. What it answers is a recording
// of its own, which is played against kshare: any difference without a reason in the table of divergences is a
// difference of the two brokers today. The old recording is held against both in real time: against Kafka, whose
// differences must follow from ids that it made up or from the time of day, so that kshare with the same ids and clock
// has them too, and against kshare on a TCP port. Waits are left out, since a busy machine's are never exact; for the same reason a session in which
// something differs is played once more, and what differs in both runs counts.
func TestSessions(t *testing.T) {
	f := asked(t)
	table, err := replay.Table()
	require.NoError(t, err)
	for _, name := range replay.Names() {
		if !replay.Scripts[name].Gate || f == short && !slices.Contains(shortSessions, name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			if why := notLive[name]; why != "" {
				t.Skip(why)
			}
			c := play(t, name)
			found := c.findings(table)
			if len(found) > 0 {
				c = play(t, name)
				found = again(t, found, c.findings(table))
			}
			fmt.Println(c.figures(table))
			for _, x := range found {
				if why := unsteady[name+" "+x.step.String()]; why != "" {
					t.Logf("%s: %s", why, x)
				} else {
					t.Error(x)
				}
			}
		})
	}
}

// notLive are the sessions of the gate that are played in the bubble alone.
var notLive = map[string]string{
	"compaction": "what it shows depends on when the cleaner's turns come, to the millisecond",
	"crash":      "it kills its broker",
	"oauth":      secured,
	"reauth":     secured,
	"security":   secured,
	"txn":        markersVary,
	"txn-epochs": markersVary,
	"txn-matrix": markersVary,
}

const secured = "its broker has a listener with SASL, which the nodes of these tests have not"

// anyListener is a broker whose one listener has any name.
type anyListener struct{ broker }

// broker is what both sides are.
type broker interface {
	Dial(ctx context.Context) (net.Conn, error)
	Close() error
}

func (l anyListener) Dial(ctx context.Context, _ string) (net.Conn, error) { return l.broker.Dial(ctx) }

const markersVary = "requests follow the end of a transaction at once, and Apache Kafka writes its markers a fraction of a millisecond to some 15 ms after the answer"

// play plays a session against fresh brokers.
func play(t *testing.T, name string) (c comparison) {
	old, err := replay.Load("../testdata/vectors", name)
	require.NoError(t, err)
	script := *replay.Scripts[name]
	both := settings{maps.Clone(script.AllConfig()), script.Features}
	// Retention would remove the recorded records, whose timestamps are of the recording's day.
	both.config["log.initial.task.delay.ms"] = fmt.Sprint(time.Hour.Milliseconds())
	tcp, err := startKshare(both, replay.TopicIDs(old, &script))
	require.NoError(t, err)
	defer func() { assert.NoError(t, tcp.Close()) }()
	kafka := startKafka(t, both)
	defer func() { assert.NoError(t, kafka.Close()) }()

	script.Began, script.Patience = time.Now().Add(-old.Steps[0].Start()), patience
	c.kafka, c.tcp = playBoth(t, old, &script, anyListener{kafka}, anyListener{tcp})
	c.today = playInBubble(t, c.kafka.Recording(), &script, both)
	return c
}

// again returns what was found twice, and logs what was not.
func again(t *testing.T, first, second []finding) (both []finding) {
	same := func(xs []finding, x finding) bool {
		return slices.ContainsFunc(xs, func(y finding) bool { return x.step.N == y.step.N && x.what == y.what })
	}
	for _, x := range second {
		if same(first, x) {
			both = append(both, x)
		}
	}
	for _, x := range slices.Concat(first, second) {
		if !same(both, x) {
			t.Logf("in one of two runs: %s", x)
		}
	}
	return both
}

// playBoth plays a session against both brokers at the same time.
func playBoth(t *testing.T, s *replay.Session, script *replay.Script, kafka, tcp replay.Server) (kafkas, kshares *replay.Report) {
	done := make(chan error)
	go func() {
		r, err := replay.Play(s, script, tcp)
		kshares = r
		done <- err
	}()
	kafkas, err := replay.Play(s, script, kafka)
	require.NoError(t, <-done)
	require.NoError(t, err)
	return kafkas, kshares
}

// playInBubble plays a session against a kshare of its own, in no time.
func playInBubble(t *testing.T, s *replay.Session, script *replay.Script, both settings) (r *replay.Report) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(replay.Began(script)))
		c, err := startKshare(both, replay.TopicIDs(s, script), kshare.WithInMemoryNetwork())
		require.NoError(t, err)
		r, err = replay.Play(s, script, anyListener{c})
		assert.NoError(t, c.Close())
		require.NoError(t, err)
	})
	return r
}

// comparison is what became of the sides of a session.
type comparison struct {
	kafka *replay.Report // Apache Kafka against the recording
	tcp   *replay.Report // kshare against the recording, in real time
	today *replay.Report // kshare against what Apache Kafka answered now
}

// finding is a difference without a reason.
type finding struct {
	step *replay.Step
	what string
	text string
}

func (x finding) String() string {
	return fmt.Sprintf("step %s (%s v%d): %s:%s", x.step, x.step.API, x.step.Version, x.what, x.text)
}

// follows tells whether Apache Kafka differs from its recording at a step where kshare, with the ids that it made up
// now and its clock, answers as it does.
func (c comparison) follows(i int) bool {
	return len(c.kafka.Steps[i].Diffs) > 0 && len(c.today.Steps[i].Diffs) == 0
}

func (c comparison) findings(table *replay.Divergences) (found []finding) {
	for _, side := range []struct {
		what   string
		report *replay.Report
	}{
		{"Apache Kafka differs from its recording", c.kafka},
		{"kshare differs from the recording", c.tcp},
		{"kshare differs from Apache Kafka today", c.today},
	} {
		for i, p := range side.report.Steps {
			switch {
			case len(p.Diffs) == 0 || side.report != c.today && c.follows(i):
			case side.report != c.kafka && table.Explains(side.report.Session, p):
			default:
				found = append(found, finding{c.kafka.Steps[i].Step, side.what, lines(p.Diffs)})
			}
		}
	}
	return found
}

// figures is a line of counts.
func (c comparison) figures(table *replay.Divergences) string {
	agree, follow, both := 0, 0, 0
	for i, p := range c.kafka.Steps {
		if c.follows(i) && len(c.tcp.Steps[i].Diffs) > 0 {
			both++
		}
		switch {
		case len(p.Diffs) == 0:
			agree++
		case c.follows(i):
			follow++
		}
	}
	all := len(c.kafka.Steps)
	tcp, today := c.tcp.Tally(table), c.today.Tally(table)
	return fmt.Sprintf("session %-11s %3d steps | Kafka as recorded: %3d agree, %d follow from ids or clock, %d differ"+
		" | kshare as recorded: %3d agree, %d as Kafka, %d with a reason, %d differ | kshare and Kafka today: %3d agree, %d with a reason, %d differ",
		c.kafka.Session, all, agree, follow, all-agree-follow,
		tcp.Agree, both, tcp.Explained, all-tcp.Agree-both-tcp.Explained,
		today.Agree, today.Explained, all-today.Agree-today.Explained)
}

func lines(diffs []replay.Diff) string {
	var b strings.Builder
	for _, d := range diffs {
		fmt.Fprintf(&b, "\n    %s", d)
	}
	return b.String()
}
