package sharepartition

import "kshare/protocol/errorcode"

// Write is what a change asks to be persisted by WriteShareGroupState. ID 0 means nothing. StartOffset and
// DeliveryCompleteCount are those at the moment of the change: the start has not moved over it yet, the count
// includes it. Batches may be read until Persisted is called with the ID.
type Write struct {
	ID                    uint64
	StartOffset           int64
	DeliveryCompleteCount int32
	Batches               []StateBatch
}

// Settled is what the answer to a Write has brought about.
type Settled struct {
	StartMoved bool // StartOffset is higher than before
	Available  bool // records can be acquired that could not be before
	// Archiving are the records that go to the dead-letter queue now, CompleteArchiving when they are there.
	// It may be read until the next call.
	Archiving []StateBatch
}

// write is a Write whose answer is awaited.
type write struct {
	id         uint64
	transition bool // its records wait for the answer; otherwise the change stands whatever the answer
	limit      int  // delivery count limit at the time of the change
	loseLock   bool // of a Stage: as Staging.LoseLock
	batches    []StateBatch
}

// writeTable holds the unanswered writes in the order of their ids, rarely more than one.
type writeTable struct {
	lastID    uint64
	open      []write
	spare     [][]StateBatch
	archiving []StateBatch
	building  write
}

// keepBatches is how many lists of batches are kept for reuse, keepRuns how many batches each has room for at most.
const (
	keepBatches = 4
	keepRuns    = 4096
)

func (t *writeTable) begin() *write {
	t.building = write{}
	if n := len(t.spare); n > 0 {
		t.building.batches, t.spare = t.spare[n-1], t.spare[:n-1]
	}
	return &t.building
}

// note adds records to a write; a run that goes on is one batch.
func (w *write) note(first, last int64, s State, count uint8, why Reason) {
	w.noteStaged(first, last, s, count, why, Staged{})
}

func (w *write) noteStaged(first, last int64, s State, count uint8, why Reason, staged Staged) {
	if n := len(w.batches); n > 0 {
		l := &w.batches[n-1]
		if l.LastOffset == first-1 && l.State == s && l.DeliveryCount == int16(count) && l.Reason == why && l.Staged == staged {
			l.LastOffset = last
			return
		}
	}
	w.batches = append(w.batches, StateBatch{FirstOffset: first, LastOffset: last, State: s, DeliveryCount: int16(count), Reason: why, Staged: staged})
}

func (t *writeTable) finish(w *write, p *Partition, transition bool, limit int) Write {
	if len(w.batches) == 0 {
		t.reuse(w.batches)
		return Write{}
	}
	t.lastID++
	w.id, w.transition, w.limit = t.lastID, transition, limit
	t.open = append(t.open, *w)
	return Write{ID: w.id, StartOffset: p.start, DeliveryCompleteCount: int32(p.complete), Batches: w.batches}
}

func (t *writeTable) reuse(b []StateBatch) {
	if cap(b) > 0 && cap(b) <= keepRuns && len(t.spare) < keepBatches {
		t.spare = append(t.spare, b[:0])
	}
}

// take removes a write from the table.
func (t *writeTable) take(id uint64) (write, bool) {
	for i := range t.open {
		if t.open[i].id == id {
			w := t.open[i]
			t.open = append(t.open[:i], t.open[i+1:]...)
			return w, true
		}
	}
	return write{}, false
}

// PendingWrites is the number of writes without an answer.
func (p *Partition) PendingWrites() int { return len(p.writes.open) }

// Persisted ends a Write with the error code that WriteShareGroupState gave for it, 0 being success. Success
// commits its records and moves the start offset over what is terminal. Failure gives them back to their holder,
// or makes them available where the lock ended meanwhile (archived at the delivery count limit); what the end of
// a lock or the dead-letter queue changed stands all the same. Records that the log start has passed in between
// stay archived. An ID that is not open is ignored.
func (p *Partition) Persisted(id uint64, errorCode int16) Settled {
	defer p.verify("Persisted")
	w, open := p.writes.take(id)
	if !open {
		return Settled{}
	}
	var s Settled
	commit := errorCode == errorcode.None
	if w.transition {
		before := p.available
		for i := range w.batches {
			p.settle(&w.batches[i], w.limit, commit)
			if w.batches[i].State == TxPending {
				p.stageSettled(&w, &w.batches[i], commit)
			}
		}
		s.Available = p.available > before
	}
	if commit || !w.transition {
		s.StartMoved = p.advance()
		p.writes.archiving = p.writes.archiving[:0]
		for _, b := range w.batches {
			if b.State == Archiving {
				p.writes.archiving = append(p.writes.archiving, b)
			}
		}
		s.Archiving = p.writes.archiving
	}
	p.writes.reuse(w.batches)
	return s
}

// settle ends the wait of the records of one persisted run.
func (p *Partition) settle(run *StateBatch, limit int, commit bool) {
	for n := max(p.floor(run.FirstOffset), p.head); n < p.tail && p.at(n).first <= run.LastOffset; n++ {
		b := p.at(n)
		if b.last < run.FirstOffset {
			continue
		}
		if b.pending && !commit && b.first < p.start && p.start <= b.last {
			p.split(n)
		}
		if b.sp == nil {
			if b.pending {
				s, lock := b.state, uint32(0)
				if !commit {
					s, lock = p.rolledBack(b.lock, b.count, limit, b.first, b.last)
				}
				p.putWhole(n, s, b.count, lock, false)
			}
			continue
		}
		from, to := max(run.FirstOffset, b.first), min(run.LastOffset, b.last)
		for offset := from; offset <= to; offset++ {
			i := int(offset - b.first)
			if !b.sp.pending(i) {
				continue
			}
			if commit {
				end := b.sp.unanswered(i, int(to-b.first)+1)
				p.putRun(n, b, i, end, b.sp.state(i), 0, 0, false)
				offset = b.first + int64(end) - 1
				continue
			}
			count := b.sp.count(i)
			s, lock := p.rolledBack(b.sp.lock[i], count, limit, offset, offset)
			p.put(n, b, i, s, count, lock, false)
		}
	}
}

// unanswered is the end of the run of records from i on that wait for an answer and are alike, at most to.
func (s *split) unanswered(i, to int) int {
	to = s.alike(i, to)
	for end := i + 1; end < to; end++ {
		if s.pend[end>>6]>>(end&63)&1 == 0 {
			return end
		}
	}
	return to
}

// rolledBack is the state and lock of records [first, last] whose change could not be persisted.
func (p *Partition) rolledBack(lock uint32, count uint8, limit int, first, last int64) (State, uint32) {
	switch {
	case p.locks.all[lock].armed:
		// The lock may be ending record by record and be past these.
		p.locks.cover(lock, first, last)
		return Acquired, lock
	case last < p.start || int(count) >= limit:
		return Archived, 0
	}
	return Available, 0
}

// advance moves the start over the leading run of records that are terminal and persisted, and drops the batches
// it has passed. It stays while a record below it is still held, and before a hole that is to be delivered.
func (p *Partition) advance() bool {
	p.trim()
	if p.below > 0 {
		return false
	}
	before := p.start
	for !p.empty() {
		b := p.at(p.head)
		if p.gapOpen() && b.last >= p.gap.start {
			break
		}
		if !b.settled() {
			p.passRun(b)
			break
		}
		p.passTo(b.last + 1)
		p.dropHead()
		if p.empty() {
			p.end = max(p.end, p.start)
			p.start = p.end
			p.complete = 0
			break
		}
		next := p.at(p.head).first
		if p.gapOpen() {
			next = min(next, max(p.gap.start, p.start))
		}
		p.start = max(p.start, next)
	}
	return p.start > before
}

// trim drops the batches that the log start has passed and whose records are settled.
func (p *Partition) trim() {
	for !p.empty() && p.at(p.head).last < p.start && p.at(p.head).settled() {
		p.dropHead()
	}
}

func (p *Partition) dropHead() {
	if sp := p.at(p.head).sp; sp != nil {
		p.freeSplit(sp)
	}
	p.pop()
}

// passTo moves the start to an offset within or just behind the head batch, all of whose records below it are
// settled.
func (p *Partition) passTo(offset int64) {
	if offset <= p.start {
		return
	}
	p.complete -= offset - max(p.start, p.at(p.head).first)
	p.start = offset
}

// passRun moves the start over the settled records of a batch that has others behind them.
func (p *Partition) passRun(b *batch) {
	if b.sp == nil {
		return
	}
	for i := int(max(p.start-b.first, 0)); i < len(b.sp.rec) && b.sp.state(i).terminal() && !b.sp.pending(i); i++ {
		p.passTo(b.first + int64(i) + 1)
	}
}
