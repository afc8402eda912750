package explore

import (
	"fmt"
	"strings"
)

// Words draws what a view has of groups: their members and sessions, the records of their share partitions and what is persisted, then transactions. group is one group, "" for
// all.
func Words(v *View, group string) (string, error) {
	var b strings.Builder
	found := false
	for i := range v.Groups {
		g := &v.Groups[i]
		if group != "" && g.ID != group {
			continue
		}
		found = true
		fmt.Fprintf(&b, "%s group %s: %s, epoch %d\n", g.Type, g.ID, g.State, g.Epoch)
		for _, m := range g.Members {
			fmt.Fprintf(&b, "  %s: epoch %d, assigned %s", m.Name, m.Epoch, nothing(m.Assigned))
			if m.Expires != nil {
				fmt.Fprintf(&b, ", session ends %s", Clock(*m.Expires, v.Time))
			}
			b.WriteString("\n")
			for _, s := range m.Sessions {
				fmt.Fprintf(&b, "    share session with node %d: epoch %d, of %s\n", s.Node, s.Epoch, nothing(s.Partitions))
			}
		}
		for _, o := range g.Offsets {
			fmt.Fprintf(&b, "  %s: committed %d\n", partitionText(o.Topic, o.Partition), o.Offset)
		}
	}
	for i := range v.SharePartitions {
		p := &v.SharePartitions[i]
		if group == "" || p.Group == group {
			found = true
			sharePartitionWords(&b, p, v)
		}
	}
	if !found && group != "" {
		var ids []string
		for _, g := range v.Groups {
			ids = append(ids, g.ID)
		}
		return "", fmt.Errorf("there is no group %q%s", clip(group), suggest(clip(group), ids))
	}
	for i := range v.Transactions {
		if group == "" {
			transactionWords(&b, &v.Transactions[i], v)
		}
	}
	if b.Len() == 0 {
		return "There is no group and no transaction.\n", nil
	}
	return b.String(), nil
}

func sharePartitionWords(b *strings.Builder, p *SharePartition, v *View) {
	fmt.Fprintf(b, "%s of %s: ", partitionText(p.Topic, p.Partition), p.Group)
	if p.Known {
		fmt.Fprintf(b, "start %d, end %d, %d of %d in flight", p.StartOffset, p.EndOffset, p.InFlight, p.MaxInFlight)
		if p.Waiting > 0 {
			b.WriteString(", " + waiting(p.Waiting))
		}
		b.WriteString("\n")
		for i := range p.Runs {
			fmt.Fprintf(b, "  %-9s %s\n", offsets(p.Runs[i].First, p.Runs[i].Last), record{Run: &p.Runs[i]}.whole(v.Time))
		}
	} else {
		b.WriteString("its leader has not read its state\n")
	}
	if p.Persisted == nil {
		return
	}
	fmt.Fprintf(b, "  persisted: start %d, state epoch %d", p.Persisted.StartOffset, p.Persisted.StateEpoch)
	for i, x := range p.Persisted.Batches {
		separator := ", "
		if i == 0 {
			separator = "; "
		}
		fmt.Fprintf(b, "%s%s %s count %d", separator, offsets(x.First, x.Last), x.State, x.DeliveryCount)
	}
	b.WriteString("\n")
}

func transactionWords(b *strings.Builder, t *Transaction, v *View) {
	name := t.TransactionalID
	if name == "" {
		name = "an ended transaction"
	}
	fmt.Fprintf(b, "%s: %s, producer %s epoch %d", name, t.State, t.Producer, t.ProducerEpoch)
	if t.Expires != nil {
		fmt.Fprintf(b, ", aborted at %s", Clock(*t.Expires, v.Time))
	}
	if len(t.Partitions) > 0 {
		b.WriteString(", writes to " + joined(t.Partitions))
	}
	b.WriteString("\n")
	for _, r := range t.Staged {
		fmt.Fprintf(b, "  holds %s %s of %s\n", partitionText(r.Topic, r.Partition), offsets(r.First, r.Last), r.Group)
	}
}

// Words says the event in a line.
func (e *Event) Words() string {
	var b strings.Builder
	arrow := "->"
	if e.Kind != KindRequest {
		arrow = "<-"
	}
	fmt.Fprintf(&b, "%d %s %s %s v%d %s node %d", e.N, Clock(e.Time, e.Time), arrow, e.API, e.Version, e.ClientID, e.Node)
	for _, names := range [][]string{e.Groups, e.Members, e.Partitions} {
		if len(names) > 0 {
			b.WriteString(" " + joined(names))
		}
	}
	switch {
	case e.Kind == KindEnd:
		b.WriteString(" " + e.Outcome)
		if e.Reason != "" {
			b.WriteString(": " + e.Reason)
		}
	case len(e.Errors) > 0:
		b.WriteString(" " + strings.Join(e.Errors, " "))
	}
	fmt.Fprintf(&b, " (%d bytes", e.Bytes)
	if e.Kind == KindAnswer && e.TookMs > 0 {
		fmt.Fprintf(&b, " after %gms", e.TookMs)
	}
	b.WriteString(")")
	return b.String()
}
