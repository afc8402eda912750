package scenario

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// work is one step of a worker.
func (s *simulation) work(w *simulatedWorker) error {
	switch {
	case w.abandoned && !w.dead && w.retries != "":
		return s.end(w, w.retries)
	case w.abandoned && !w.dead && len(w.held) > 0 && s.one(2):
		return s.transform(w)
	case w.staging != "":
		switch {
		case s.one(4):
			return s.crash(w)
		case s.one(2):
			return s.staged(w)
		case !w.abandoned && !w.dead && s.one(2):
			return s.abandon(w)
		}
		return nil
	case w.dead || s.one(15):
		return s.crash(w)
	case w.retries != "":
		return s.end(w, w.retries)
	case len(w.staged) > 0 && (len(w.held) == 0 || s.one(2)):
		return s.end(w, pick(&s.generator, "commit", "commit", "commit", "abort"))
	case len(w.held) == 0:
		return s.read(w)
	case s.one(12):
		in := w.held[0]
		w.held = slices.DeleteFunc(w.held, func(other *simulatedInput) bool { return other == in })
		return s.reject(w, in)
	}
	return s.transform(w)
}

func (s *simulation) read(w *simulatedWorker) error {
	epoch := ""
	if w.fresh {
		epoch, w.fresh = " epoch=0", false
		s.letGo(w)
	}
	shown, err := s.run("fetch workers %s wait=0s mode=record_limit records=%d%s", w.member, 1+s.rand.IntN(4), epoch)
	if err != nil {
		return err
	}
	if failed(shown) {
		w.fresh = true
		s.lost++
		s.letGo(w)
		return nil
	}
	for _, m := range acquiredLine.FindAllStringSubmatch(shown, -1) {
		for _, r := range acquiredRange.FindAllStringSubmatch(m[2], -1) {
			first, _ := strconv.ParseInt(r[1], 10, 64)
			last := first
			if r[2] != "" {
				last, _ = strconv.ParseInt(r[2], 10, 64)
			}
			count, _ := strconv.Atoi(r[3])
			for offset := first; offset <= last; offset++ {
				s.delivered(w, m[1], offset, count)
			}
		}
	}
	return nil
}

func (s *simulation) delivered(w *simulatedWorker, partition string, offset int64, count int) {
	i := slices.IndexFunc(s.inputs, func(in *simulatedInput) bool { return in.partition == partition && in.offset == offset })
	in := s.inputs[i]
	in.deliveries = max(in.deliveries, count)
	switch {
	case in.committed:
		s.breaks(neverBack, "%s %d was acknowledged in a transaction that was committed, and %s has it again", partition, offset, w.member)
	case in.rejected:
		s.breaks(neverBack, "%s %d was rejected, and %s has it again", partition, offset, w.member)
	case count > s.limit:
		s.breaks(withinLimit, "%s %d is delivered for the %dth time", partition, offset, count)
	case !s.given && in.holder != nil && in.holder != w && s.now().Before(in.until):
		s.breaks(oneHolder, "%s has %s %d, and the lock of %s lasts until %s", w.member, partition, offset, in.holder.member, in.until.Format(time.TimeOnly))
	}
	if in.holder, in.until = w, s.now().Add(simulatedLock); w.shaky {
		in.holder = nil
	}
	w.held = append(w.held, in)
}

// letGo takes in that a worker may not hold anything any more.
func (s *simulation) letGo(w *simulatedWorker) {
	for _, in := range s.inputs {
		if in.holder == w {
			in.holder = nil
		}
	}
}

// transform writes outputs for what a worker holds of one partition, or for one of these records, and stages its acknowledgement.
func (s *simulation) transform(w *simulatedWorker) error {
	of := w.held[0].partition
	taken, left := ofPartition(w.held, of)
	if s.one(4) {
		taken, left = taken[:1], append(left, taken[1:]...)
	}
	w.held = left
	written, err := s.write(w.producer, taken)
	if err != nil {
		return err
	}
	if w.abandoned { // the connection that is to stage it still waits
		if err := s.staged(w); err != nil {
			return err
		}
	}
	if !written {
		return s.giveUp(w)
	}
	if s.one(12) {
		shown, err := s.heartbeat(w, "leave workers %s", w.member)
		if err != nil {
			return err
		}
		w.left = strings.HasSuffix(shown, ": left")
	}
	w.asked = taken
	words := staging(w.member, w.producer, taken)
	w.sent = fmt.Sprintf("%s epoch=%d", words, s.runner.world.producers[w.producer].epoch)
	if s.one(4) {
		w.gate, w.staging = s.name("gate"), s.name("stage")
		if err := s.try("share-writes %s workers partition=%s hold=yes count=1%s", w.gate, of, pick(&s.generator, "", " stage=after", " stage=after error=INVALID_REQUEST")); err != nil {
			return err
		}
		s.faults = append(s.faults, w.gate)
		return s.try("%s &%s", words, w.staging)
	}
	shown, err := s.run("%s", words)
	if err != nil {
		return err
	}
	if !failed(shown) && s.one(8) { // sent twice
		if shown, err = s.run("%s", words); err != nil {
			return err
		}
	}
	return s.stagedWith(w, shown)
}

// ofPartition are inputs of one partition, each once, and those of others.
func ofPartition(all []*simulatedInput, partition string) (of, others []*simulatedInput) {
	for _, in := range all {
		if in.partition != partition {
			others = append(others, in)
		} else if !slices.Contains(of, in) {
			of = append(of, in)
		}
	}
	return of, others
}

// write writes outputs in a producer's transaction.
func (s *simulation) write(producer string, inputs []*simulatedInput) (written bool, err error) {
	if s.old {
		if shown, err := s.run("txn-add-partitions %s bills-0", producer); err != nil || failed(shown) {
			return false, err
		}
	}
	values := make([]string, len(inputs))
	for i, in := range inputs {
		values[i] = in.value
	}
	shown, err := s.run("produce bills-0 %s producer=%s txn=yes", strings.Join(values, " "), producer)
	return err == nil && !failed(shown), err
}

// staging is the command that stages the acknowledgement of inputs of one partition.
func staging(member, producer string, inputs []*simulatedInput) string {
	acks := make([]string, len(inputs))
	for i, in := range inputs {
		acks[i] = fmt.Sprintf("%d=accept", in.offset)
	}
	slices.Sort(acks)
	return fmt.Sprintf("txn-ack workers %s %s %s %s", member, producer, inputs[0].partition, strings.Join(acks, " "))
}

// reject has a worker reject what it holds, outside of its transaction. Where its lock may have ended the answer says nothing: outside of transactions what lies below the start offset
// is passed over.
func (s *simulation) reject(w *simulatedWorker, in *simulatedInput) error {
	holds := in.holder == w && s.now().Before(in.until)
	shown, err := s.run("ack workers %s %s %d=reject", w.member, in.partition, in.offset)
	switch {
	case err != nil:
		return err
	case !failed(shown) && strings.Contains(shown, "ok"):
		in.rejected, in.unknown, in.holder = holds, in.unknown || !holds, nil
		return nil
	}
	in.unknown, w.fresh = true, true
	s.letGo(w)
	return nil
}

// heartbeat is run for what a member says to its group, over the connection that may have its share session.
func (s *simulation) heartbeat(w *simulatedWorker, format string, args ...any) (string, error) {
	shown, err := s.run(format, args...)
	if strings.Contains(shown, "connection") {
		w.fresh = true
		s.letGo(w)
	}
	return shown, err
}

// staged waits for what is being staged in the background.
func (s *simulation) staged(w *simulatedWorker) error {
	if err := s.unfault(w.gate); err != nil {
		return err
	}
	shown, err := s.run("wait %s", w.staging)
	abandoned := w.abandoned
	w.staging, w.gate, w.abandoned = "", "", false
	if err != nil || w.dead {
		w.left = false
		return err
	}
	if abandoned {
		return s.stagedForNothing(w, shown)
	}
	return s.stagedWith(w, shown)
}

// abandon has a worker abort its transaction without waiting for what it is staging, and go on with what it still holds: over a new connection, so that the next
// transaction may stage before this is written, or once it is answered.
func (s *simulation) abandon(w *simulatedWorker) error {
	for _, in := range w.asked {
		in.holder = nil
	}
	w.abandoned, w.asked = true, nil
	s.keepsEpoch(w)
	if s.one(2) && s.connected(w) {
		s.given = true
		if err := s.try("disconnect workers %s", w.member); err != nil {
			return err
		}
		shown, err := s.run("wait %s", w.staging)
		if err != nil {
			return err
		}
		w.staging, w.gate, w.abandoned, w.overtaken = "", "", false, w.gate
		if err := s.stagedForNothing(w, shown); err != nil {
			return err
		}
	}
	return s.end(w, "abort")
}

// keepsEpoch takes in that a worker's request was not taken. Where its producer keeps the epoch nothing tells that request from one of its next transaction, so that
// it does not come again.
func (s *simulation) keepsEpoch(w *simulatedWorker) {
	if s.old {
		w.sent = ""
	}
}

// stagedForNothing takes in the answer to what was abandoned: whatever it is, the transaction was aborted.
func (s *simulation) stagedForNothing(w *simulatedWorker, shown string) error {
	if strings.Contains(shown, "connection") {
		w.fresh = true
		s.letGo(w)
	}
	if !w.left {
		return nil
	}
	if w.left = false; !failed(shown) {
		s.breaks(removedStageNo, "%s has left the group and staged records", w.member)
	}
	_, err := s.heartbeat(w, "join workers %s orders once=yes", w.member)
	return err
}

func (s *simulation) stagedWith(w *simulatedWorker, shown string) error {
	left := w.left
	w.left = false
	if failed(shown) || !strings.Contains(shown, "ok") {
		s.keepsEpoch(w)
		if strings.Contains(shown, "connection") {
			w.fresh = true
			s.letGo(w)
		}
		if left || strings.Contains(shown, "MEMBER") {
			if _, err := s.heartbeat(w, "join workers %s orders once=yes", w.member); err != nil {
				return err
			}
		} else if !w.fresh && s.one(2) {
			if err := s.reject(w, w.asked[0]); err != nil {
				return err
			}
		}
		return s.giveUp(w)
	}
	if left {
		s.breaks(removedStageNo, "%s has left the group and staged %d records", w.member, len(w.asked))
	}
	for _, in := range w.asked {
		in.holder = nil
	}
	w.staged, w.asked = append(w.staged, w.asked...), nil
	if w.overtaken != "" && s.one(2) {
		return s.unfault(w.overtaken)
	}
	return nil
}

// giveUp aborts a worker's transaction after an error.
func (s *simulation) giveUp(w *simulatedWorker) error {
	w.held, w.asked = nil, nil
	return s.end(w, "abort")
}

func (s *simulation) end(w *simulatedWorker, how string) error {
	shown, err := s.run("txn-end %s %s %s", w.producer, how, s.ends)
	if err != nil {
		return err
	}
	switch {
	case strings.Contains(shown, "connection") && w.retries == "":
		w.retries = how
		return nil
	case failed(shown):
		w.dead = true
	case how == "commit":
		for _, in := range w.staged {
			in.committed = true
		}
		s.commits++
	}
	w.staged, w.retries = nil, ""
	if w.staging == "" && !w.dead && w.sent != "" && s.one(10) {
		return s.try("%s", w.sent) // comes late
	}
	return nil
}

// crash has a worker begin anew: another instance with the same transactional id.
func (s *simulation) crash(w *simulatedWorker) error {
	if w.staging == "" && s.connected(w) { // else its connection waits
		if err := s.try("disconnect workers %s", w.member); err != nil {
			return err
		}
	}
	w.fresh = true
	s.letGo(w)
	if w.staging == "" && w.retries == "" && !w.dead && s.one(2) {
		s.zombies = append(s.zombies, &simulatedZombie{w.producer, w.member, w.held, w.staged})
		w.producer = s.name("again")
	}
	w.held, w.staged, w.asked, w.retries, w.sent = nil, nil, nil, "", ""
	shown, err := s.run("init-producer %s txn=%s timeout=%s once=yes", w.producer, w.id, s.timeout())
	w.dead = failed(shown)
	if w.staging != "" {
		w.dead = true // until what it had asked for is answered
	}
	return err
}

// haunt is a step of a zombie: it does as its worker would, and is over with the first error.
func (s *simulation) haunt(z *simulatedZombie) error {
	if len(z.held) > 0 {
		var taken []*simulatedInput
		taken, z.held = ofPartition(z.held, z.held[0].partition)
		written, err := s.write(z.producer, taken)
		if err != nil {
			return err
		}
		if written {
			shown, err := s.run("%s", staging(z.member, z.producer, taken))
			if err != nil {
				return err
			}
			written = !failed(shown)
		}
		if z.staged = append(z.staged, taken...); written {
			return nil
		}
	} else {
		shown, err := s.run("txn-end %s commit %s", z.producer, s.ends)
		if err != nil {
			return err
		}
		if !failed(shown) {
			for _, in := range z.staged {
				in.committed, in.holder = true, nil
			}
		}
	}
	s.zombies = slices.DeleteFunc(s.zombies, func(other *simulatedZombie) bool { return other == z })
	return nil
}

func (s *simulation) connected(w *simulatedWorker) bool {
	return slices.ContainsFunc(s.runner.world.connKeys(), func(k connKey) bool { return k.client == "workers/"+w.member })
}
