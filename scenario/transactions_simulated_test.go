package scenario

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	simulatedSeeds = flag.Uint64("transactions.seeds", 300, "how many runs of workers that acknowledge in transactions are simulated")
	simulatedFirst = flag.Uint64("transactions.seed", 1, "the seed of the first run")
)

// Properties of acknowledgements in transactions.
const (
	exactlyOnce    = "each input's output is visible exactly once"
	neverBack      = "no record comes back after its acknowledgement has taken effect"
	neverStuck     = "no record waits for ever"
	oneHolder      = "no record has two holders"
	withinLimit    = "no record is delivered more often than the limit"
	removedStageNo = "members that were removed stage nothing"
)

// broken is a property that did not hold.
type broken struct{ property, what string }

// simulation is a run of workers which read records of a share group, write one output for each and acknowledge it in the same transaction, while things go wrong at every
// step. It is a function of its seed: there is no time but the script's, and no goroutine. What it does is a scenario.
type simulation struct {
	generator
	limit   int
	ends    string // options of txn-end
	old     bool   // producers keep their epoch from one transaction to the next, as those before transaction.version 2 do
	workers []*simulatedWorker
	zombies []*simulatedZombie
	shown   []string // what the commands have shown
	stopped int32    // a node, 0 for none
	inputs  []*simulatedInput
	faults  []string
	names   int // of faults and of commands in the background
	lost    int // ShareFetch answers that may have been lost
	commits int
	given   bool // a client has given up on an answer: when the broker notices, and releases what it held, is not for it to see
	broken  *broken
}

type simulatedInput struct {
	value, partition string
	offset           int64
	deliveries       int
	committed        bool
	rejected         bool // outside of a transaction
	unknown          bool // a rejection without an answer, or its record or the group's offset for it was deleted
	lives, known     int  // how often the group's offset was set back to it, and commits before that
	holder           *simulatedWorker
	until            time.Time // of the holder's lock
}

type simulatedWorker struct {
	member, producer, id string
	held, staged         []*simulatedInput
	asked                []*simulatedInput // what is being staged in the background
	staging              string            // the command that does so
	abandoned            bool              // it has aborted the transaction that this is for
	gate                 string            // what holds it
	dead, fresh          bool              // it needs a producer; it has no share session
	left                 bool
	shaky                bool   // its connection may be closed without its knowing
	overtaken            string // the fault that holds the marker of a coordinator that has been replaced, or what was staged for a transaction that was aborted
	sent                 string // its last txn-ack, with the producer's epoch
	retries              string // how the transaction ends whose end was not answered
}

// simulatedZombie is an instance of a worker that goes on after another one has its transactional id.
type simulatedZombie struct {
	producer, member string
	held, staged     []*simulatedInput
}

const (
	simulatedPartitions = 2
	simulatedLock       = 30 * time.Second
)

var (
	acquiredLine  = regexp.MustCompile(`(orders-\d): acquired (.*?), lock`)
	acquiredRange = regexp.MustCompile(`(\d+)(?:-(\d+))? count (\d+)`)
	outputValue   = regexp.MustCompile(`\d+ (i\d+)`)
	undone        = regexp.MustCompile(`TX_PENDING|ARCHIVING|(?m)^  [0-9-]+ +(AVAILABLE|ACQUIRED)`)
)

// simulate runs a seed with switches of KIP-1289.
func simulate(seed uint64, old bool, switches ...string) (*simulation, error) {
	s := &simulation{generator: generator{rand: rand.New(rand.NewPCG(seed, 1289)), runner: newRunner(NewLocal(), Options{})}, limit: 10, old: old}
	if s.one(4) {
		s.limit = 2
	}
	s.ends = "once=yes"
	if old {
		s.ends += " version=4"
	}
	err := s.play(switches)
	if closing := s.runner.world.end(); err == nil {
		err = closing
	}
	return s, err
}

func (s *simulation) text() string { return strings.Join(s.lines, "\n") + "\n" + separator + "\n" }

// run runs a command and returns what it shows.
func (s *simulation) run(format string, args ...any) (string, error) {
	l := strings.TrimSpace(fmt.Sprintf(format, args...))
	s.lines = append(s.lines, l)
	r, err := s.runner.command(line{len(s.lines), l})
	if err != nil {
		return "", located(err, "simulation", len(s.lines))
	}
	s.shown = append(s.shown, r.Shown...)
	shown := strings.Join(r.Shown, "\n")
	s.given = s.given || strings.Contains(shown, "no answer")
	return shown, nil
}

// try is run for what shows nothing that matters.
func (s *simulation) try(format string, args ...any) error {
	_, err := s.run(format, args...)
	return err
}

func (s *simulation) breaks(property, format string, args ...any) {
	if s.broken == nil {
		s.broken = &broken{property, fmt.Sprintf(format, args...)}
	}
}

func (s *simulation) name(kind string) string {
	s.names++
	return fmt.Sprintf("%s%d", kind, s.names)
}

func (s *simulation) now() time.Time { return s.runner.world.target.now() }

// failed tells whether a command shows an error or no answer.
func failed(shown string) bool {
	return strings.Contains(shown, "connection") || strings.Contains(shown, "no answer") || regexp.MustCompile(`\(-?\d+\)`).MatchString(shown)
}

func (s *simulation) play(switches []string) error {
	kip := "on"
	if len(switches) > 0 {
		kip = strings.Join(switches, ",")
	}
	setup := []string{
		"cluster brokers=3 kip1289=" + kip,
		fmt.Sprintf("topic orders partitions=%d replicas=3", simulatedPartitions), "topic bills replicas=3",
		fmt.Sprintf("config group workers share.auto.offset.reset=earliest share.assignment.interval.ms=0 share.delivery.count.limit=%d", s.limit),
		"config group readers share.auto.offset.reset=earliest share.isolation.level=read_committed",
	}
	for p := range simulatedPartitions {
		var values []string
		for i := range 4 + s.rand.IntN(6) {
			in := &simulatedInput{value: fmt.Sprintf("i%d", len(s.inputs)), partition: fmt.Sprintf("orders-%d", p), offset: int64(i)}
			s.inputs, values = append(s.inputs, in), append(values, in.value)
		}
		setup = append(setup, fmt.Sprintf("produce orders-%d %s", p, strings.Join(values, " / ")))
	}
	for i := range 2 + s.rand.IntN(2) {
		w := &simulatedWorker{member: fmt.Sprintf("m%d", i), producer: fmt.Sprintf("p%d", i), id: fmt.Sprintf("t%d", i)}
		s.workers = append(s.workers, w)
		setup = append(setup, "join workers "+w.member+" orders", fmt.Sprintf("init-producer %s txn=%s timeout=%s", w.producer, w.id, s.timeout()))
	}
	for _, l := range setup {
		if err := s.try("%s", l); err != nil {
			return err
		}
	}
	for range 25 + s.rand.IntN(30) {
		step := func() error { return s.work(pick(&s.generator, s.workers...)) }
		if s.one(3) {
			step = s.disturb
		}
		if err := step(); err != nil || s.broken != nil {
			return err
		}
	}
	if err := s.settle(); err != nil || s.broken != nil {
		return err
	}
	return s.check()
}

// timeout is that of a transaction, now and then one that time comes past.
func (s *simulation) timeout() string { return pick(&s.generator, "10m", "10m", "20s") }

// settle ends all faults and transactions, and has one worker settle what is left.
func (s *simulation) settle() error {
	for _, w := range s.workers {
		if w.staging != "" {
			if err := s.staged(w); err != nil {
				return err
			}
		}
	}
	for len(s.faults) > 0 {
		if err := s.unfault(s.faults[0]); err != nil {
			return err
		}
	}
	if s.stopped != 0 {
		if err := s.stopOrStart(); err != nil {
			return err
		}
	}
	if err := s.try("advance 5s"); err != nil {
		return err
	}
	for _, w := range s.workers {
		w.held, w.staged, w.retries, w.fresh = nil, nil, "", true
		if err := s.try("init-producer %s txn=%s", w.producer, w.id); err != nil {
			return err
		}
		if err := s.try("leave workers %s", w.member); err != nil { // else the last one is not assigned all partitions
			return err
		}
	}
	last := &simulatedWorker{member: "last", producer: "last", id: "last"}
	for _, l := range []string{"join workers last orders", "init-producer last txn=last"} {
		if err := s.try("%s", l); err != nil {
			return err
		}
	}
	for idle, rounds := 0, 0; idle < 2 && s.broken == nil; rounds++ {
		if rounds == 100 {
			s.breaks(neverStuck, "after 100 rounds there are still records")
			break
		}
		if err := s.read(last); err != nil {
			return err
		}
		if len(last.held) == 0 {
			idle++
			if err := s.try("advance 31s"); err != nil {
				return err
			}
			continue
		}
		idle = 0
		for len(last.held) > 0 {
			if err := s.settleSome(last); err != nil {
				return err
			}
		}
	}
	return nil
}

// settleSome is transform and end where nothing goes wrong any more.
func (s *simulation) settleSome(w *simulatedWorker) error {
	in := w.held[0]
	w.held = w.held[1:]
	if err := s.try("produce bills-0 %s producer=%s txn=yes", in.value, w.producer); err != nil {
		return err
	}
	shown, err := s.run("txn-ack workers %s %s %s %d=accept", w.member, w.producer, in.partition, in.offset)
	if err != nil {
		return err
	}
	how := "commit"
	if failed(shown) {
		how = "abort"
	}
	in.holder, in.committed = nil, how == "commit"
	return s.try("txn-end %s %s", w.producer, how)
}

// check looks at what has come of it all.
func (s *simulation) check() error {
	for p := range simulatedPartitions {
		shown, err := s.run("state workers orders-%d", p)
		if err != nil {
			return err
		}
		if undone.MatchString(shown) {
			s.breaks(neverStuck, "orders-%d: %s", p, shown)
		}
	}
	if err := s.try("join readers r bills"); err != nil {
		return err
	}
	visible := map[string]int{}
	for idle := 0; idle < 2; {
		shown, err := s.run("fetch readers r wait=500ms records=10 batch=10 mode=record_limit")
		if err != nil {
			return err
		}
		found := outputValue.FindAllStringSubmatch(shown, -1)
		for _, m := range found {
			visible[m[1]]++
		}
		if !strings.Contains(shown, "acquired") {
			idle++
		}
	}
	for _, in := range s.inputs {
		least, most := in.known, in.lives+1
		switch {
		case in.committed:
			least++
		case in.rejected:
			most--
		case in.unknown, in.deliveries+s.lost >= s.limit, s.limit == 2: // or archived at the limit
		default:
			least++
		}
		if n := visible[in.value]; n < least || n > most {
			s.breaks(exactlyOnce, "%s of %s %d is visible %d times", in.value, in.partition, in.offset, n)
		}
	}
	return nil
}

// With the defaults every property holds, whatever goes wrong.
func TestTransactionsSimulated(t *testing.T) {
	began := time.Now()
	var next, commits, failures atomic.Uint64
	next.Store(*simulatedFirst)
	end := *simulatedFirst + *simulatedSeeds
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for seed := next.Add(1) - 1; seed < end && failures.Load() < 3; seed = next.Add(1) - 1 {
				s, err := simulate(seed, seed%2 == 0)
				if err != nil || s.broken != nil {
					failures.Add(1)
					t.Errorf("seed %d: %s\n%s", seed, s.failure(err), s.text())
				}
				commits.Add(uint64(s.commits))
			}
		})
	}
	all.Wait()
	assert.Positive(t, commits.Load())
	t.Logf("%d seeds in %s, %d commits", *simulatedSeeds, time.Since(began).Round(time.Millisecond), commits.Load())
}

// failure is why a run is one.
func (s *simulation) failure(err error) string {
	if err != nil {
		return err.Error()
	}
	return s.broken.property + ": " + s.broken.what
}

// What the draft does on each point on which it does not keep its promise breaks a property.
func TestUnsafeSwitchesBreakProperties(t *testing.T) {
	for _, x := range []struct {
		unsafe   string
		old      bool
		property string
	}{
		{"late.stage.fence:off", false, neverStuck},
		{"late.stage.fence:off", true, exactlyOnce},
		{"stage.revert.rearms.lock:off", false, neverStuck},
		{"leader.refresh:reload", false, oneHolder},
		{"member.validation:off", false, removedStageNo},
		{"epoch.match:exact", true, neverStuck},
		{"delivery.limit.on.abort:ignore", false, withinLimit},
		{"persisted.merge:higher-state", false, neverBack},
		{"coordinator.epoch.check:off", true, neverBack},
		{"stage.below.start:pass", false, exactlyOnce},
	} {
		t.Run(fmt.Sprintf("%s,old=%t", x.unsafe, x.old), func(t *testing.T) {
			for seed := uint64(1); seed <= 1000; seed++ {
				s, err := simulate(seed, x.old, x.unsafe)
				require.NoError(t, err, "seed %d\n%s", seed, s.text())
				if s.broken != nil && s.broken.property == x.property {
					t.Logf("seed %d: %s", seed, s.broken.what)
					return
				}
			}
			t.Errorf("no seed breaks: %s", x.property)
		})
	}
}

// A seed that fails prints itself as a scenario that shows the same wherever it is run.
func TestFailingSeedIsAScenario(t *testing.T) {
	for seed := uint64(1); seed <= 100; seed++ {
		s, err := simulate(seed, false, "member.validation:off")
		require.NoError(t, err, "seed %d\n%s", seed, s.text())
		if s.broken == nil {
			continue
		}
		f, err := Parse("printed", []byte(s.text()))
		require.NoError(t, err)
		report, err := Run(f, NewLocal(), Options{})
		require.NoError(t, err)
		require.Len(t, report.Blocks, 1)
		require.Equal(t, s.shown, report.Blocks[0].Shown())
		return
	}
	t.Error("no seed fails")
}
