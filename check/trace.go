package check

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"kshare/scenario"
	"kshare/sharepartition"
)

// Trace is a row of steps from the beginning on. Scenario prints it.
type Trace struct {
	model   *Model
	actions []action
}

// Len is the number of steps.
func (t *Trace) Len() int { return len(t.actions) }

// step is a step as commands of a scenario, and the state behind it.
type step struct {
	commands []string
	world    *world
}

// long is what times out only after any trace.
const long = "24h"

// setup makes what a trace begins with.
func (t *Trace) setup() []string {
	m := t.model
	kip := "on"
	if set := m.Switches.Set(); len(set) > 0 {
		kip = strings.ReplaceAll(strings.Join(set, ","), "=", ":")
	}
	values := make([]string, m.Records)
	for i := range values {
		values[i] = value(int8(i))
	}
	const ms = "86400000"
	lines := []string{
		"cluster brokers=2 kip1289=" + kip + " transaction.max.timeout.ms=" + ms + " connections.max.idle.ms=" + ms +
			" group.share.max.session.timeout.ms=" + ms + " group.share.session.timeout.ms=" + ms,
		"topic orders replicas=2",
		"topic bills",
		fmt.Sprintf("config group workers share.auto.offset.reset=earliest share.assignment.interval.ms=0 share.delivery.count.limit=%d", m.Limit),
	}
	for i := range int8(m.Members) {
		lines = append(lines, "join workers "+memberName(i)+" orders")
	}
	for i := range int8(m.Members) {
		lines = append(lines, "fetch workers "+memberName(i)+" wait=0s")
	}
	lines = append(lines, "produce orders-0 "+strings.Join(values, " / "))
	for i := range int8(m.Producers) {
		lines = append(lines, fmt.Sprintf("init-producer %s txn=%s timeout=%s", producerName(i), txnName(i), long))
	}
	return lines
}

func value(record int8) string    { return string(rune('a' + record)) }
func producerName(p int8) string  { return "p" + string(rune('1'+p)) }
func writeName(number int) string { return fmt.Sprintf("w%d", number) }
func askName(number int) string   { return fmt.Sprintf("a%d", number) }

// steps goes the way of the trace. With outputs each record that is staged has its output written.
func (t *Trace) steps(outputs bool) ([]step, error) {
	fails := map[int]bool{} // the writes, by the number of the step that they come from, whose answer will be an error
	w, err := newWorld(t.model)
	if err != nil {
		return nil, err
	}
	for i, a := range t.actions {
		if a.kind == writeFails {
			fails[w.writes[a.by].number] = true
		}
		w = w.child()
		w.do(a, i+1)
	}
	w, _ = newWorld(t.model)
	var steps []step
	for i, a := range t.actions {
		next := w.child()
		next.do(a, i+1)
		steps = append(steps, step{t.commands(a, i+1, w, next, fails[i+1], outputs), next})
		w = next
	}
	return steps, nil
}

// commands of one step.
func (t *Trace) commands(a action, number int, before, after *world, fails, outputs bool) (lines []string) {
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	m, p := memberName(a.member), producerName(a.by)
	behind := "" // what the step asks for is waited for later
	if i := slices.IndexFunc(after.writes, func(x stateWrite) bool { return x.number == number }); i >= 0 && a.how != goes {
		options := "hold=yes"
		if a.how == answers {
			options += " stage=after"
		}
		if fails {
			options += " error=INVALID_REQUEST"
		}
		add("share-writes %s workers count=1 %s", writeName(number), options)
		if after.writes[i].asked {
			behind = " &" + askName(number)
		}
	}
	if i := slices.IndexFunc(after.markers, func(x marker) bool { return x.number == number }); i >= 0 {
		options := "hold=yes"
		if a.how == answers {
			options += " stage=after"
		}
		add("marker-writes %s %s topic=__share_group_state count=1 %s", writeName(number), after.txnIDs[after.markers[i].of.producer], options)
	}
	version := ""
	if t.model.EndTxn < 5 {
		version = " version=4"
	}
	switch a.kind {
	case fetches:
		epoch := ""
		if !before.members[a.member].sessions[before.leader] {
			epoch = " epoch=0"
		}
		add("advance %s", after.now.Sub(before.now))
		add("fetch workers %s wait=0s mode=record_limit records=%d%s", m, a.record, epoch)
	case acknowledges:
		add("ack workers %s orders-0 %d=%s%s", m, a.record, ackName(a.ack), behind)
	case renews:
		add("advance %s", after.now.Sub(before.now))
		add("ack workers %s orders-0 %d=renew renew=yes", m, a.record)
	case stagesRecord:
		if outputs {
			add("produce bills-0 %s producer=%s txn=yes", value(a.record), p)
		}
		add("txn-ack workers %s %s orders-0 %d=%s%s", m, p, a.record, ackName(a.ack), behind)
	case commits, aborts:
		how := "commit"
		if a.kind == aborts {
			how = "abort"
		}
		add("txn-end %s %s once=yes%s", p, how, version)
	case takesOver:
		add("init-producer %s txn=%s timeout=%s once=yes", p, txnName(a.by), long)
	case lockEnds:
		add("advance %s", after.now.Sub(before.now))
	case writeGoesOn, writeFails:
		x := &before.writes[a.by]
		add("unfault %s", writeName(x.number))
		if x.asked {
			add("wait %s", askName(x.number))
		}
	case markerArrives:
		add("unfault %s", writeName(before.markers[a.by].number))
	case moves:
		add("move-leader orders-0 %d", after.leader+1)
	case crashes:
		add("restart")
		for i := range before.writes {
			if x := &before.writes[i]; x.asked {
				add("wait %s", askName(x.number))
			}
		}
	case coordinates:
		add("move-coordinator transaction %s 1", txnName(a.by))
	case disconnects:
		add("disconnect workers %s", m)
	case endsSession:
		add("ack workers %s epoch=-1 node=%d &%s", m, before.leader+1, askName(number)) // it would wait for what follows the answer
	case leaves:
		add("leave workers %s", m)
	case joins:
		add("join workers %s orders once=yes", m)
	case logStarts:
		add("delete-records orders-0 %d", a.record)
	}
	return lines
}

func ackName(t int8) string {
	return []string{"gap", "accept", "release", "reject", "renew"}[t]
}

// visible is what the scenario commands state and txn-describe show of a state: of each record, what the leader and what the share coordinator knows.
func (w *world) visible() []string {
	lines := []string{"orders-0: not read by the leader"}
	if w.part != nil {
		lines[0] = fmt.Sprintf("orders-0: start %d, end %d, %d in flight", w.part.StartOffset(), w.part.EndOffset(), w.part.InFlight())
		for _, r := range w.part.Describe(nil, w.now) {
			for offset := max(r.FirstOffset, w.part.StartOffset()); offset <= r.LastOffset; offset++ {
				lines = append(lines, fmt.Sprintf("%d %s", offset, w.visibleRun(&r)))
			}
		}
	}
	s := w.persisted()
	lines = append(lines, fmt.Sprintf("persisted: start %d", s.StartOffset))
	for _, b := range s.Batches {
		for offset := b.FirstOffset; offset <= b.LastOffset; offset++ {
			lines = append(lines, fmt.Sprintf("persisted %d %s count %d", offset, sharepartition.State(b.State), b.DeliveryCount))
		}
	}
	for p := range int8(w.model.Producers) {
		e := w.entry(p)
		lines = append(lines, fmt.Sprintf("%s: %s, producer <%s>, epoch %d", txnName(p), e.State, producerName(p), e.Epoch))
	}
	return lines
}

func (w *world) visibleRun(r *sharepartition.Run) string {
	text := fmt.Sprintf("%s count %d", r.State, r.DeliveryCount)
	switch {
	case r.State == sharepartition.Acquired && r.Member != "":
		text += fmt.Sprintf(" %s, lock %s", r.Member, r.LockLeft.Round(time.Millisecond))
	case r.State == sharepartition.TxPending:
		text += fmt.Sprintf(" %s in a transaction of producer <%s>, epoch %d", ackName(r.Staged.Type), producerName(w.ids[r.Staged.ProducerID]), r.Staged.ProducerEpoch)
	}
	if r.Pending {
		text += " (its write is unanswered)"
	}
	return text
}

// shows are the commands that show what is wrong behind a trace, by property. What the last step shows is enough for the others.
var shows = map[string][]string{
	NotStuck:       {"advance 60s", "open-transactions", "state workers orders-0"},
	ExactlyOnce:    {"state workers orders-0", "read bills-0 isolation=read_committed"},
	OwnTransaction: {"state workers orders-0"},
	MembersOnly:    {"describe-group workers", "state workers orders-0"},
}

// Scenario is the trace as a scenario that shows what is broken, with what a broker shows. The name is used in errors, one of which means that the scenario could
// not be run to its end.
func (b *Broken) Scenario(name string) (string, error) {
	t := b.Trace
	steps, err := t.steps(true)
	if err != nil {
		return "", err
	}
	text := "# Found by kshare check as a shortest trace against: " + b.Property + ".\n# In the end " + b.What + ".\n\n" + strings.Join(t.setup(), "\n") + "\n" + separator
	for i := range steps {
		if i == 0 {
			text += "\n"
		}
		text += "\n" + strings.Join(steps[i].commands, "\n")
	}
	for _, l := range shows[b.Property] {
		text += "\n" + l
	}
	report, err := runScenario(name, text+"\n"+separator+"\n")
	if err != nil {
		return text, err
	}
	return string(report.Rewritten()), nil
}

const separator = "----"

func runScenario(name, text string) (*scenario.Report, error) {
	f, err := scenario.Parse(name, []byte(text))
	if err != nil {
		return nil, err
	}
	return scenario.Run(f, scenario.NewLocal(), scenario.Options{})
}
