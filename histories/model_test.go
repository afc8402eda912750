package histories

import (
	"encoding/binary"
	"slices"

	"github.com/anishathalye/porcupine"
)

// state is a partition and what it has to do with transactions. It is comparable: porcupine remembers where it has been.
type state struct {
	log    string // an entry for each record
	fates  string // a byte for each transaction
	owners string // the last producer of each transactional id
	high   int64  // no record can be written below
	stable int64  // no reader of committed records is sent back behind
}

// entry is a record of the log: 8 bytes offset, 4 bytes value, 4 bytes transaction.
const entrySize = 16

type entry struct {
	record
	txn int
}

func (s *state) entries() (all []entry) {
	for b := []byte(s.log); len(b) > 0; b = b[entrySize:] {
		all = append(all, entry{record{int64(binary.BigEndian.Uint64(b)), int(binary.BigEndian.Uint32(b[8:]))}, int(binary.BigEndian.Uint32(b[12:]))})
	}
	return all
}

func (e entry) encode() string {
	b := binary.BigEndian.AppendUint64(nil, uint64(e.offset))
	b = binary.BigEndian.AppendUint32(b, uint32(e.value))
	return string(binary.BigEndian.AppendUint32(b, uint32(e.txn)))
}

// owner is the last producer of a transactional id. One that is fenced writes nothing more.
type owner struct {
	producer
	known, fenced bool
}

const ownerSize = 12

func (s *state) owner(n int) owner {
	b := []byte(s.owners[n*ownerSize:])
	return owner{producer{int64(binary.BigEndian.Uint64(b)), int16(binary.BigEndian.Uint16(b[8:]))}, b[10] == 1, b[11] == 1}
}

func (s *state) setOwner(n int, o owner) {
	b := binary.BigEndian.AppendUint64(nil, uint64(o.id))
	b = binary.BigEndian.AppendUint16(b, uint16(o.epoch))
	flag := map[bool]byte{true: 1}
	b = append(b, flag[o.known], flag[o.fenced])
	s.owners = s.owners[:n*ownerSize] + string(b) + s.owners[(n+1)*ownerSize:]
}

// model is what a partition may show. A property that is named is not looked after.
func (r *resolved) model(but string) porcupine.Model {
	ids := r.ids()
	m := rules{txns: r.txns, ids: ids, but: but}
	return porcupine.Model{
		Init: func() any {
			return state{fates: string(make([]byte, len(r.txns))), owners: string(make([]byte, len(ids)*ownerSize))}
		},
		Step: func(s, in, _ any) (bool, any) {
			next := s.(state)
			ok := m.step(&next, in.(*operation))
			return ok, next
		},
	}
}

type rules struct {
	txns []transaction
	ids  []string
	but  string
}

// hold tells whether a property holds where it should.
func (m *rules) hold(property string, holds bool) bool { return holds || m.but == property }

func (m *rules) step(s *state, o *operation) bool {
	switch o.kind {
	case appended:
		return m.append(s, o)
	case decided:
		return m.decide(s, o)
	case ended:
		return m.end(s, o)
	case initialised:
		return m.init(s, o)
	case pended:
		return m.pend(s, o)
	case fetched:
		return m.fetch(s, o)
	default:
		return m.read(s, o)
	}
}

// open tells whether a producer owns its id, and its transaction is open.
func (m *rules) open(s *state, txn int) bool {
	t := &m.txns[txn]
	own := s.owner(slices.Index(m.ids, t.id))
	return own.producer == t.by && !own.fenced && s.fates[txn] == byte(unknown)
}

// pend: as append, and the offset is not committed yet.
func (m *rules) pend(s *state, o *operation) bool {
	if !m.hold(noZombie, m.open(s, o.txn)) {
		return false
	}
	s.log += entry{o.record, o.txn}.encode()
	return true
}

// fetch: no offset is pending, and the last one that was committed is there.
func (m *rules) fetch(s *state, o *operation) bool {
	last, others := -1, []int{-1}
	for _, e := range s.entries() {
		switch s.fates[e.txn] {
		case byte(unknown):
			if !m.hold(noOvertaken, false) {
				return false
			}
		case byte(committed):
			others = append(others, last)
			last = e.value
		}
	}
	switch {
	case o.value == last:
		return true
	case slices.Contains(others, o.value):
		return m.hold(noLost, false)
	}
	return m.hold(noAborted, false)
}

// append: the transaction is open, and the offset is a new one.
func (m *rules) append(s *state, o *operation) bool {
	if !m.hold(noZombie, m.open(s, o.txn)) || !m.hold(noGoingBack, o.offset >= s.high) {
		return false
	}
	s.log += entry{o.record, o.txn}.encode()
	s.high = max(s.high, o.offset+1)
	return true
}

// decide: an open transaction of the owner has its fate. The epoch of a new producer is used up by it, and that of an old one if it did not ask for it.
func (m *rules) decide(s *state, o *operation) bool {
	n := slices.Index(m.ids, o.id)
	own := s.owner(n)
	if s.fates[o.txn] != byte(unknown) || !m.hold(noZombie, own.producer == o.by && !own.fenced) {
		return false
	}
	s.fates = s.fates[:o.txn] + string(rune(fateOf(o.commit))) + s.fates[o.txn+1:]
	if !m.txns[o.txn].old || o.final {
		own.fenced = true
		s.setOwner(n, own)
	}
	return true
}

// end: the transaction has the fate, and its producer goes on with the epoch that it was answered.
func (m *rules) end(s *state, o *operation) bool {
	n := slices.Index(m.ids, o.id)
	own := s.owner(n)
	if !m.hold(asAnswered, s.fates[o.txn] == byte(fateOf(o.commit))) {
		return false
	}
	if m.txns[o.txn].old {
		return true
	}
	if !m.hold(asAnswered, own.producer == m.txns[o.txn].by && o.by.newerThan(own.producer)) {
		return false
	}
	s.setOwner(n, owner{producer: o.by, known: true})
	return true
}

// init: nothing of the id is open any more, and the producer is a newer one.
func (m *rules) init(s *state, o *operation) bool {
	n := slices.Index(m.ids, o.id)
	own := s.owner(n)
	open := slices.ContainsFunc(s.entries(), func(e entry) bool { return m.txns[e.txn].id == o.id && s.fates[e.txn] == byte(unknown) })
	if !m.hold(oneOwner, !open && (!own.known || o.by.newerThan(own.producer))) {
		return false
	}
	s.setOwner(n, owner{producer: o.by, known: true})
	return true
}

// read: everything that was written before, or all of it below the last stable offset that is committed.
func (m *rules) read(s *state, o *operation) bool {
	if !m.hold(noGoingBack, o.high >= s.high && (!o.committed || o.stable >= s.stable)) {
		return false
	}
	var expected []record
	var hidden []record
	for _, e := range s.entries() {
		switch {
		case !o.committed || e.offset < o.stable && s.fates[e.txn] == byte(committed):
			expected = append(expected, e.record)
		case e.offset < o.stable && !m.hold(noOvertaken, s.fates[e.txn] != byte(unknown)):
			return false
		default:
			hidden = append(hidden, e.record)
		}
	}
	for _, x := range expected {
		if !m.hold(noLost, slices.Contains(o.seen, x)) {
			return false
		}
	}
	for i, x := range o.seen {
		if slices.Contains(o.seen[:i], x) || !slices.Contains(expected, x) && !slices.Contains(hidden, x) {
			if !m.hold(noInvented, false) {
				return false
			}
		} else if slices.Contains(hidden, x) && !m.hold(noAborted, false) {
			return false
		}
	}
	s.high = max(s.high, o.high)
	if o.committed {
		s.stable = max(s.stable, o.stable)
	}
	return true
}
