package scenario

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
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
	neverBack      = "no record comes back after the commit of its acknowledgement"
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
	holder           *simulatedWorker
	until            time.Time // of the holder's lock
}

type simulatedWorker struct {
	member, producer, id string
	held, staged         []*simulatedInput
	asked                []*simulatedInput // what is being staged in the background
	staging              string            // the command that does so
	gate                 string            // what holds it
	dead, fresh          bool              // it needs a producer; it has no share session
	left                 bool
	shaky                bool   // its connection may be closed without its knowing
	retries              string // how the transaction ends whose end was not answered
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

// simulate runs a seed with switches of KIP-1289. With producers that keep their epoch nothing tells what is staged late for one transaction from the next, nor a repeated request: no
// answer is lost and no write held.
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
		for i := range 3 + s.rand.IntN(4) {
			in := &simulatedInput{value: fmt.Sprintf("i%d", len(s.inputs)), partition: fmt.Sprintf("orders-%d", p), offset: int64(i)}
			s.inputs, values = append(s.inputs, in), append(values, in.value)
		}
		setup = append(setup, fmt.Sprintf("produce orders-%d %s", p, strings.Join(values, " / ")))
	}
	for i := range 2 + s.rand.IntN(2) {
		w := &simulatedWorker{member: fmt.Sprintf("m%d", i), producer: fmt.Sprintf("p%d", i), id: fmt.Sprintf("t%d", i)}
		s.workers = append(s.workers, w)
		setup = append(setup, "join workers "+w.member+" orders", fmt.Sprintf("init-producer %s txn=%s timeout=10m", w.producer, w.id))
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

// work is one step of a worker.
func (s *simulation) work(w *simulatedWorker) error {
	switch {
	case w.staging != "":
		if s.one(4) {
			return s.crash(w)
		}
		if s.one(2) {
			return s.staged(w)
		}
		return nil
	case w.dead || s.one(15):
		return s.crash(w)
	case w.retries != "":
		return s.end(w, w.retries)
	case len(w.staged) > 0 && (len(w.held) == 0 || s.one(2)):
		return s.end(w, pick(&s.generator, "commit", "commit", "commit", "abort"))
	case len(w.held) == 0:
		return s.read(w)
	}
	return s.transform(w)
}

func (s *simulation) read(w *simulatedWorker) error {
	epoch := ""
	if w.fresh {
		epoch, w.fresh = " epoch=0", false
		s.letGo(w)
	}
	shown, err := s.run("fetch workers %s wait=0s mode=record_limit records=%d%s", w.member, 1+s.rand.IntN(4), epoch)
	if err != nil {
		return err
	}
	if failed(shown) {
		w.fresh = true
		s.lost++
		s.letGo(w)
		return nil
	}
	for _, m := range acquiredLine.FindAllStringSubmatch(shown, -1) {
		for _, r := range acquiredRange.FindAllStringSubmatch(m[2], -1) {
			first, _ := strconv.ParseInt(r[1], 10, 64)
			last := first
			if r[2] != "" {
				last, _ = strconv.ParseInt(r[2], 10, 64)
			}
			count, _ := strconv.Atoi(r[3])
			for offset := first; offset <= last; offset++ {
				s.delivered(w, m[1], offset, count)
			}
		}
	}
	return nil
}

func (s *simulation) delivered(w *simulatedWorker, partition string, offset int64, count int) {
	i := slices.IndexFunc(s.inputs, func(in *simulatedInput) bool { return in.partition == partition && in.offset == offset })
	in := s.inputs[i]
	in.deliveries = max(in.deliveries, count)
	switch {
	case in.committed:
		s.breaks(neverBack, "%s %d was acknowledged in a transaction that was committed, and %s has it again", partition, offset, w.member)
	case count > s.limit:
		s.breaks(withinLimit, "%s %d is delivered for the %dth time", partition, offset, count)
	case !s.given && in.holder != nil && in.holder != w && s.now().Before(in.until):
		s.breaks(oneHolder, "%s has %s %d, and the lock of %s lasts until %s", w.member, partition, offset, in.holder.member, in.until.Format(time.TimeOnly))
	}
	if in.holder, in.until = w, s.now().Add(simulatedLock); w.shaky {
		in.holder = nil
	}
	w.held = append(w.held, in)
}

// letGo takes in that a worker may not hold anything any more.
func (s *simulation) letGo(w *simulatedWorker) {
	for _, in := range s.inputs {
		if in.holder == w {
			in.holder = nil
		}
	}
}

// transform writes outputs for what a worker holds of one partition, and stages its acknowledgement.
func (s *simulation) transform(w *simulatedWorker) error {
	of := w.held[0].partition
	var taken, left []*simulatedInput
	for _, in := range w.held {
		if in.partition == of && !slices.Contains(taken, in) {
			taken = append(taken, in)
		} else if in.partition != of {
			left = append(left, in)
		}
	}
	w.held = left
	var values, acks []string
	for _, in := range taken {
		values, acks = append(values, in.value), append(acks, fmt.Sprintf("%d=accept", in.offset))
	}
	if s.old {
		if shown, err := s.run("txn-add-partitions %s bills-0", w.producer); err != nil || failed(shown) {
			return errors.Join(err, s.giveUp(w))
		}
	}
	shown, err := s.run("produce bills-0 %s producer=%s txn=yes", strings.Join(values, " "), w.producer)
	if err != nil {
		return err
	}
	if failed(shown) {
		return s.giveUp(w)
	}
	if s.one(12) {
		shown, err := s.heartbeat(w, "leave workers %s", w.member)
		if err != nil {
			return err
		}
		w.left = strings.HasSuffix(shown, ": left")
	}
	slices.Sort(acks)
	w.asked = taken
	words := fmt.Sprintf("txn-ack workers %s %s %s %s", w.member, w.producer, of, strings.Join(acks, " "))
	if !s.old && s.one(4) {
		w.gate, w.staging = s.name("gate"), s.name("stage")
		if err := s.try("share-writes %s workers partition=%s hold=yes count=1", w.gate, of); err != nil {
			return err
		}
		s.faults = append(s.faults, w.gate)
		return s.try("%s &%s", words, w.staging)
	}
	if shown, err = s.run("%s", words); err != nil {
		return err
	}
	return s.stagedWith(w, shown)
}

// heartbeat is run for what a member says to its group, over the connection that may have its share session.
func (s *simulation) heartbeat(w *simulatedWorker, format string, args ...any) (string, error) {
	shown, err := s.run(format, args...)
	if strings.Contains(shown, "connection") {
		w.fresh = true
		s.letGo(w)
	}
	return shown, err
}

// staged waits for what is being staged in the background.
func (s *simulation) staged(w *simulatedWorker) error {
	if err := s.unfault(w.gate); err != nil {
		return err
	}
	shown, err := s.run("wait %s", w.staging)
	w.staging, w.gate = "", ""
	if err != nil || w.dead {
		return err
	}
	return s.stagedWith(w, shown)
}

func (s *simulation) stagedWith(w *simulatedWorker, shown string) error {
	left := w.left
	w.left = false
	if failed(shown) || !strings.Contains(shown, "ok") {
		if strings.Contains(shown, "connection") {
			w.fresh = true
			s.letGo(w)
		}
		if left || strings.Contains(shown, "MEMBER") {
			if _, err := s.heartbeat(w, "join workers %s orders once=yes", w.member); err != nil {
				return err
			}
		}
		return s.giveUp(w)
	}
	if left {
		s.breaks(removedStageNo, "%s has left the group and staged %d records", w.member, len(w.asked))
	}
	for _, in := range w.asked {
		in.holder = nil
	}
	w.staged, w.asked = append(w.staged, w.asked...), nil
	return nil
}

// giveUp aborts a worker's transaction after an error.
func (s *simulation) giveUp(w *simulatedWorker) error {
	w.held, w.asked = nil, nil
	return s.end(w, "abort")
}

func (s *simulation) end(w *simulatedWorker, how string) error {
	shown, err := s.run("txn-end %s %s %s", w.producer, how, s.ends)
	if err != nil {
		return err
	}
	switch {
	case strings.Contains(shown, "connection") && w.retries == "" && !s.old:
		w.retries = how
		return nil
	case failed(shown):
		w.dead = true
	case how == "commit":
		for _, in := range w.staged {
			in.committed = true
		}
		s.commits++
	}
	w.staged, w.retries = nil, ""
	return nil
}

// crash has a worker begin anew: another instance with the same transactional id.
func (s *simulation) crash(w *simulatedWorker) error {
	if w.staging == "" && s.connected(w) { // else its connection waits
		if err := s.try("disconnect workers %s", w.member); err != nil {
			return err
		}
	}
	w.fresh = true
	s.letGo(w)
	w.held, w.staged, w.asked, w.retries = nil, nil, nil, ""
	shown, err := s.run("init-producer %s txn=%s timeout=10m once=yes", w.producer, w.id)
	w.dead = failed(shown)
	if w.staging != "" {
		w.dead = true // until what it had asked for is answered
	}
	return err
}

func (s *simulation) connected(w *simulatedWorker) bool {
	return slices.ContainsFunc(s.runner.world.connKeys(), func(k connKey) bool { return k.client == "workers/"+w.member })
}

// disturb has something go wrong, or time pass.
func (s *simulation) disturb() error {
	g := &s.generator
	w := pick(g, s.workers...)
	partition := fmt.Sprintf("orders-%d", s.rand.IntN(simulatedPartitions))
	add := func(kind, format string, args ...any) error {
		name := s.name(kind)
		s.faults = append(s.faults, name)
		return s.try(format, append([]any{name}, args...)...)
	}
	switch s.rand.IntN(14) {
	case 0, 1, 2:
		return s.try("advance %s", pick(g, "100ms", "1s", "5s", "31s"))
	case 3:
		return s.moveLeader(pick(g, partition, partition, "bills-0"))
	case 4:
		return s.try("move-coordinator share workers/%s %d%s", partition, 1+s.rand.IntN(3), pick(g, "", " loading=1s"))
	case 5, 6:
		return s.try("move-coordinator transaction %s %d%s", w.id, 1+s.rand.IntN(3), pick(g, "", " loading=1s"))
	case 7:
		return s.try("move-coordinator group workers %d%s", 1+s.rand.IntN(3), pick(g, "", " loading=1s"))
	case 8:
		return add("failing", "share-writes %s workers count=1 error=%s", pick(g, "INVALID_REQUEST", "NETWORK_EXCEPTION"))
	case 9, 10:
		return add("markers", "marker-writes %s %s count=%d %s %s", w.id, 1+s.rand.IntN(2), pick(g, "", "topic=__share_group_state", "topic=bills"),
			pick(g, "hold=yes", "hold=yes", "delay=3s", "error=NOT_LEADER_OR_FOLLOWER"))
	case 11:
		if s.old {
			return nil
		}
		s.letGo(w)
		w.shaky = true
		return add("lost", "fault %s %s times=1 close stage=after", pick(g, "api=EndTxn", "api=InitProducerId", "api=Produce", "client=workers/"+w.member, "client=workers/"+w.member))
	case 12:
		if len(s.faults) > 0 {
			return s.unfault(pick(g, s.faults...))
		}
	case 13:
		if s.one(3) {
			return s.restart()
		}
	}
	return nil
}

func (s *simulation) unfault(name string) error {
	i := slices.Index(s.faults, name)
	if i < 0 {
		return nil
	}
	s.faults = slices.Delete(s.faults, i, i+1)
	return s.try("unfault %s", name)
}

func (s *simulation) moveLeader(partition string) error {
	p, err := parsePartition(partition)
	if err != nil {
		return err
	}
	for _, t := range s.runner.world.target.cluster().InspectTopics() {
		if t.Name == p.topic {
			to := 1 + t.Partitions[p.partition].Leader%3
			for _, in := range s.inputs {
				if in.partition == partition {
					in.holder = nil
				}
			}
			return s.try("move-leader %s %d", partition, to)
		}
	}
	return fmt.Errorf("there is no %s", partition)
}

func (s *simulation) restart() error {
	for _, w := range s.workers {
		if w.staging != "" {
			if err := s.staged(w); err != nil {
				return err
			}
		}
		s.letGo(w)
		w.fresh, w.dead = true, true
		w.held, w.staged, w.asked, w.retries = nil, nil, nil, ""
	}
	s.faults = nil
	return s.try("restart")
}

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
		n := visible[in.value]
		if n == 0 && (in.deliveries+s.lost >= s.limit || s.limit == 2) && !in.committed {
			continue // archived at the limit
		}
		if n != 1 {
			s.breaks(exactlyOnce, "%s of %s %d is visible %d times", in.value, in.partition, in.offset, n)
		}
	}
	return nil
}

// With the defaults every property holds, whatever goes wrong.
func TestTransactionsSimulated(t *testing.T) {
	began, commits := time.Now(), 0
	for seed := *simulatedFirst; seed < *simulatedFirst+*simulatedSeeds; seed++ {
		s, err := simulate(seed, seed%5 == 0)
		require.NoError(t, err, "seed %d\n%s", seed, s.text())
		if s.broken != nil {
			t.Fatalf("seed %d: %s: %s\n%s", seed, s.broken.property, s.broken.what, s.text())
		}
		commits += s.commits
	}
	assert.Positive(t, commits)
	t.Logf("%d seeds in %s, %d commits", *simulatedSeeds, time.Since(began).Round(time.Millisecond), commits)
}

// What the draft does on each point on which it does not keep its promise breaks a property. Two points are not here. With coordinator.epoch.check off a marker of a replaced coordinator
// changes nothing as long as producers have a new epoch with each transaction, which its own is compared with; of a thousand seeds with producers that keep theirs none
// breaks anything. persisted.merge differs only where a write that was stored is answered with an error, which no fault here does.
func TestUnsafeSwitchesBreakProperties(t *testing.T) {
	for _, x := range []struct {
		unsafe   string
		old      bool
		property string
	}{
		{"late.stage.fence:off", false, neverStuck},
		{"stage.revert.rearms.lock:off", false, neverStuck},
		{"leader.refresh:reload", false, oneHolder},
		{"member.validation:off", false, removedStageNo},
		{"epoch.match:exact", true, neverStuck},
		{"delivery.limit.on.abort:ignore", false, withinLimit},
		{"stage.below.start:pass", false, exactlyOnce},
	} {
		t.Run(x.unsafe, func(t *testing.T) {
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
