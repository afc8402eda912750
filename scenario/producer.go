package scenario

import (
	"fmt"
	"strconv"

	"kshare/protocol/errorcode"
)

// producer is an idempotent or transactional producer as its client knows it.
type producer struct {
	name            string
	transactionalID *string // on the wire
	id              int64
	epoch           int16
	next            map[topicPartition]int32 // sequences
}

// producer returns the producer that a script names.
func (s *step) producer(name string) (*producer, error) {
	if p := s.producers[name]; p != nil {
		return p, nil
	}
	return nil, mistakef("there is no producer %s; init-producer makes one", name)
}

// become takes in the id and epoch that a broker gave: sequences begin anew.
func (s *step) become(p *producer, id int64, epoch int16) {
	if id == p.id && epoch == p.epoch {
		return
	}
	p.id, p.epoch, p.next = id, epoch, map[topicPartition]int32{}
	s.names.addProducer(id, p.name)
}

// producerName is the name of a producer id, none for -1.
func (w *world) producerName(id int64) string {
	if id == -1 {
		return "none"
	}
	if name, ok := w.names.producers[id]; ok {
		return name
	}
	w.names.addProducer(id, "producer")
	return w.names.producers[id]
}

// producerID is the id that a script means: that of the producer it names, or a number.
func (w *world) producerID(text string) (int64, error) {
	if p := w.producers[text]; p != nil {
		return p.id, nil
	}
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, mistakef("%q is no producer and no producer id", text)
	}
	return id, nil
}

// asProducer is the id and epoch that a command sends: the producer's own, unless its options say otherwise.
func (s *step) asProducer(c *call, p *producer) (id int64, epoch int16, err error) {
	id = p.id
	if text, ok := c.options["id"]; ok {
		if id, err = s.producerID(text); err != nil {
			return 0, 0, err
		}
	}
	n, err := c.numberOption("epoch", int64(p.epoch), -1<<15, 1<<15-1)
	return id, int16(n), err
}

// transactional is the node that coordinates a transactional id. The topic of the coordinators is made where it is the first.
func (s *step) transactional(id string) (int32, error) {
	if !s.transactions {
		if err := s.makeCoordinator(transactionCoordinator); err != nil {
			return 0, err
		}
		s.transactions = true
	}
	return s.coordinatorOf(transactionCoordinator, id)
}

// inTransaction is what a command of a transactional producer begins with: the producer, its transactional id and the node that coordinates it.
func (s *step) inTransaction(name string) (p *producer, id string, node int32, err error) {
	if p, err = s.producer(name); err != nil {
		return nil, "", 0, err
	}
	if p.transactionalID == nil {
		return nil, "", 0, mistakef("producer %s has no transactional id; init-producer %s txn=ID gives it one", name, name)
	}
	node, err = s.transactional(*p.transactionalID)
	return p, *p.transactionalID, node, err
}

// settling tells whether a coordinator asks to come again: it loads, or still ends the transaction before.
func settling(code int16) bool {
	switch code {
	case errorcode.ConcurrentTransactions, errorcode.CoordinatorLoadInProgress, errorcode.CoordinatorNotAvailable, errorcode.NotCoordinator:
		return true
	}
	return false
}

// showEpoch writes the id and epoch of a producer.
func (s *step) showEpoch(id int64, epoch int32) string {
	return fmt.Sprintf("%s, epoch %d", s.producerName(id), epoch)
}
