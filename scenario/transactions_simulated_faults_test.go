package scenario

import (
	"fmt"
	"slices"
	"strings"
)

// disturb has something go wrong, or time pass.
func (s *simulation) disturb() error {
	g := &s.generator
	w := pick(g, s.workers...)
	partition := fmt.Sprintf("orders-%d", s.rand.IntN(simulatedPartitions))
	add := func(kind, format string, args ...any) error {
		name := s.name(kind)
		s.faults = append(s.faults, name)
		return s.try(format, append([]any{name}, args...)...)
	}
	switch s.rand.IntN(24) {
	case 0, 1, 2:
		return s.try("advance %s", pick(g, "100ms", "1s", "5s", "31s"))
	case 3:
		return s.moveLeader(pick(g, partition, partition, "bills-0"))
	case 4:
		return s.try("move-coordinator share workers/%s %d%s", partition, s.live(1+s.rand.Int32N(3)), pick(g, "", " loading=1s"))
	case 5, 6:
		return s.try("move-coordinator transaction %s %d%s", w.id, s.live(1+s.rand.Int32N(3)), pick(g, "", " loading=1s"))
	case 7:
		return s.try("move-coordinator group workers %d%s", s.live(1+s.rand.Int32N(3)), pick(g, "", " loading=1s"))
	case 8:
		return add("failing", "share-writes %s workers count=1 error=%s %s", pick(g, "INVALID_REQUEST", "NETWORK_EXCEPTION"), pick(g, "", "stage=after"))
	case 9, 10:
		return add("markers", "marker-writes %s %s count=%d %s %s %s", w.id, 1+s.rand.IntN(2), pick(g, "", "topic=__share_group_state", "topic=bills"),
			pick(g, "hold=yes", "hold=yes", "delay=3s", "error=NOT_LEADER_OR_FOLLOWER"), pick(g, "", "", "stage=after"))
	case 11:
		s.letGo(w)
		w.shaky = true
		of := pick(g, "api=EndTxn", "api=InitProducerId", "api=Produce", "client=workers/"+w.member, "client=workers/"+w.member)
		if s.old && of == "api=Produce" { // with the epoch its sequence numbers go on, so that it would have to send the same again before anything else
			return nil
		}
		return add("lost", "fault %s %s times=1 close stage=after", of)
	case 12:
		if len(s.faults) > 0 {
			return s.unfault(pick(g, s.faults...))
		}
	case 13:
		if s.one(3) {
			return s.restart()
		}
	case 14, 15:
		if len(s.zombies) > 0 {
			return s.haunt(pick(g, s.zombies...))
		}
	case 16:
		return s.stopOrStart()
	case 17:
		return s.withoutSpace(w)
	case 18:
		if s.one(2) {
			return s.deleteRecords(partition)
		}
	case 19:
		if s.one(4) {
			return s.setBack(partition)
		}
	case 20:
		if len(w.staged) > 0 && w.staging == "" && w.retries == "" {
			return s.replaceCoordinator(w)
		}
	case 21:
		return s.try("advance 31s")
	case 22, 23:
		return s.pause(w)
	}
	return nil
}

// pause has a worker do nothing while its locks end and another goes on.
func (s *simulation) pause(w *simulatedWorker) error {
	if err := s.try("advance 31s"); err != nil {
		return err
	}
	other := s.workers[(slices.Index(s.workers, w)+1)%len(s.workers)]
	for range 4 {
		if err := s.work(other); err != nil || s.broken != nil {
			return err
		}
	}
	return nil
}

// withoutSpace is a step of a worker while nothing can be stored.
func (s *simulation) withoutSpace(w *simulatedWorker) error {
	if err := s.try("disk full count=%d", 1+s.rand.IntN(3)); err != nil {
		return err
	}
	if err := s.work(w); err != nil {
		return err
	}
	return s.try("disk well")
}

// replaceCoordinator has a worker's transaction be aborted by another coordinator than the one whose marker is on its way.
func (s *simulation) replaceCoordinator(w *simulatedWorker) error {
	name := s.name("overtaken")
	s.faults, w.overtaken = append(s.faults, name), name
	if err := s.try("marker-writes %s %s topic=__share_group_state count=1 hold=yes", name, w.id); err != nil {
		return err
	}
	if err := s.giveUp(w); err != nil {
		return err
	}
	return s.try("move-coordinator transaction %s %d", w.id, s.live(1+s.rand.Int32N(3)))
}

// stopOrStart stops a node, or starts the one that is stopped.
func (s *simulation) stopOrStart() error {
	if s.stopped != 0 {
		n := s.stopped
		s.stopped = 0
		return s.try("start-node %d", n)
	}
	for _, w := range s.workers {
		s.letGo(w)
		w.fresh = true
	}
	s.stopped = 1 + s.rand.Int32N(3)
	return s.try("stop-node %d", s.stopped)
}

// deleteRecords deletes records of which some may be held or staged.
func (s *simulation) deleteRecords(partition string) error {
	below := int64(1 + s.rand.IntN(3))
	for _, in := range s.inputs {
		in.unknown = in.unknown || in.partition == partition && in.offset < below
	}
	return s.try("delete-records %s %d", partition, below)
}

// setBack has all workers leave and the group begin anew at an offset of a partition. What waits for transactions there is forgotten: they end without it.
func (s *simulation) setBack(partition string) error {
	for _, w := range s.workers {
		if w.staging != "" {
			if err := s.staged(w); err != nil {
				return err
			}
		}
		if err := s.try("leave workers %s", w.member); err != nil {
			return err
		}
		if s.connected(w) { // a leader forgets what it knows of the offsets with the connection of the last session
			if err := s.try("disconnect workers %s", w.member); err != nil {
				return err
			}
		}
		s.letGo(w)
		w.held, w.fresh = nil, true
	}
	if err := s.try("advance 1s"); err != nil { // a share coordinator that loads would leave the offset as it is
		return err
	}
	from := int64(s.rand.IntN(3))
	shown, err := s.run("alter-share-offsets workers %s=%d", partition, from)
	if err != nil {
		return err
	}
	if strings.Contains(shown, ": ok") {
		for _, in := range s.inputs {
			if in.partition != partition {
				continue
			}
			if in.committed {
				in.known++
			}
			in.lives++
			in.committed, in.rejected, in.unknown, in.deliveries = false, false, in.unknown || in.offset < from, 0
		}
		elsewhere := func(in *simulatedInput) bool { return in.partition == partition }
		for _, w := range s.workers {
			w.staged = slices.DeleteFunc(w.staged, elsewhere)
		}
		for _, z := range s.zombies {
			z.held, z.staged = slices.DeleteFunc(z.held, elsewhere), slices.DeleteFunc(z.staged, elsewhere)
		}
	}
	for _, w := range s.workers {
		if err := s.try("join workers %s orders once=yes", w.member); err != nil {
			return err
		}
	}
	return nil
}

func (s *simulation) unfault(name string) error {
	i := slices.Index(s.faults, name)
	if i < 0 {
		return nil
	}
	s.faults = slices.Delete(s.faults, i, i+1)
	return s.try("unfault %s", name)
}

// live is a node, or the one behind it where that is stopped.
func (s *simulation) live(node int32) int32 {
	if node == s.stopped {
		return 1 + node%3
	}
	return node
}

func (s *simulation) moveLeader(partition string) error {
	p, err := parsePartition(partition)
	if err != nil {
		return err
	}
	for _, t := range s.runner.world.target.cluster().InspectTopics() {
		if t.Name == p.topic {
			to := s.live(1 + t.Partitions[p.partition].Leader%3)
			if to == t.Partitions[p.partition].Leader {
				return nil
			}
			for _, in := range s.inputs {
				if in.partition == partition {
					in.holder = nil
				}
			}
			return s.try("move-leader %s %d", partition, to)
		}
	}
	return fmt.Errorf("there is no %s", partition)
}

func (s *simulation) restart() error {
	for _, w := range s.workers {
		if w.staging != "" {
			if err := s.staged(w); err != nil {
				return err
			}
		}
		s.letGo(w)
		w.fresh, w.dead = true, true
		w.held, w.staged, w.asked, w.retries = nil, nil, nil, ""
	}
	s.faults, s.zombies, s.stopped = nil, nil, 0
	return s.try("restart")
}
