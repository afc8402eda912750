package explore

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// differ collects changes.
type differ struct {
	changes []Change
	more    int
	old     *View
	now     *View
}

// diff tells what has changed from one view to the next, at most MaxChanges of it, and how much more.
func diff(old, now *View) (changes []Change, more int) {
	d := &differ{changes: []Change{}, old: old, now: now}
	d.nodes()
	d.topics()
	d.groups()
	d.sharePartitions()
	d.transactions()
	d.logs()
	d.faults()
	return d.changes, d.more
}

func (d *differ) add(c Change, format string, args ...any) {
	if len(d.changes) == MaxChanges {
		d.more++
		return
	}
	c.Text = fmt.Sprintf(format, args...)
	d.changes = append(d.changes, c)
}

// pairs calls f with the entries of two lists that have the same key, nil where one has none. Both lists are in the order of their keys.
func pairs[T any](old, now []T, compare func(a, b *T) int, f func(old, now *T)) {
	i, j := 0, 0
	for i < len(old) || j < len(now) {
		switch {
		case j == len(now) || i < len(old) && compare(&old[i], &now[j]) < 0:
			f(&old[i], nil)
			i++
		case i == len(old) || compare(&old[i], &now[j]) > 0:
			f(nil, &now[j])
			j++
		default:
			f(&old[i], &now[j])
			i++
			j++
		}
	}
}

func (d *differ) nodes() {
	pairs(d.old.Nodes, d.now.Nodes, func(a, b *Node) int { return cmp.Compare(a.ID, b.ID) }, func(old, now *Node) {
		if old == nil || now == nil || *old == *now {
			return
		}
		say := func(was, is bool, yes, no string) {
			if was != is && is {
				d.add(Change{Kind: "node"}, "node %d: %s", now.ID, yes)
			} else if was != is {
				d.add(Change{Kind: "node"}, "node %d: %s", now.ID, no)
			}
		}
		say(old.Runs, now.Runs, "runs again", "stopped")
		say(old.CutOff, now.CutOff, "cut off", "no longer cut off")
		say(old.Fenced, now.Fenced, "fenced", "no longer fenced")
	})
}

func (d *differ) topics() {
	pairs(d.old.Topics, d.now.Topics, func(a, b *Topic) int { return strings.Compare(a.Name, b.Name) }, func(old, now *Topic) {
		switch {
		case now == nil:
			d.add(Change{Kind: "topic", Topic: old.Name}, "topic %s is gone", old.Name)
			return
		case now.Internal:
			return // it is made where it is needed, and what is appended there is told elsewhere
		case old == nil || old.ID != now.ID:
			d.add(Change{Kind: "topic", Topic: now.Name}, "topic %s: %s", now.Name, plural(len(now.Partitions), "partition"))
			old = &Topic{}
		}
		for i := range now.Partitions {
			was := Partition{Leader: now.Partitions[i].Leader, LeaderEpoch: now.Partitions[i].LeaderEpoch}
			if i < len(old.Partitions) {
				was = old.Partitions[i]
			} else if len(old.Partitions) > 0 {
				d.add(Change{Kind: "partition", Topic: now.Name, Partition: int32(i)}, "%s is new", partitionText(now.Name, int32(i)))
			}
			d.partition(now.Name, &was, &now.Partitions[i])
		}
	})
}

func (d *differ) partition(topic string, old, now *Partition) {
	c := Change{Kind: "partition", Topic: topic, Partition: now.Partition}
	name := partitionText(topic, now.Partition)
	if old.Leader != now.Leader || old.LeaderEpoch != now.LeaderEpoch {
		d.add(c, "%s: leader %d epoch %d -> %d epoch %d", name, old.Leader, old.LeaderEpoch, now.Leader, now.LeaderEpoch)
	}
	if now.EndOffset > old.EndOffset {
		c.First, c.Last = old.EndOffset, now.EndOffset-1
		d.add(c, "%s: offsets %s appended", name, offsets(c.First, c.Last))
		c.First, c.Last = 0, 0
	}
	if now.StartOffset != old.StartOffset {
		d.add(c, "%s: log start offset %d -> %d", name, old.StartOffset, now.StartOffset)
	}
	if behind := now.EndOffset - now.HighWatermark; behind != old.EndOffset-old.HighWatermark {
		d.add(c, "%s: high watermark %d of %d", name, now.HighWatermark, now.EndOffset)
	}
	if held, was := now.HighWatermark-now.LastStableOffset, old.HighWatermark-old.LastStableOffset; held != was {
		if held == 0 {
			d.add(c, "%s: last stable offset %d, no transaction is open", name, now.LastStableOffset)
		} else {
			d.add(c, "%s: last stable offset %d, records from there on wait for a transaction", name, now.LastStableOffset)
		}
	}
}

func (d *differ) groups() {
	pairs(d.old.Groups, d.now.Groups, func(a, b *Group) int { return strings.Compare(a.ID, b.ID) }, func(old, now *Group) {
		switch {
		case now == nil:
			d.add(Change{Kind: "group", Group: old.ID, From: old.State}, "group %s is gone", old.ID)
			return
		case old == nil:
			d.add(Change{Kind: "group", Group: now.ID, To: now.State}, "%s group %s: %s, epoch %d", now.Type, now.ID, now.State, now.Epoch)
			old = &Group{}
		case old.State != now.State || old.Epoch != now.Epoch || old.Type != now.Type:
			d.add(Change{Kind: "group", Group: now.ID, From: old.State, To: now.State}, "%s group %s: %s, epoch %d -> %s, epoch %d", now.Type, now.ID, old.State, old.Epoch, now.State, now.Epoch)
		}
		d.members(old, now)
		pairs(old.Offsets, now.Offsets, func(a, b *CommittedOffset) int {
			return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
		}, func(was, is *CommittedOffset) {
			switch {
			case is == nil:
				d.add(Change{Kind: "group", Group: now.ID, Topic: was.Topic, Partition: was.Partition}, "%s of %s: no committed offset any more", partitionText(was.Topic, was.Partition), now.ID)
			case was == nil || was.Offset != is.Offset:
				d.add(Change{Kind: "group", Group: now.ID, Topic: is.Topic, Partition: is.Partition}, "%s of %s: committed offset %d", partitionText(is.Topic, is.Partition), now.ID, is.Offset)
			}
		})
	})
}

func (d *differ) members(old, now *Group) {
	pairs(old.Members, now.Members, func(a, b *Member) int { return strings.Compare(a.ID, b.ID) }, func(was, is *Member) {
		c := Change{Kind: "member", Group: now.ID}
		switch {
		case is == nil:
			c.Member = was.Name
			d.add(c, "%s is no member of %s any more", was.Name, now.ID)
			d.sessions(now.ID, was, &Member{})
			return
		case was == nil:
			c.Member = is.Name
			d.add(c, "%s is a member of %s: epoch %d, assigned %s", is.Name, now.ID, is.Epoch, nothing(is.Assigned))
			was = &Member{}
		default:
			c.Member = is.Name
			var all []string
			if was.Epoch != is.Epoch {
				all = append(all, fmt.Sprintf("epoch %d -> %d", was.Epoch, is.Epoch))
			}
			if !slices.Equal(was.Assigned, is.Assigned) {
				all = append(all, fmt.Sprintf("assigned %s -> %s", nothing(was.Assigned), nothing(is.Assigned)))
			}
			if was.State != is.State && is.State != "" {
				all = append(all, is.State)
			}
			if len(all) > 0 {
				d.add(c, "%s of %s: %s", is.Name, now.ID, strings.Join(all, ", "))
			}
		}
		d.sessions(now.ID, was, is)
	})
}

func (d *differ) sessions(group string, was, is *Member) {
	name := is.Name
	if name == "" {
		name = was.Name
	}
	c := Change{Kind: "session", Group: group, Member: name}
	pairs(was.Sessions, is.Sessions, func(a, b *ShareSession) int { return cmp.Compare(a.Node, b.Node) }, func(old, now *ShareSession) {
		switch {
		case now == nil:
			d.add(c, "%s: its share session with node %d has ended", name, old.Node)
		case old == nil:
			d.add(c, "%s: a share session with node %d, of %s", name, now.Node, nothing(now.Partitions))
		case !slices.Equal(old.Partitions, now.Partitions):
			d.add(c, "%s: its share session with node %d is of %s, was of %s", name, now.Node, nothing(now.Partitions), nothing(old.Partitions))
		}
	})
}

func nothing(all []string) string {
	if len(all) == 0 {
		return "nothing"
	}
	return joined(all)
}

func (d *differ) sharePartitions() {
	pairs(d.old.SharePartitions, d.now.SharePartitions, func(a, b *SharePartition) int {
		return cmp.Or(strings.Compare(a.Group, b.Group), strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	}, func(old, now *SharePartition) {
		switch {
		case now == nil:
			d.add(Change{Kind: "share-partition", Group: old.Group, Topic: old.Topic, Partition: old.Partition}, "%s of %s: nothing is kept of it any more", partitionText(old.Topic, old.Partition), old.Group)
		case old == nil:
			d.sharePartition(&SharePartition{}, now)
		default:
			d.sharePartition(old, now)
		}
	})
}

func (d *differ) sharePartition(old, now *SharePartition) {
	c := Change{Kind: "share-partition", Group: now.Group, Topic: now.Topic, Partition: now.Partition}
	name := fmt.Sprintf("%s of %s", partitionText(now.Topic, now.Partition), now.Group)
	switch {
	case !now.Known && old.Known:
		d.add(c, "%s: its leader has forgotten it", name)
		return
	case !now.Known:
		return
	case !old.Known:
		d.add(c, "%s: start %d", name, now.StartOffset)
	}
	for _, x := range transitions(old, now, d.fate(now)) {
		c := c
		c.Kind, c.First, c.Last, c.From, c.To = "record", x.first, x.last, x.from.state(), x.to.state()
		if x.to.Run != nil {
			c.Member = x.to.Run.Member
		}
		d.add(c, "%s: %s %s -> %s", name, offsets(x.first, x.last), x.from.brief(), x.to.whole(d.now.Time))
	}
	if old.Known && old.StartOffset != now.StartOffset {
		d.add(c, "%s: start %d -> %d", name, old.StartOffset, now.StartOffset)
	}
	if old.Waiting != now.Waiting {
		d.add(c, "%s: %s", name, waiting(now.Waiting))
	}
}

func waiting(n int) string {
	switch n {
	case 0:
		return "no fetch waits"
	case 1:
		return "1 fetch waits"
	}
	return fmt.Sprintf("%d fetches wait", n)
}

// fate is the state of records in the records of the state log that are new: of those below the start offset nothing else is known any more.
func (d *differ) fate(p *SharePartition) []PersistedBatch {
	var all []PersistedBatch
	n := min(len(d.now.StateLog), d.now.grown[1]-d.old.grown[1])
	for i := range d.now.StateLog[len(d.now.StateLog)-max(0, n):] {
		r := &d.now.StateLog[len(d.now.StateLog)-n+i]
		if r.Group == p.Group && r.Topic == p.Topic && r.Partition == p.Partition && r.State != nil {
			all = append(all, r.State.Batches...)
		}
	}
	return all
}

// record is what records are, nil where they are not in flight.
type record struct {
	*Run
	done string // their last state where they are below the start offset
}

func (r record) state() string {
	switch {
	case r.Run != nil:
		return r.State
	case r.done != "":
		return r.done
	}
	return available
}

// available is the state of what was never handed out.
const available = "AVAILABLE"

// done is the state of what lies below the start offset, where it is not known how it came there.
const done = "done"

// brief is the state and who holds the records.
func (r record) brief() string {
	if r.Run == nil {
		return r.state()
	}
	text := r.State
	if r.Pending {
		text += " (unwritten)"
	}
	if r.Member != "" && r.State == "ACQUIRED" {
		text += " by " + r.Member
	}
	return text
}

// whole is all that there is to say.
func (r record) whole(now time.Time) string {
	if r.Run == nil {
		return r.state()
	}
	parts := []string{fmt.Sprintf("delivery %d", r.DeliveryCount)}
	if r.LockEnds != nil {
		parts = append(parts, "lock ends "+Clock(*r.LockEnds, now))
	}
	if p := r.Producer; p != nil {
		parts = append(parts, fmt.Sprintf("%s in the transaction of %s, epoch %d", p.Type, p.Producer, p.ProducerEpoch))
	}
	if r.Pending {
		parts = append(parts, "its write is unanswered")
	}
	text := r.State
	if r.Member != "" && r.State == "ACQUIRED" {
		text += " by " + r.Member
	}
	return text + " (" + strings.Join(parts, ", ") + ")"
}

// Clock writes a time of day, with the date where that is another one than that of now.
func Clock(t, now time.Time) string {
	t, now = t.UTC(), now.UTC()
	text := t.Format("15:04:05")
	if t.Nanosecond() != 0 {
		text = strings.TrimRight(t.Format("15:04:05.000000000"), "0")
	}
	if t.YearDay() != now.YearDay() || t.Year() != now.Year() {
		text = t.Format("2006-01-02 ") + text
	}
	return text
}

// transition is a run of records that have gone the same way.
type transition struct {
	first, last int64
	from, to    record
}

// transitions are the records of a share partition that have changed, in the order of their offsets.
func transitions(old, now *SharePartition, fate []PersistedBatch) (all []transition) {
	low, high := now.StartOffset, now.EndOffset
	if old.Known {
		low, high = min(low, old.StartOffset), max(high, old.EndOffset)
	}
	cuts := []int64{low, high, now.StartOffset, now.EndOffset}
	if old.Known {
		cuts = append(cuts, old.StartOffset, old.EndOffset)
	}
	for _, runs := range [][]Run{old.Runs, now.Runs} {
		for _, r := range runs {
			cuts = append(cuts, r.First, r.Last+1)
		}
	}
	for _, b := range fate {
		cuts = append(cuts, b.First, b.Last+1)
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	was, is := walk(old), walk(now)
	for i := 0; i+1 < len(cuts); i++ {
		first, last := cuts[i], cuts[i+1]-1
		if first < low || last >= high {
			continue
		}
		from, to := was(first), is(first)
		if to.done != "" && from.done != "" && old.Known || same(from, to) {
			continue
		}
		if !old.Known && to.done != "" {
			continue
		}
		if to.done != "" {
			for _, b := range fate {
				if b.First <= first && last <= b.Last {
					to.done = b.State
				}
			}
			if to.done == available {
				to.done = done
			}
		}
		if n := len(all); n > 0 && all[n-1].last+1 == first && same(all[n-1].from, from) && same(all[n-1].to, to) {
			all[n-1].last = last
			continue
		}
		all = append(all, transition{first, last, from, to})
	}
	return all
}

// walk finds what records are, offsets ascending.
func walk(p *SharePartition) func(offset int64) record {
	i := 0
	return func(offset int64) record {
		if !p.Known {
			return record{}
		}
		for i < len(p.Runs) && p.Runs[i].Last < offset {
			i++
		}
		switch {
		case offset < p.StartOffset:
			return record{done: done}
		case i < len(p.Runs) && p.Runs[i].First <= offset:
			return record{Run: &p.Runs[i]}
		}
		return record{}
	}
}

// same tells whether records are alike.
func same(a, b record) bool {
	switch {
	case a.done != b.done:
		return false
	case a.Run == nil && b.Run == nil:
		return true
	case a.Run == nil || b.Run == nil:
		r := a.Run
		if r == nil {
			r = b.Run
		}
		return a.done == "" && r.State == available && r.DeliveryCount == 0 && !r.Pending
	}
	x, y := *a.Run, *b.Run
	if (x.LockEnds == nil) != (y.LockEnds == nil) || x.LockEnds != nil && !x.LockEnds.Equal(*y.LockEnds) || (x.Producer == nil) != (y.Producer == nil) || x.Producer != nil && *x.Producer != *y.Producer {
		return false
	}
	return x.State == y.State && x.DeliveryCount == y.DeliveryCount && x.Member == y.Member && x.Pending == y.Pending
}

func (d *differ) transactions() {
	pairs(d.old.Transactions, d.now.Transactions, func(a, b *Transaction) int {
		return cmp.Or(cmp.Compare(bools(a.TransactionalID == ""), bools(b.TransactionalID == "")), strings.Compare(a.TransactionalID, b.TransactionalID), cmp.Compare(owner(a), owner(b)))
	}, func(old, now *Transaction) {
		switch {
		case now == nil && old.TransactionalID != "":
			d.add(Change{Kind: "transaction", From: old.State}, "transactional id %s is gone", old.TransactionalID)
		case now == nil:
			d.add(Change{Kind: "transaction"}, "no records wait for a transaction of producer %s any more", old.Producer)
		case now.TransactionalID == "":
			if old == nil {
				d.add(Change{Kind: "transaction"}, "records wait for a transaction of producer %s that has ended without them", now.Producer)
			}
		case old == nil:
			d.add(Change{Kind: "transaction", To: now.State}, "transactional id %s: %s, producer %s epoch %d", now.TransactionalID, now.State, now.Producer, now.ProducerEpoch)
		default:
			d.transaction(old, now)
		}
	})
}

// owner is the producer of those that have no transactional id.
func owner(t *Transaction) int64 {
	if t.TransactionalID != "" {
		return 0
	}
	return t.ProducerID
}

func bools(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (d *differ) transaction(old, now *Transaction) {
	c := Change{Kind: "transaction", From: old.State, To: now.State}
	var all []string
	if old.State != now.State {
		all = append(all, old.State+" -> "+now.State)
	}
	if old.Producer != now.Producer || old.ProducerEpoch != now.ProducerEpoch {
		all = append(all, fmt.Sprintf("producer %s epoch %d", now.Producer, now.ProducerEpoch))
	}
	if added := missing(now.Partitions, old.Partitions); len(added) > 0 {
		all = append(all, "with "+joined(added))
	}
	if len(all) > 0 {
		d.add(c, "transactional id %s: %s", now.TransactionalID, strings.Join(all, ", "))
	}
}

// missing are those of a list that another has not.
func missing(of, from []string) (all []string) {
	for _, x := range of {
		if !slices.Contains(from, x) {
			all = append(all, x)
		}
	}
	return all
}

func (d *differ) logs() {
	newest := func(n, k int) int { return n - min(n, max(0, d.now.grown[k]-d.old.grown[k])) }
	for _, m := range d.now.Markers[newest(len(d.now.Markers), 0):] {
		d.add(Change{Kind: "marker", Topic: m.Topic, Partition: m.Partition, First: m.Offset, Last: m.Offset}, "%s: %s marker of producer %s epoch %d at offset %d", partitionText(m.Topic, m.Partition), m.Type,
			m.Producer, m.ProducerEpoch, m.Offset)
	}
	for i := range d.now.StateLog[newest(len(d.now.StateLog), 1):] {
		r := &d.now.StateLog[newest(len(d.now.StateLog), 1)+i]
		d.add(Change{Kind: "state-log", Group: r.Group, Topic: r.Topic, Partition: r.Partition}, "state log: %s", r.Words())
	}
	for _, x := range d.now.DeadLetters[newest(len(d.now.DeadLetters), 2):] {
		d.add(Change{Kind: "dead-letter", Group: x.Group, Topic: x.Topic, Partition: x.Partition, First: x.Offset, Last: x.Offset}, "%s: %s %d of %s after %s: %s", partitionText(x.Topic, x.Partition),
			partitionText(x.SourceTopic, x.SourcePartition), x.SourceOffset, x.Group, deliveries(x.DeliveryCount), x.Reason)
	}
}

func deliveries(n int) string {
	if n == 1 {
		return "1 delivery"
	}
	return fmt.Sprintf("%d deliveries", n)
}

// Words is what the record says, like "ShareUpdate orders-0 of workers: start 0; 0-4 ACKNOWLEDGED count 1".
func (r *StateRecord) Words() string {
	text := fmt.Sprintf("%s %s of %s", r.Type, partitionText(r.Topic, r.Partition), r.Group)
	if r.State == nil {
		return text
	}
	if r.Type == "ShareSnapshot" || r.State.StartOffset != -1 {
		text += fmt.Sprintf(": start %d", r.State.StartOffset)
	}
	for i, b := range r.State.Batches {
		if i == 10 {
			return text + fmt.Sprintf(" and %d more", len(r.State.Batches)-i)
		}
		separator := ", "
		if i == 0 {
			separator = "; "
			if !strings.Contains(text, ": start") {
				separator = ": "
			}
		}
		text += fmt.Sprintf("%s%s %s count %d", separator, offsets(b.First, b.Last), b.State, b.DeliveryCount)
	}
	return text
}

func (d *differ) faults() {
	was, is := map[string]bool{}, map[string]bool{}
	for _, f := range d.old.Faults {
		was[f.Name] = true
	}
	for _, f := range d.now.Faults {
		if is[f.Name] = true; !was[f.Name] {
			d.add(Change{Kind: "fault"}, "fault %s: %s", f.Name, f.Rule)
		}
	}
	for _, f := range d.old.Faults {
		if !is[f.Name] {
			d.add(Change{Kind: "fault"}, "fault %s has ended", f.Name)
		}
	}
}

func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
