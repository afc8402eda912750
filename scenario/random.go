package scenario

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"kshare"
	"kshare/sharepartition"
)

// Random writes a scenario of a number of commands that follow from a seed, beginning with what sets its topics and groups up. It runs each command in the process as it goes,
// so that it can acknowledge what was acquired. Locks are left their 30 s, and time is moved only by what a Kafka may take to read a state: a run on a real one takes as
// long as it takes.
func Random(seed uint64, steps int) (*File, error) {
	g := &generator{
		rand:   rand.New(rand.NewPCG(seed, 0)),
		runner: newRunner(NewLocal(kshare.WithTiming(kshare.TimingKafka)), Options{}),
	}
	err := g.write(steps)
	if closing := g.runner.world.end(); err == nil {
		err = closing
	}
	if err != nil {
		return nil, fmt.Errorf("seed %d: %w", seed, err)
	}
	text := strings.Join(g.lines, "\n") + "\n" + separator + "\n"
	return Parse(fmt.Sprintf("seed-%d", seed), []byte(text))
}

// generator writes a random scenario.
type generator struct {
	rand   *rand.Rand
	runner *runner
	lines  []string
}

// What a random scenario is about.
var (
	randomTopics  = []string{"a", "b"}
	randomGroups  = []string{"g", "h"}
	randomMembers = []string{"m1", "m2", "m3"}
	// randomTransactional are producers, each with a transactional id of its name.
	randomTransactional = []string{"x", "y"}
)

// Groups of a random scenario that are no share groups: one that has only committed offsets, a consumer group and a classic group.
const (
	offsetsGroup  = "o"
	consumerGroup = "c"
	classicGroup  = "k"
)

// add runs a command and writes it down.
func (g *generator) add(format string, args ...any) error {
	l := strings.TrimSpace(fmt.Sprintf(format, args...))
	g.lines = append(g.lines, l)
	_, err := g.runner.command(line{len(g.lines), l})
	if err != nil {
		return located(err, "random scenario", len(g.lines))
	}
	return nil
}

func (g *generator) write(steps int) error {
	if err := g.add("cluster timing=kafka group.initial.rebalance.delay.ms=0"); err != nil {
		return err
	}
	for _, t := range randomTopics {
		if err := g.add("topic %s partitions=%d", t, 1+g.rand.IntN(2)); err != nil {
			return err
		}
	}
	for _, group := range randomGroups {
		// With an assignment interval it would depend on the machine's speed how many epochs a group has had.
		settings := []string{"share.assignment.interval.ms=0", "share.auto.offset.reset=" + pick(g, "earliest", "earliest", "latest"),
			fmt.Sprintf("share.delivery.count.limit=%d", 2+g.rand.IntN(4))}
		if g.one(3) {
			settings = append(settings, "share.isolation.level=read_committed")
		}
		if err := g.add("config group %s %s", group, strings.Join(settings, " ")); err != nil {
			return err
		}
		if err := g.join(group, randomMembers[0]); err != nil {
			return err
		}
	}
	for _, l := range []string{"init-producer p", "config group " + consumerGroup + " consumer.assignment.interval.ms=0"} {
		if err := g.add("%s", l); err != nil {
			return err
		}
	}
	for _, p := range randomTransactional {
		if err := g.add("init-producer %s txn=%[1]s timeout=15m", p); err != nil {
			return err
		}
	}
	for len(g.lines) < steps {
		if err := g.step(); err != nil {
			return err
		}
	}
	return nil
}

// one is true once in n times.
func (g *generator) one(n int) bool { return g.rand.IntN(n) == 0 }

func pick[T any](g *generator, all ...T) T { return all[g.rand.IntN(len(all))] }

// member picks a member, mostly one that has joined.
func (g *generator) member() (group, name string) {
	group = pick(g, randomGroups...)
	if g.one(10) {
		return group, pick(g, randomMembers...)
	}
	for range 10 {
		name = pick(g, randomMembers...)
		if m := g.runner.world.members[memberKey{group, name}]; m != nil && m.epoch > 0 {
			break
		}
	}
	return group, name
}

// partition picks a partition, now and then one that does not exist.
func (g *generator) partition() topicPartition {
	t := pick(g, randomTopics...)
	if g.one(20) {
		return topicPartition{t, int32(g.rand.IntN(4))}
	}
	n := len(g.partitions(t))
	if n == 0 {
		n = 1
	}
	return topicPartition{t, int32(g.rand.IntN(n))}
}

// partitions are the partitions of a topic that exist.
func (g *generator) partitions(topic string) (all []topicPartition) {
	for i := int32(0); ; i++ {
		if _, err := g.runner.world.target.cluster().InspectSharePartition("", topic, i); err != nil {
			return all
		}
		all = append(all, topicPartition{topic, i})
	}
}

// weights are how often each kind of step is taken.
var weights = []struct {
	weight int
	step   func(*generator) error
}{
	{24, (*generator).produce},
	{30, (*generator).fetch},
	{30, (*generator).acknowledge},
	{4, func(g *generator) error { return g.join(pick(g, randomGroups...), pick(g, randomMembers...)) }},
	{4, func(g *generator) error {
		group, m := g.member()
		return g.add("heartbeat %s %s%s", group, m, g.oddEpoch())
	}},
	{2, func(g *generator) error { group, m := g.member(); return g.add("leave %s %s", group, m) }},
	{3, func(g *generator) error {
		group, m := g.member()
		return g.add("ack %s %s epoch=%d", group, m, pick(g, -1, -1, -1, 0, 7))
	}},
	{3, (*generator).disconnect},
	{3, func(g *generator) error { return g.add("delete-records %s %d", g.partition(), g.rand.IntN(12)-1) }},
	{4, func(g *generator) error { return g.add("share-offsets %s", pick(g, randomGroups...)) }},
	{3, func(g *generator) error {
		return g.add("alter-share-offsets %s %s=%d", pick(g, randomGroups...), g.partition(), g.rand.IntN(12))
	}},
	{2, func(g *generator) error {
		return g.add("delete-share-offsets %s %s", pick(g, randomGroups...), pick(g, randomTopics...))
	}},
	{4, func(g *generator) error { return g.add("describe-group %s", pick(g, randomGroups...)) }},
	{1, func(g *generator) error { return g.add("delete-group %s", pick(g, randomGroups...)) }},
	{2, func(g *generator) error { return g.add("grow-topic %s %d", pick(g, randomTopics...), 1+g.rand.IntN(3)) }},
	{1, (*generator).deleteTopic},
	{3, (*generator).listOffsets},
	{4, (*generator).read},
	{3, func(g *generator) error {
		return g.add("config group %s share.delivery.count.limit=%d", pick(g, randomGroups...), 2+g.rand.IntN(9))
	}},
	{3, (*generator).configure},
	{2, func(g *generator) error {
		return g.add("describe-config group %s", pick(g, append(randomGroups, consumerGroup)...))
	}},
	{1, func(g *generator) error { return g.add("describe-topic %s", pick(g, randomTopics...)) }},
	{1, func(g *generator) error { return g.add("groups") }},
	{1, func(g *generator) error {
		return g.add("init-producer p%s", pick(g, "", "", " id=p", " id=p epoch=0", " epoch=0"))
	}},
	{2, func(g *generator) error { return g.add("describe-producers %s", g.partition()) }},
	{8, (*generator).offsets},
	{5, (*generator).consumer},
	{4, (*generator).classic},
	{16, (*generator).transaction},
	{6, func(g *generator) error { return g.add("persisted %s %s", pick(g, randomGroups...), g.partition()) }},
}

func (g *generator) step() error {
	total := 0
	for _, w := range weights {
		total += w.weight
	}
	n := g.rand.IntN(total)
	for _, w := range weights {
		if n -= w.weight; n < 0 {
			return w.step(g)
		}
	}
	return nil
}

func (g *generator) join(group, member string) error {
	topics := strings.Join(randomTopics[:1+g.rand.IntN(len(randomTopics))], ",")
	return g.add("join %s %s %s", group, member, topics)
}

// oddEpoch is now and then an epoch that a member does not have.
func (g *generator) oddEpoch() string {
	if g.one(4) {
		return fmt.Sprintf(" epoch=%d", g.rand.IntN(9)-2)
	}
	return ""
}

func (g *generator) produce() error {
	var words []string
	for range 1 + g.rand.IntN(3) {
		if len(words) > 0 {
			words = append(words, "/")
		}
		for i := range 1 + g.rand.IntN(6) {
			words = append(words, string(rune('a'+i)))
		}
	}
	options := ""
	if g.one(8) {
		options = " codec=" + pick(g, codecs...)
	}
	if g.one(5) {
		options += " producer=p"
		if g.one(4) {
			options += fmt.Sprintf(" sequence=%d", g.rand.IntN(12))
		}
	}
	return g.add("produce %s %s%s", g.partition(), strings.Join(words, " "), options)
}

// listOffsets leaves out the greatest timestamp: on a machine whose time passes by itself that is another record's.
func (g *generator) listOffsets() error {
	options := ""
	if g.one(3) {
		options = " at=" + pick(g, "earliest", "latest", "earliest-local", "latest-tiered")
	}
	if g.one(4) {
		options += " isolation=read_committed"
	}
	return g.add("list-offsets %s%s", g.partition(), options)
}

func (g *generator) read() error {
	options := []string{"wait=" + pick(g, "0s", "0s", "500ms")}
	if g.one(3) {
		options = append(options, fmt.Sprintf("max=%d", pick(g, 0, 1, 100, 200, 1000)))
	}
	if g.one(4) {
		options = append(options, fmt.Sprintf("min=%d", pick(g, 0, 100, 300)))
	}
	if g.one(6) {
		options = append(options, "isolation=read_committed")
	}
	if g.one(8) {
		options = append(options, fmt.Sprintf("epoch=%d", g.rand.IntN(3)-1))
	}
	return g.add("read %s offset=%d %s", g.partition(), g.rand.IntN(12), strings.Join(options, " "))
}

// configure sets what may be set, and what may not.
func (g *generator) configure() error {
	if g.one(4) {
		return g.add("config topic %s %s", pick(g, randomTopics...), pick(g, "max.message.bytes=90", "max.message.bytes=1000000", "-max.message.bytes",
			"retention.ms=-2", "cleanup.policy=burn", "compression.type=lz4", "compression.type=producer", "no.such.config=1"))
	}
	return g.add("config group %s %s", pick(g, randomGroups...), pick(g, "share.record.lock.duration.ms=5", "share.delivery.count.limit=1",
		"share.delivery.count.limit=11", "-share.delivery.count.limit", "share.isolation.level=read_committed", "share.isolation.level=read_uncommitted",
		"share.isolation.level=dirty", "share.auto.offset.reset=latest", "share.auto.offset.reset=by_duration:1h", "share.auto.offset.reset=by_duration:PT1H",
		"share.partition.max.record.locks=100", "share.renew.acknowledge.enable=false", "share.renew.acknowledge.enable=true", "no.such.config=1",
		"consumer.heartbeat.interval.ms=6000"))
}

// offsets commits and looks at offsets of groups of every kind.
func (g *generator) offsets() error {
	group := pick(g, offsetsGroup, offsetsGroup, offsetsGroup, consumerGroup, classicGroup, randomGroups[0])
	member := ""
	if group != offsetsGroup && g.one(2) {
		member = fmt.Sprintf(" member=%s member-epoch=%d", pick(g, randomMembers...), g.rand.IntN(6)-1)
	}
	switch g.rand.IntN(8) {
	case 0, 1, 2:
		options := ""
		if g.one(3) {
			options = fmt.Sprintf(" metadata=x leader-epoch=%d", g.rand.IntN(2))
		}
		return g.add("commit %s %s=%d%s%s", group, g.partition(), g.rand.IntN(20)-1, member, options)
	case 3, 4, 5:
		named := ""
		if g.one(2) {
			named = " " + g.partition().String()
		}
		return g.add("committed %s%s%s", group, named, pick(g, "", " stable=yes"))
	case 6:
		return g.add("delete-offsets %s %s", group, pick(g, g.partition().String(), randomTopics[0]))
	}
	return g.add("delete-group %s", group)
}

// consumer is a step of the members of a consumer group.
func (g *generator) consumer() error {
	m := pick(g, randomMembers[:2]...)
	switch g.rand.IntN(8) {
	case 0, 1:
		topics := strings.Join(randomTopics[:1+g.rand.IntN(len(randomTopics))], ",")
		return g.add("consumer-join %s %s %s%s", consumerGroup, m, topics, pick(g, "", " assignor=range", " assignor=uniform", " assignor=other"))
	case 2, 3, 4:
		return g.add("consumer-heartbeat %s %s owned=assigned%s", consumerGroup, m, g.oddEpoch())
	case 5:
		return g.add("consumer-leave %s %s", consumerGroup, m)
	}
	return g.add("describe-group %s type=consumer", consumerGroup)
}

// classic is a step of the one member of a classic group: with several who joins waits for the others.
func (g *generator) classic() error {
	m := randomMembers[0]
	switch g.rand.IntN(8) {
	case 0, 1, 2:
		return g.add("classic-join %s %s %s%s", classicGroup, m, pick(g, randomTopics...), pick(g, "", " protocols=range,roundrobin", " session=1s"))
	case 3:
		return g.add("classic-sync %s %s %s:%s", classicGroup, m, m, g.partition())
	case 4:
		return g.add("classic-heartbeat %s %s%s", classicGroup, m, pick(g, "", "", " generation=7"))
	case 5:
		return g.add("classic-leave %s %s", classicGroup, m)
	}
	return g.add("describe-group %s type=classic", classicGroup)
}

func (g *generator) fetch() error {
	group, m := g.member()
	wait := pick(g, "0s", "500ms", "500ms")
	var options []string
	if g.one(2) {
		options = append(options, fmt.Sprintf("records=%d", g.rand.IntN(9)))
	}
	if g.one(4) {
		options = append(options, "mode="+pick(g, "record_limit", "batch_optimized"))
	}
	if g.one(6) {
		options = append(options, fmt.Sprintf("batch=%d", 1+g.rand.IntN(5)))
	}
	if g.one(8) {
		options = append(options, fmt.Sprintf("min=%d", pick(g, 0, 100, 300)))
	}
	if g.one(10) {
		options = append(options, fmt.Sprintf("max=%d", pick(g, 0, 1, 100, 1000)))
	}
	if g.one(12) {
		options = append(options, fmt.Sprintf("epoch=%d", g.rand.IntN(6)-1))
	}
	var wanted []topicPartition
	if x := g.runner.world.members[memberKey{group, m}]; x != nil {
		wanted = x.assigned
	}
	if g.one(8) {
		wanted = nil
		var names []string
		for range g.rand.IntN(3) {
			if p := g.partition(); !slices.Contains(wanted, p) {
				wanted, names = append(wanted, p), append(names, p.String())
			}
		}
		options = append(options, "partitions="+strings.Join(names, ","))
	}
	acks := ""
	if g.one(4) {
		words := g.acks(group, m)
		named, err := partitionWords(slices.DeleteFunc(slices.Clone(words), func(w string) bool { return strings.Contains(w, "=") }))
		if err != nil {
			return err
		}
		acks, wanted = " "+strings.Join(words, " "), slices.Concat(wanted, named)
	}
	cold := g.cold(group, m, wanted)
	if cold == 0 {
		return g.add("fetch %s %s%s wait=%s %s", group, m, acks, wait, strings.Join(options, " "))
	}
	// What a machine's speed decides of a fetch that has states read is left out: whether they are read before one is answered that may not wait; of several,
	// how many are read when it is answered for the first, and so it waits for more than there is; and where it is answered before, whether they are read
	// before the next fetch, to which a state that is being read is none at all.
	if cold > 1 {
		options = slices.DeleteFunc(options, func(o string) bool { return strings.HasPrefix(o, "min=") || strings.HasPrefix(o, "max=") })
		options = append(options, "min=1000000")
	}
	if err := g.add("fetch %s %s%s wait=500ms %s", group, m, acks, strings.Join(options, " ")); err != nil {
		return err
	}
	return g.add("advance 100ms")
}

// cold counts the share partitions whose state is not known where they are led: of those that a member wants, and of those that its session has, to which
// nothing is known of topics that were made anew since.
func (g *generator) cold(group, name string, wanted []topicPartition) int {
	w := g.runner.world
	cold := map[topicPartition]bool{}
	look := func(p topicPartition) {
		if s, err := w.target.cluster().InspectSharePartition(group, p.topic, p.partition); err == nil && !s.Known {
			cold[p] = true
		}
	}
	for _, p := range wanted {
		look(p)
	}
	if m := w.members[memberKey{group, name}]; m != nil {
		for _, session := range m.sessions {
			for p, id := range session.partitions {
				if look(p); id != w.topics[p.topic] {
					cold[p] = true
				}
			}
		}
	}
	return len(cold)
}

func (g *generator) acknowledge() error {
	group, m := g.member()
	version := ""
	if g.one(6) {
		version = " version=1"
	}
	renew := ""
	if g.one(12) {
		renew = " renew=yes"
	}
	return g.add("ack %s %s %s%s%s", group, m, strings.Join(g.acks(group, m), " "), version, renew)
}

// acks acknowledges some of what a member has acquired, or what it has not.
func (g *generator) acks(group, m string) (words []string) {
	var held []string
	for _, t := range randomTopics {
		for _, p := range g.partitions(t) {
			if s, err := g.runner.world.target.cluster().InspectSharePartition(group, t, p.partition); err == nil {
				if ranges := g.ranges(s.Runs, g.runner.world.members[memberKey{group, m}]); len(ranges) > 0 {
					held = append(held, p.String())
					held = append(held, ranges...)
				}
			}
		}
	}
	if len(held) == 0 || g.one(10) {
		first := g.rand.IntN(8)
		return []string{g.partition().String(), fmt.Sprintf("%d-%d=%s", first, first+g.rand.IntN(4)-1, g.types(1))}
	}
	return held
}

// ranges are acknowledgements of runs that a member holds, whole or in part.
func (g *generator) ranges(runs []sharepartition.Run, m *member) (words []string) {
	for _, r := range runs {
		if m == nil || r.State != sharepartition.Acquired || r.Member != m.id || g.one(4) {
			continue
		}
		first, last := r.FirstOffset, r.LastOffset
		if n := last - first; n > 0 && g.one(2) {
			first += g.rand.Int64N(n + 1)
			last = first + g.rand.Int64N(last-first+1)
		}
		n := 1
		if g.one(3) {
			n = int(last - first + 1)
		}
		words = append(words, offsets(first, last)+"="+g.types(n))
	}
	return words
}

// types are acknowledge types, now and then one that does not exist.
func (g *generator) types(n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = pick(g, "accept", "accept", "release", "release", "reject", "gap")
		if g.one(30) {
			all[i] = pick(g, "renew", "5", "-1")
		}
	}
	return strings.Join(all, ",")
}

func (g *generator) disconnect() error {
	group, m := g.member()
	for k := range g.runner.world.conns {
		if k.client == group+"/"+m {
			return g.add("disconnect %s %s", group, m)
		}
	}
	return nil
}

// deleteTopic deletes a topic and makes it anew, which members find out by a heartbeat.
func (g *generator) deleteTopic() error {
	t := pick(g, randomTopics...)
	if err := g.add("delete-topic %s", t); err != nil {
		return err
	}
	return g.add("topic %s partitions=%d", t, 1+g.rand.IntN(2))
}

// transaction is a step of the transactional producers, in the way of either kind of client. No marker of a script has a greater epoch than its transaction:
// that one could not be ended any more.
func (g *generator) transaction() error {
	p := pick(g, randomTransactional...)
	switch g.rand.IntN(16) {
	case 0, 1, 2, 3, 4:
		return g.add("produce %s %s producer=%s txn=yes%s", g.partition(), pick(g, "a", "a b", "a / b c"), p, pick(g, "", "", "", "", " version=11", " version=10", " sequence=3"))
	case 5, 6, 7, 8:
		return g.add("txn-end %s %s%s", p, pick(g, "commit", "commit", "abort"), pick(g, "", "", "", " version=4", " epoch=0"))
	case 9, 10:
		return g.add("txn-add-partitions %s %s%s", p, g.partition(), pick(g, "", "", " version=1", " verify=yes version=5"))
	case 11:
		return g.add("txn-commit-offsets %s %s %s=%d%s", p, pick(g, offsetsGroup, offsetsGroup, consumerGroup), g.partition(), g.rand.IntN(20), pick(g, "", "", " version=5", " version=3"))
	case 12:
		return g.add("txn-add-offsets %s %s version=%d", p, offsetsGroup, pick(g, 1, 3))
	case 13:
		return g.add("init-producer %s txn=%[1]s timeout=15m%s", p, pick(g, "", "", " id="+p+" epoch=0", " id="+p+" epoch=1"))
	case 14:
		return g.add("txn-markers %s %s %s transaction-version=%d", p, pick(g, "commit", "abort"), g.partition(), pick(g, 0, 0, 2))
	}
	if g.one(2) {
		return g.add("txn-list%s", pick(g, "", " states=Ongoing", " producers=x", " pattern=\\["))
	}
	return g.add("txn-describe %s", pick(g, "x", "x y", "nobody"))
}
