package histories

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// Properties of histories.
const (
	noAborted   = "no aborted record is seen by a reader of committed records"
	noLost      = "no record that was answered is lost"
	noZombie    = "no record of a fenced producer is written"
	allOrNone   = "a transaction is committed in all its partitions or in none"
	asAnswered  = "a transaction ends as its producer was answered"
	noInvented  = "no record is there twice, or was not written"
	noGoingBack = "no reader is sent back, and no record is written below what was read"
	noOvertaken = "no reader of committed records gets past an open transaction"
	noStuck     = "no transaction stays open for ever"
	noReason    = "no transaction ends without a reason"
	oneOwner    = "each initialisation of a transactional id has a newer producer, and ends what is open"
)

// violation is a property that a history breaks.
type violation struct{ property, what string }

// check looks for a property that a history breaks.
func check(h *history) *violation {
	r := &resolved{history: h.clone(), before: h.operations}
	for _, look := range []func() *violation{r.checkEnd, r.resolve} {
		if v := look(); v != nil {
			return v
		}
	}
	for p := range h.partitions {
		if v := r.checkPartition(p); v != nil {
			return v
		}
	}
	for _, id := range r.ids() {
		if v := r.checkOffsets(id); v != nil {
			return v
		}
	}
	return r.baseless
}

// resolved is a history in which is decided what its clients did not know, by what the final reads show.
type resolved struct {
	*history
	before   []*operation // as they were recorded, those that came to nothing too
	baseless *violation   // a transaction that ended without a reason
}

// checkEnd looks for transactions that are open at the end.
func (r *resolved) checkEnd() *violation {
	if len(r.stuck) > 0 {
		return &violation{noStuck, fmt.Sprintf("%v: no transaction can be ended, or no offset fetched, at the end", r.stuck)}
	}
	for p := range r.partitions {
		all, committed := r.finals(p)
		if all == nil || committed == nil {
			panic(fmt.Sprintf("partition %d has no final reads", p))
		}
		if committed.stable < committed.high {
			return &violation{noStuck, fmt.Sprintf("partition %d is stable to %d of %d at the end", p, committed.stable, committed.high)}
		}
	}
	return nil
}

// fate is what became of a transaction.
type fate uint8

const (
	unknown fate = iota
	aborted
	committed
)

// resolve gives appends whose answers were lost their offsets, leaves out those that came to nothing, and adds when transactions were decided.
func (r *resolved) resolve() *violation {
	fates := make([]fate, len(r.txns))
	answered := make([]bool, len(r.txns))
	for _, o := range r.operations {
		if o.kind == ended && o.ret != never {
			f := fateOf(o.commit)
			if answered[o.txn] && fates[o.txn] != f {
				return &violation{asAnswered, fmt.Sprintf("transaction %d was answered to be committed and to be aborted", o.txn)}
			}
			fates[o.txn], answered[o.txn] = f, true
		}
	}
	where := map[int]map[int]int64{} // the values of each partition
	for p := range r.partitions {
		all, _ := r.finals(p)
		where[p] = map[int]int64{}
		for _, x := range slices.Backward(all.seen) {
			where[p][x.value] = x.offset
		}
	}
	for p := range r.partitions {
		_, visible := r.finals(p)
		for _, o := range r.operations {
			if o.kind != appended || o.partition != p {
				continue
			}
			offset, there := where[p][o.value]
			switch {
			case !there && o.ret == never:
				continue
			case !there:
				return &violation{noLost, fmt.Sprintf("%d was answered and is not in partition %d at the end", o.value, p)}
			}
			f := fateOf(slices.Contains(visible.seen, record{offset, o.value}))
			if !answered[o.txn] && fates[o.txn] != unknown && fates[o.txn] != f {
				return &violation{allOrNone, fmt.Sprintf("%d of transaction %d in partition %d has another fate than other records of it", o.value, o.txn, p)}
			}
			if fates[o.txn] == unknown {
				fates[o.txn] = f
			} else if fates[o.txn] != f {
				return r.otherwise(o, f, where)
			}
			if o.offset < 0 {
				o.offset = offset
			}
		}
	}
	if v := r.resolveOffsets(fates, answered); v != nil {
		return v
	}
	r.operations = slices.DeleteFunc(r.operations, func(o *operation) bool {
		return o.kind == appended && o.offset < 0 || o.kind == ended && o.ret == never || o.kind == initialised && o.ret == never
	})
	r.decide(fates)
	return nil
}

// resolveOffsets leaves out commits of offsets that were not answered and that nobody has seen. Where nothing else tells the fate of a transaction, an offset
// that somebody has seen was committed; of one that nobody has it makes no difference.
func (r *resolved) resolveOffsets(fates []fate, answered []bool) *violation {
	seen := map[int]bool{}
	for _, o := range r.operations {
		if o.kind == fetched {
			seen[o.value] = true
		}
	}
	r.operations = slices.DeleteFunc(r.operations, func(o *operation) bool { return o.kind == pended && o.ret == never && !seen[o.value] })
	for _, o := range r.operations {
		if o.kind != pended || !seen[o.value] || fates[o.txn] == committed {
			continue
		}
		if fates[o.txn] == aborted && answered[o.txn] {
			return &violation{noAborted, fmt.Sprintf("offset %d of transaction %d, which was answered to be aborted, is committed for %s", o.value, o.txn, o.id)}
		}
		if fates[o.txn] == aborted {
			return &violation{allOrNone, fmt.Sprintf("offset %d of transaction %d is committed for %s, and its records are not", o.value, o.txn, o.id)}
		}
		fates[o.txn] = committed
	}
	for _, o := range r.operations {
		if o.kind == pended && fates[o.txn] == unknown {
			fates[o.txn] = aborted
		}
	}
	return nil
}

func fateOf(commit bool) fate {
	if commit {
		return committed
	}
	return aborted
}

// otherwise tells what is broken where a record has another fate than its producer was answered: all records of the transaction have, or this one.
func (r *resolved) otherwise(o *operation, f fate, where map[int]map[int]int64) *violation {
	as := asAnswered
	for _, other := range r.operations {
		if other.kind != appended || other.txn != o.txn {
			continue
		}
		offset, there := where[other.partition][other.value]
		_, visible := r.finals(other.partition)
		if there && fateOf(slices.Contains(visible.seen, record{offset, other.value})) != f {
			as = allOrNone
		}
	}
	if as == asAnswered && f == aborted {
		as = noLost
	}
	if as == asAnswered {
		as = noAborted
	}
	return &violation{as, fmt.Sprintf("%d of transaction %d in partition %d: its producer was answered another fate", o.value, o.txn, o.partition)}
}

// decide adds an operation for each transaction that has a fate. Its call is that of the first thing that can have led to it, its return that of the first
// answer that follows from it.
func (r *resolved) decide(fates []fate) {
	for n, f := range fates {
		if f == unknown {
			continue
		}
		t := &r.txns[n]
		began, beganAt := int64(never), time.Duration(0)
		for _, o := range r.before {
			if (o.kind == appended || o.kind == pended) && o.txn == n && o.call < began {
				began, beganAt = o.call, o.at
			}
		}
		d := &operation{kind: decided, client: "-", call: never, ret: never, txn: n, id: t.id, by: t.by, commit: f == committed}
		asked := false // the producer itself may have asked for it
		for _, o := range r.before {
			switch {
			case o.kind == ended && o.txn == n && o.commit == d.commit:
				d.call, d.ret, asked = min(d.call, o.call), min(d.ret, o.ret), true
			case f == committed:
			case o.kind == initialised && o.id == t.id && o.ret > began:
				d.call = min(d.call, max(o.call, began))
			}
		}
		if f == aborted && began != never {
			d.call = min(d.call, r.momentBefore(beganAt+t.timeout))
		}
		if d.call == never {
			d.call = 0
			r.baseless = &violation{noReason, fmt.Sprintf("transaction %d, commit=%t", n, d.commit)}
		}
		d.final = !asked // its producer is fenced by it
		r.operations = append(r.operations, d)
	}
}

// momentBefore is the last moment of which it is known that a time had not come then, never if it has not come since.
func (r *resolved) momentBefore(deadline time.Duration) int64 {
	last, came := int64(0), false
	note := func(moment int64, at time.Duration) {
		if moment != never && at < deadline {
			last = max(last, moment)
		}
		came = came || moment != never && at >= deadline
	}
	for _, o := range r.before {
		note(o.call, o.at)
		note(o.ret, o.until)
	}
	if !came {
		return never
	}
	return last
}

// checkPartition looks for an order of the operations that a partition shows something of.
func (r *resolved) checkPartition(p int) *violation {
	ids := map[string]bool{}
	for _, o := range r.operations {
		if o.kind == appended && o.partition == p {
			ids[r.txns[o.txn].id] = true
		}
	}
	return r.search(fmt.Sprintf("partition %d", p), func(o *operation) bool {
		if o.kind == appended || o.kind == read {
			return o.partition == p
		}
		return o.kind != pended && o.kind != fetched && ids[o.id]
	})
}

// checkOffsets looks for an order of the operations that the offsets of an id's group show something of.
func (r *resolved) checkOffsets(id string) *violation {
	return r.search("group "+id, func(o *operation) bool { return o.kind != appended && o.kind != read && o.id == id })
}

// ids are the transactional ids in order.
func (r *resolved) ids() (ids []string) {
	for _, t := range r.txns {
		if !slices.Contains(ids, t.id) {
			ids = append(ids, t.id)
		}
	}
	slices.Sort(ids)
	return ids
}

// search has porcupine look for an order of some operations.
func (r *resolved) search(of string, which func(*operation) bool) *violation {
	var ops []porcupine.Operation
	shown := []string{of + ":"}
	for _, o := range r.operations {
		if which(o) {
			ops = append(ops, porcupine.Operation{ClientId: len(ops), Input: o, Call: o.call, Return: o.ret})
			shown = append(shown, o.String())
		}
	}
	if porcupine.CheckOperations(r.model(""), ops) {
		return nil
	}
	for _, property := range []string{noZombie, noAborted, noLost, noInvented, noOvertaken, noGoingBack, oneOwner, asAnswered} {
		if porcupine.CheckOperations(r.model(property), ops) {
			return &violation{property, strings.Join(shown, "\n")}
		}
	}
	return &violation{"several properties", strings.Join(shown, "\n")}
}
