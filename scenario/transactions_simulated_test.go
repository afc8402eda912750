package scenario

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"regexp"
	"runtime"
	"slices"
	"strconv"
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
	gate                 string            // what holds it
	dead, fresh          bool              // it needs a producer; it has no share session
	left                 bool
	shaky                bool   // its connection may be closed without its knowing
	overtaken            string // the fault that holds the marker of a coordinator that has been replaced
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
	case s.one(12):
		in := w.held[0]
		w.held = slices.DeleteFunc(w.held, func(other *simulatedInput) bool { return other == in })
		return s.reject(w, in)
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
	case in.rejected:
		s.breaks(neverBack, "%s %d was rejected, and %s has it again", partition, offset, w.member)
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
	taken, left := ofPartition(w.held, of)
	w.held = left
	written, err := s.write(w.producer, taken)
	if err != nil {
		return err
	}
	if !written {
		return s.giveUp(w)
	}
	if s.one(12) {
		shown, err := s.heartbeat(w, "leave workers %s", w.member)
		if err != nil {
			return err
		}
		w.left = strings.HasSuffix(shown, ": left")
	}
	w.asked = taken
	words := staging(w.member, w.producer, taken)
	w.sent = fmt.Sprintf("%s epoch=%d", words, s.runner.world.producers[w.producer].epoch)
	if !s.old && s.one(4) {
		w.gate, w.staging = s.name("gate"), s.name("stage")
		if err := s.try("share-writes %s workers partition=%s hold=yes count=1%s", w.gate, of, pick(&s.generator, "", " stage=after", " stage=after error=INVALID_REQUEST")); err != nil {
			return err
		}
		s.faults = append(s.faults, w.gate)
		return s.try("%s &%s", words, w.staging)
	}
	shown, err := s.run("%s", words)
	if err != nil {
		return err
	}
	if !failed(shown) && s.one(8) { // sent twice
		if shown, err = s.run("%s", words); err != nil {
			return err
		}
	}
	return s.stagedWith(w, shown)
}

// ofPartition are inputs of one partition, each once, and those of others.
func ofPartition(all []*simulatedInput, partition string) (of, others []*simulatedInput) {
	for _, in := range all {
		if in.partition != partition {
			others = append(others, in)
		} else if !slices.Contains(of, in) {
			of = append(of, in)
		}
	}
	return of, others
}

// write writes outputs in a producer's transaction.
func (s *simulation) write(producer string, inputs []*simulatedInput) (written bool, err error) {
	if s.old {
		if shown, err := s.run("txn-add-partitions %s bills-0", producer); err != nil || failed(shown) {
			return false, err
		}
	}
	values := make([]string, len(inputs))
	for i, in := range inputs {
		values[i] = in.value
	}
	shown, err := s.run("produce bills-0 %s producer=%s txn=yes", strings.Join(values, " "), producer)
	return err == nil && !failed(shown), err
}

// staging is the command that stages the acknowledgement of inputs of one partition.
func staging(member, producer string, inputs []*simulatedInput) string {
	acks := make([]string, len(inputs))
	for i, in := range inputs {
		acks[i] = fmt.Sprintf("%d=accept", in.offset)
	}
	slices.Sort(acks)
	return fmt.Sprintf("txn-ack workers %s %s %s %s", member, producer, inputs[0].partition, strings.Join(acks, " "))
}

// reject has a worker reject what it holds, outside of its transaction. Where its lock may have ended the answer says nothing: outside of transactions what lies below the start offset
// is passed over.
func (s *simulation) reject(w *simulatedWorker, in *simulatedInput) error {
	holds := in.holder == w && s.now().Before(in.until)
	shown, err := s.run("ack workers %s %s %d=reject", w.member, in.partition, in.offset)
	switch {
	case err != nil:
		return err
	case !failed(shown) && strings.Contains(shown, "ok"):
		in.rejected, in.unknown, in.holder = holds, in.unknown || !holds, nil
		return nil
	}
	in.unknown, w.fresh = true, true
	s.letGo(w)
	return nil
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
		w.left = false
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
		} else if !w.fresh && s.one(2) {
			if err := s.reject(w, w.asked[0]); err != nil {
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
	if w.overtaken != "" && s.one(2) {
		return s.unfault(w.overtaken)
	}
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
	if !s.old && !w.dead && w.sent != "" && s.one(10) {
		return s.try("%s", w.sent) // comes late
	}
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
	if w.staging == "" && w.retries == "" && !w.dead && s.one(2) {
		s.zombies = append(s.zombies, &simulatedZombie{w.producer, w.member, w.held, w.staged})
		w.producer = s.name("again")
	}
	w.held, w.staged, w.asked, w.retries, w.sent = nil, nil, nil, "", ""
	shown, err := s.run("init-producer %s txn=%s timeout=%s once=yes", w.producer, w.id, s.timeout())
	w.dead = failed(shown)
	if w.staging != "" {
		w.dead = true // until what it had asked for is answered
	}
	return err
}

// haunt is a step of a zombie: it does as its worker would, and is over with the first error.
func (s *simulation) haunt(z *simulatedZombie) error {
	if len(z.held) > 0 {
		var taken []*simulatedInput
		taken, z.held = ofPartition(z.held, z.held[0].partition)
		written, err := s.write(z.producer, taken)
		if err != nil {
			return err
		}
		if written {
			shown, err := s.run("%s", staging(z.member, z.producer, taken))
			if err != nil {
				return err
			}
			written = !failed(shown)
		}
		if z.staged = append(z.staged, taken...); written {
			return nil
		}
	} else {
		shown, err := s.run("txn-end %s commit %s", z.producer, s.ends)
		if err != nil {
			return err
		}
		if !failed(shown) {
			for _, in := range z.staged {
				in.committed, in.holder = true, nil
			}
		}
	}
	s.zombies = slices.DeleteFunc(s.zombies, func(other *simulatedZombie) bool { return other == z })
	return nil
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
	switch s.rand.IntN(24) {
	case 0, 1, 2:
		return s.try("advance %s", pick(g, "100ms", "1s", "5s", "31s"))
	case 3:
		return s.moveLeader(pick(g, partition, partition, "bills-0"))
	case 4:
		return s.try("move-coordinator share workers/%s %d%s", partition, s.live(1+s.rand.Int32N(3)), pick(g, "", " loading=1s"))
	case 5, 6:
		return s.try("move-coordinator transaction %s %d%s", w.id, s.live(1+s.rand.Int32N(3)), pick(g, "", " loading=1s"))
	case 7:
		return s.try("move-coordinator group workers %d%s", s.live(1+s.rand.Int32N(3)), pick(g, "", " loading=1s"))
	case 8:
		return add("failing", "share-writes %s workers count=1 error=%s %s", pick(g, "INVALID_REQUEST", "NETWORK_EXCEPTION"), pick(g, "", "stage=after"))
	case 9, 10:
		return add("markers", "marker-writes %s %s count=%d %s %s %s", w.id, 1+s.rand.IntN(2), pick(g, "", "topic=__share_group_state", "topic=bills"),
			pick(g, "hold=yes", "hold=yes", "delay=3s", "error=NOT_LEADER_OR_FOLLOWER"), pick(g, "", "", "stage=after"))
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
	case 14, 15:
		if len(s.zombies) > 0 {
			return s.haunt(pick(g, s.zombies...))
		}
	case 16:
		return s.stopOrStart()
	case 17:
		return s.withoutSpace(w)
	case 18:
		if s.one(2) {
			return s.deleteRecords(partition)
		}
	case 19:
		if s.one(4) {
			return s.setBack(partition)
		}
	case 20:
		if len(w.staged) > 0 && w.staging == "" && w.retries == "" {
			return s.replaceCoordinator(w)
		}
	case 21:
		return s.try("advance 31s")
	case 22, 23:
		return s.pause(w)
	}
	return nil
}

// pause has a worker do nothing while its locks end and another goes on.
func (s *simulation) pause(w *simulatedWorker) error {
	if err := s.try("advance 31s"); err != nil {
		return err
	}
	other := s.workers[(slices.Index(s.workers, w)+1)%len(s.workers)]
	for range 4 {
		if err := s.work(other); err != nil || s.broken != nil {
			return err
		}
	}
	return nil
}

// withoutSpace is a step of a worker while nothing can be stored.
func (s *simulation) withoutSpace(w *simulatedWorker) error {
	if err := s.try("disk full count=%d", 1+s.rand.IntN(3)); err != nil {
		return err
	}
	if err := s.work(w); err != nil {
		return err
	}
	return s.try("disk well")
}

// replaceCoordinator has a worker's transaction be aborted by another coordinator than the one whose marker is on its way.
func (s *simulation) replaceCoordinator(w *simulatedWorker) error {
	name := s.name("overtaken")
	s.faults, w.overtaken = append(s.faults, name), name
	if err := s.try("marker-writes %s %s topic=__share_group_state count=1 hold=yes", name, w.id); err != nil {
		return err
	}
	if err := s.giveUp(w); err != nil {
		return err
	}
	return s.try("move-coordinator transaction %s %d", w.id, s.live(1+s.rand.Int32N(3)))
}

// stopOrStart stops a node, or starts the one that is stopped.
func (s *simulation) stopOrStart() error {
	if s.stopped != 0 {
		n := s.stopped
		s.stopped = 0
		return s.try("start-node %d", n)
	}
	for _, w := range s.workers {
		s.letGo(w)
		w.fresh = true
	}
	s.stopped = 1 + s.rand.Int32N(3)
	return s.try("stop-node %d", s.stopped)
}

// deleteRecords deletes records of which some may be held or staged.
func (s *simulation) deleteRecords(partition string) error {
	below := int64(1 + s.rand.IntN(3))
	for _, in := range s.inputs {
		in.unknown = in.unknown || in.partition == partition && in.offset < below
	}
	return s.try("delete-records %s %d", partition, below)
}

// setBack has all workers leave and the group begin anew at an offset of a partition. What waits for transactions there is forgotten: they end without it.
func (s *simulation) setBack(partition string) error {
	for _, w := range s.workers {
		if w.staging != "" {
			if err := s.staged(w); err != nil {
				return err
			}
		}
		if err := s.try("leave workers %s", w.member); err != nil {
			return err
		}
		if s.connected(w) { // a leader forgets what it knows of the offsets with the connection of the last session
			if err := s.try("disconnect workers %s", w.member); err != nil {
				return err
			}
		}
		s.letGo(w)
		w.held, w.fresh = nil, true
	}
	if err := s.try("advance 1s"); err != nil { // a share coordinator that loads would leave the offset as it is
		return err
	}
	from := int64(s.rand.IntN(3))
	shown, err := s.run("alter-share-offsets workers %s=%d", partition, from)
	if err != nil {
		return err
	}
	if strings.Contains(shown, ": ok") {
		for _, in := range s.inputs {
			if in.partition != partition {
				continue
			}
			if in.committed {
				in.known++
			}
			in.lives++
			in.committed, in.rejected, in.unknown, in.deliveries = false, false, in.unknown || in.offset < from, 0
		}
		elsewhere := func(in *simulatedInput) bool { return in.partition == partition }
		for _, w := range s.workers {
			w.staged = slices.DeleteFunc(w.staged, elsewhere)
		}
		for _, z := range s.zombies {
			z.held, z.staged = slices.DeleteFunc(z.held, elsewhere), slices.DeleteFunc(z.staged, elsewhere)
		}
	}
	for _, w := range s.workers {
		if err := s.try("join workers %s orders once=yes", w.member); err != nil {
			return err
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

// live is a node, or the one behind it where that is stopped.
func (s *simulation) live(node int32) int32 {
	if node == s.stopped {
		return 1 + node%3
	}
	return node
}

func (s *simulation) moveLeader(partition string) error {
	p, err := parsePartition(partition)
	if err != nil {
		return err
	}
	for _, t := range s.runner.world.target.cluster().InspectTopics() {
		if t.Name == p.topic {
			to := s.live(1 + t.Partitions[p.partition].Leader%3)
			if to == t.Partitions[p.partition].Leader {
				return nil
			}
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
	s.faults, s.zombies, s.stopped = nil, nil, 0
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
				s, err := simulate(seed, seed%5 == 0)
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
		{"stage.revert.rearms.lock:off", false, neverStuck},
		{"leader.refresh:reload", false, oneHolder},
		{"member.validation:off", false, removedStageNo},
		{"epoch.match:exact", true, neverStuck},
		{"delivery.limit.on.abort:ignore", false, withinLimit},
		{"persisted.merge:higher-state", false, neverBack},
		{"coordinator.epoch.check:off", true, neverBack},
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
