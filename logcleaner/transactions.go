package logcleaner

import "kshare/protocol"

// transactions follow the transactions through the batches of a log (CleanedTransactionMetadata).
type transactions struct {
	aborted   []Aborted // that are to come
	ongoing   map[int64]*abortedTransaction
	committed map[int64]bool // producers of which batches were seen that are not of aborted transactions
	kept      []Aborted
}

type abortedTransaction struct {
	Aborted
	seen bool // a batch of it was
}

func follow(aborted []Aborted) *transactions {
	return &transactions{aborted: aborted, ongoing: map[int64]*abortedTransaction{}, committed: map[int64]bool{}}
}

// read takes in a batch and tells whether it may go: data of an aborted transaction, or the marker of a transaction without any data.
func (t *transactions) read(h *protocol.BatchHeader, batch []byte) (discard bool) {
	for len(t.aborted) > 0 && t.aborted[0].FirstOffset <= h.LastOffset() {
		if a := t.aborted[0]; t.ongoing[a.ProducerID] == nil {
			t.ongoing[a.ProducerID] = &abortedTransaction{Aborted: a}
		}
		t.aborted = t.aborted[1:]
	}
	if h.IsControl() {
		return t.readMarker(h, batch)
	}
	if !h.IsTransactional() {
		return false
	}
	if a := t.ongoing[h.ProducerID]; a != nil {
		a.seen = true
		return true
	}
	t.committed[h.ProducerID] = true
	return false
}

func (t *transactions) readMarker(h *protocol.BatchHeader, batch []byte) (discard bool) {
	if h.NumRecords == 0 {
		return true
	}
	controlType, _, ok := protocol.ParseEndTxnMarker(h, batch)
	switch {
	case !ok:
		return false
	case controlType == protocol.ControlCommit:
		seen := t.committed[h.ProducerID]
		delete(t.committed, h.ProducerID)
		return !seen
	}
	a := t.ongoing[h.ProducerID]
	delete(t.ongoing, h.ProducerID)
	if a == nil || !a.seen {
		return true
	}
	t.kept = append(t.kept, a.Aborted)
	return false
}
