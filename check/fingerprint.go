package check

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"time"

	"kshare/kip1289"
	"kshare/sharepartition"
)

// fingerprinter tells states apart. Two states have the same fingerprint where they differ in nothing that any later step could show: members and producers
// are interchangeable; of times, epochs and the numbers of transactions counts only how they compare.
type fingerprinter struct {
	buffer    []byte
	gap       int16    // from which on it makes no difference how far epochs are apart
	members   [][]int8 // all orders
	producers [][]int8

	times  values[time.Duration]
	epochs [maxProducers]values[int16]
	terms  [maxProducers]values[int32] // epochs of transaction coordinators
	serial [maxProducers]values[int32]
	ended  [maxProducers]bool // what the share coordinator knows of the last end matters
}

func newFingerprinter(m *Model) *fingerprinter {
	f := &fingerprinter{members: orders(m.Members), producers: orders(m.Producers), gap: 1}
	if m.Switches.Is(kip1289.EpochMatch, "exact") {
		f.gap = 2
	}
	return f
}

// orders are all orders of the numbers below n.
func orders(n int) (all [][]int8) {
	if n == 0 {
		return [][]int8{nil}
	}
	for _, o := range orders(n - 1) {
		for i := 0; i <= len(o); i++ {
			all = append(all, slices.Insert(slices.Clone(o), i, int8(n-1)))
		}
	}
	return all
}

// values are different numbers that are compared with each other, few of them.
type values[T int16 | int32 | time.Duration] struct {
	list  []T
	codes []byte
}

func (v *values[T]) reset() { v.list = v.list[:0] }

func (v *values[T]) add(x T) {
	i := 0
	for i < len(v.list) && v.list[i] < x {
		i++
	}
	if i == len(v.list) || v.list[i] != x {
		v.list = slices.Insert(v.list, i, x)
	}
}

// code gives the numbers codes that compare as they do: two that are less than gap apart are as far apart as before, others gap.
func (v *values[T]) code(gap T) {
	v.codes = v.codes[:0]
	c := byte(1)
	for i, x := range v.list {
		if i > 0 {
			c += byte(min(x-v.list[i-1], gap))
		}
		v.codes = append(v.codes, c)
	}
}

func (v *values[T]) of(x T) byte { return v.codes[slices.Index(v.list, x)] }

// fingerprint of a state whose leader has these runs.
func (f *fingerprinter) fingerprint(w *world, runs []sharepartition.Run) uint64 {
	f.compare(w, runs)
	best := uint64(1<<64 - 1)
	var ofMembers, ofProducers [3]uint64
	for i := range w.model.Members {
		ofMembers[i] = w.memberSign(int8(i), runs)
	}
	for i := range w.model.Producers {
		ofProducers[i] = w.producerSign(int8(i))
	}
	for _, members := range f.members {
		if !ascending(members, &ofMembers) {
			continue
		}
		for _, producers := range f.producers {
			if !ascending(producers, &ofProducers) {
				continue
			}
			f.buffer = f.encode(f.buffer[:0], w, runs, members, producers)
			best = min(best, hash(f.buffer))
		}
	}
	return max(best, 1) // 0 is no fingerprint
}

// memberSign is what tells a member from others at a glance, the same whatever its number. Orders that put members by it are the ones that are tried.
func (w *world) memberSign(m int8, runs []sharepartition.Run) uint64 {
	x := &w.members[m]
	holds, holder := uint8(0), uint8(0)
	for i := range runs {
		if runs[i].Member == w.names[m] {
			holds |= 1 << runs[i].FirstOffset
		}
	}
	for i := range w.records[:w.model.Records] {
		if int64(i) >= w.persisted().StartOffset && w.records[i].holder == m {
			holder |= 1 << i
		}
	}
	sign := uint64(holds)<<8 | uint64(holder)<<16 | uint64(bit(x.in))<<32 | uint64(bit(x.sessions[w.leader]))<<33
	if w.timely() {
		sign |= uint64(x.had)
	}
	return sign
}

// producerSign is the same of a producer.
func (w *world) producerSign(p int8) uint64 {
	x := &w.producers[p]
	by := uint8(0)
	for i := range w.records[:w.model.Records] {
		if int64(i) >= w.persisted().StartOffset && w.records[i].by.producer == p {
			by |= 1 << i
		}
	}
	return uint64(x.staged) | uint64(by)<<8 | uint64(bit(x.alive))<<16 | uint64(bit(x.spoiled))<<17
}

// ascending tells whether an order puts signs so that none is before a lower one.
func ascending(order []int8, signs *[maxMembers]uint64) bool {
	for i, a := range order {
		for j, b := range order {
			if a < b && signs[i] > signs[j] {
				return false
			}
		}
	}
	return true
}

// compare gives codes to all that is compared.
func (f *fingerprinter) compare(w *world, runs []sharepartition.Run) {
	f.times.reset()
	for i := range runs {
		if runs[i].LockLeft > 0 {
			f.times.add(runs[i].LockLeft)
		}
	}
	for i := range w.records {
		if r := &w.records[i]; r.holder != noMember {
			f.times.add(r.until.Sub(w.now))
		}
	}
	f.times.code(1)
	for p := range int8(w.model.Producers) {
		x, e := &w.producers[p], &f.epochs[p]
		e.reset()
		e.add(x.epoch)
		e.add(w.entry(p).Epoch)
		f.terms[p].reset()
		f.terms[p].add(x.coordinator)
		f.serial[p].reset()
		f.serial[p].add(x.serial)
		f.serial[p].add(x.serial - 1) // that of a transaction which is decided
		if f.ended[p] = w.endMatters(p); f.ended[p] {
			epoch, coordinator, _ := w.shares.Ended(x.id)
			e.add(epoch)
			f.terms[p].add(coordinator)
		}
	}
	staged := func(s sharepartition.Staged) { f.epochs[w.ids[s.ProducerID]].add(s.ProducerEpoch) }
	for i := range runs {
		if runs[i].State == sharepartition.TxPending {
			staged(runs[i].Staged)
		}
	}
	state := w.persisted()
	for i := range state.Batches {
		if b := &state.Batches[i]; b.State == int8(sharepartition.TxPending) {
			f.epochs[w.ids[b.Staged.ProducerID]].add(b.Staged.ProducerEpoch)
		}
	}
	of := func(t transaction) {
		if t.producer != noProducer {
			f.serial[t.producer].add(t.serial)
		}
	}
	for i := range w.writes {
		x := &w.writes[i]
		for _, b := range x.write.Batches {
			if b.State == sharepartition.TxPending {
				staged(b.Staged)
			}
		}
		for _, b := range x.ends {
			staged(b.Staged)
		}
		if x.asked {
			of(x.stage)
		}
	}
	for i := range w.markers {
		x := &w.markers[i]
		f.epochs[x.of.producer].add(x.markers.Epoch)
		f.terms[x.of.producer].add(x.coordinator)
		of(x.of)
	}
	for i := range w.records {
		of(w.records[i].by)
	}
	for p := range int8(w.model.Producers) {
		f.epochs[p].code(f.gap)
		f.terms[p].code(1)
		f.serial[p].code(1)
	}
}

// endMatters tells whether it makes a difference which end of a producer's transactions the share coordinator has seen last: it does for what is
// on its way and older alone, for what follows has a later epoch, of a later coordinator.
func (w *world) endMatters(p int8) bool {
	epoch, coordinator, ok := w.shares.Ended(w.producers[p].id)
	if !ok {
		return false
	}
	staged := func(b sharepartition.StateBatch) bool {
		return b.State == sharepartition.TxPending && w.ids[b.Staged.ProducerID] == p && b.Staged.ProducerEpoch < epoch
	}
	return slices.ContainsFunc(w.writes, func(x stateWrite) bool { return slices.ContainsFunc(x.write.Batches, staged) }) ||
		slices.ContainsFunc(w.markers, func(x marker) bool {
			return x.of.producer == p && (x.markers.Epoch < epoch || x.coordinator < coordinator)
		})
}

// encode writes a state with members and producers in another order: the one in place i becomes number members[i].
func (f *fingerprinter) encode(b []byte, w *world, runs []sharepartition.Run, members, producers []int8) []byte {
	state := w.persisted()
	member := func(m int8) byte {
		if m == noMember {
			return 0xff
		}
		return byte(members[m])
	}
	staged := func(s sharepartition.Staged) {
		p := w.ids[s.ProducerID]
		b = append(b, byte(producers[p]), f.epochs[p].of(s.ProducerEpoch), byte(s.Type))
	}
	of := func(t transaction) {
		if t.producer == noProducer {
			b = append(b, 0xff)
			return
		}
		b = append(b, byte(producers[t.producer]), f.serial[t.producer].of(t.serial))
	}
	timely, faulty := w.timely(), w.faulty()
	b = append(b, byte(w.start), bit(w.part != nil)|bit(w.unused)<<1|bit(len(w.writes) > 0 && state.LeaderEpoch == w.epoch)<<2, byte(state.StartOffset+1))
	if w.model.MostFaults > 0 {
		b = append(b, byte(w.faults))
	}
	if w.part != nil {
		first, end, open := w.part.Gap()
		b = append(b, byte(w.part.StartOffset()), byte(w.part.EndOffset()), bit(open), byte(first), byte(end))
		for i := range runs {
			r := &runs[i]
			b = append(b, byte(r.FirstOffset)|byte(r.LastOffset)<<4, byte(r.State)|bit(r.Pending)<<4|bit(r.Split)<<5, byte(r.DeliveryCount), byte(r.Batch))
			m := noMember
			if r.Member != "" {
				m = int8(r.Member[1] - '1')
			}
			lock := byte(0)
			if r.LockLeft > 0 && timely {
				lock = f.times.of(r.LockLeft)
			}
			b = append(b, member(m), lock)
			if r.State == sharepartition.TxPending {
				staged(r.Staged)
			}
		}
	}
	b = append(b, 0xfe)
	for i := range state.Batches {
		x := &state.Batches[i]
		b = append(b, byte(x.FirstOffset)|byte(x.LastOffset)<<4, byte(x.State), byte(x.DeliveryCount))
		if x.State == int8(sharepartition.TxPending) {
			staged(stagedInPartition(x.Staged))
		}
	}
	b = append(b, 0xfe)
	for to := range int8(w.model.Members) {
		x := &w.members[slices.Index(members, to)]
		flags, had := bit(x.in)|bit(x.sessions[w.leader])<<1, x.had
		if faulty { // only a fault asks for them: see leaves, moves and disconnects
			flags |= bit(x.sessions[1-w.leader])<<2 | bit(x.made[w.leader])<<3 | bit(x.made[1-w.leader])<<4
		}
		if !timely {
			had = 0
		}
		b = append(b, flags, had)
	}
	for to := range int8(w.model.Producers) {
		p := int8(slices.Index(producers, to))
		x, e := &w.producers[p], w.entry(p)
		flags := bit(x.alive) | bit(x.spoiled)<<1
		if e.Open() {
			flags |= byte(e.State) << 2
			if !idle(&e) && e.State != 1 {
				flags |= byte(e.Flow) << 5
			}
		}
		b = append(b, flags, x.staged, f.epochs[p].of(x.epoch), f.epochs[p].of(e.Epoch), f.terms[p].of(x.coordinator), f.serial[p].of(x.serial), byte(len(e.Partitions)))
		if f.ended[p] {
			epoch, coordinator, _ := w.shares.Ended(x.id)
			b = append(b, f.epochs[p].of(epoch), f.terms[p].of(coordinator))
		} else {
			b = append(b, 0)
		}
	}
	for i := range w.records[:w.model.Records] {
		r := &w.records[i]
		if int64(i) < state.StartOffset && !w.draft.passBelowStart { // it never comes again, and nothing can be staged of it
			b = append(b, 0xfa)
			continue
		}
		lock := byte(0)
		if r.holder != noMember && timely {
			lock = f.times.of(r.until.Sub(w.now))
		}
		b = append(b, r.settled|bit(r.plain)<<2, member(r.holder), lock)
		of(r.by)
	}
	for i := range w.writes {
		x := &w.writes[i]
		b = append(b, 0xfd, bit(x.term == w.term)|bit(x.epoch < state.LeaderEpoch)<<1|bit(x.stored)<<2|bit(x.overtaken)<<3|bit(x.asked)<<4, byte(x.code), byte(x.write.StartOffset+1))
		b = f.batches(b, x.write.Batches, staged0(w, f, producers))
		b = append(b, 0xfc)
		b = f.batches(b, x.ends, staged0(w, f, producers))
		if x.asked {
			b = append(b, member(x.member), byte(x.record), byte(x.kind), bit(x.stage.producer == noProducer || w.shares.Holds(x.guard)))
			of(x.stage)
		}
	}
	for i := range w.markers {
		x := &w.markers[i]
		b = append(b, 0xfb, f.epochs[x.of.producer].of(x.markers.Epoch), bit(x.markers.Commit)|bit(x.stored)<<1|byte(x.code), byte(x.markers.Flow), f.terms[x.of.producer].of(x.coordinator))
		of(x.of)
	}
	return b
}

func staged0(w *world, f *fingerprinter, producers []int8) func(b []byte, s sharepartition.Staged) []byte {
	return func(b []byte, s sharepartition.Staged) []byte {
		p := w.ids[s.ProducerID]
		return append(b, byte(producers[p]), f.epochs[p].of(s.ProducerEpoch), byte(s.Type))
	}
}

func (f *fingerprinter) batches(b []byte, batches []sharepartition.StateBatch, staged func([]byte, sharepartition.Staged) []byte) []byte {
	for i := range batches {
		x := &batches[i]
		b = append(b, byte(x.FirstOffset)|byte(x.LastOffset)<<4, byte(x.State), byte(x.DeliveryCount))
		if x.Staged.ProducerID != 0 {
			b = staged(b, x.Staged)
		}
	}
	return b
}

func bit(is bool) byte {
	if is {
		return 1
	}
	return 0
}

// hash is a 64-bit hash, the same in every run.
func hash(b []byte) uint64 {
	const a, c = 0xa0761d6478bd642f, 0xe7037ed1a0b428db
	h := uint64(len(b)) * a
	for len(b) >= 8 {
		hi, lo := bits.Mul64(binary.LittleEndian.Uint64(b)^h^a, c^bits.RotateLeft64(h, 29))
		h, b = hi^lo^h, b[8:]
	}
	var tail [8]byte
	copy(tail[:], b)
	hi, lo := bits.Mul64(binary.LittleEndian.Uint64(tail[:])^h^c, a)
	h ^= hi ^ lo
	h ^= h >> 32
	h *= 0xd6e8feb86659fd93
	return h ^ h>>32
}
