package broker

import (
	"cmp"
	"slices"
	"time"

	"kshare/coordinator"
	"kshare/sharecoordinator"
	"kshare/sharepartition"
)

// Metrics are what Apache Kafka measures of share groups, as they stand at one moment, of all nodes together. What can be read off the state is read off
// it; counters begin at 0 with the cluster.
type Metrics struct {
	SharePartitions []SharePartitionMetrics // those that have state, in the order of group, topic and partition

	Acknowledged AcknowledgeCounts // in all share partitions, also those that are gone

	ShareSessions          int
	ShareSessionPartitions int   // of all share sessions together
	ShareSessionEvictions  int64 // share sessions that ended with their connections

	WaitingShareFetches int
	ExpiredShareFetches int64 // those that found nothing until MaxWaitMs had passed

	ShareStateWrites     int64 // calls of the share coordinator that write, and reads that raise a leader epoch
	ShareStatePartitions []ShareStatePartition

	DeadLetters map[string]DeadLetterCounters // by group

	At               time.Time // when they stood so
	OpenTransactions []OpenTransaction

	Groups               map[coordinator.GroupCount]int
	ShareGroupRebalances int64 // heartbeats that began a group epoch
}

// AcknowledgeCounts are numbers of records by acknowledge type, of acknowledgements that were successful. Gaps are not counted.
type AcknowledgeCounts [sharepartition.TypeRenew + 1]int64

func (a *AcknowledgeCounts) add(more *AcknowledgeCounts) {
	for t := range a {
		a[t] += more[t]
	}
}

// countAcknowledged counts the records of acknowledgements.
func countAcknowledged(acks []sharepartition.Acknowledgement) (n AcknowledgeCounts) {
	for i := range acks {
		if a := &acks[i]; len(a.Types) == 1 {
			n[a.Types[0]] += a.LastOffset - a.FirstOffset + 1
		} else {
			for _, t := range a.Types {
				n[t]++
			}
		}
	}
	n[sharepartition.TypeGap] = 0
	return n
}

// SharePartitionCounters are what has happened in a share partition, whoever led it.
type SharePartitionCounters struct {
	sharepartition.Counters
	Acquired     [sharepartition.MaxDeliveryCount + 1]int64 // records by the delivery count that they were acquired with
	Acknowledged AcknowledgeCounts
}

// DeadLetterCounters are what has happened to records on their way to a group's dead-letter queue.
type DeadLetterCounters struct {
	Records        int64 // written to the queue
	Produces       int64 // attempts to write a batch of them
	FailedProduces int64 // batches that were given up
}

// SharePartitionMetrics are the metrics of a share partition.
type SharePartitionMetrics struct {
	Group, Topic string
	Partition    int32

	SharePartitionCounters

	// Known tells whether the leader knows the share partition, which it forgets when no member fetches any more. The fields up to StartOffsetLag
	// are zero where it does not.
	Known           bool
	InFlight        int64 // offsets that count against the limit of record locks
	InFlightBatches int
	StartOffset     int64
	StartOffsetLag  int64 // from StartOffset to the high watermark

	Lag int64 // as DescribeShareGroupOffsets says: -1 where it is not known

	Staged int64 // records whose acknowledgements wait for the end of transactions, as they are persisted
}

// ShareStatePartition is a partition of __share_group_state.
type ShareStatePartition struct {
	Partition int32
	Loading   bool  // the share coordinator that leads it is reading it
	Failed    bool  // it cannot read it
	Led       bool  // it has a leader
	PrunedTo  int64 // the offset below which it was pruned, 0 where it never was
}

// shareCounters are what has happened to share groups and outlives what it has happened to.
type shareCounters struct {
	partitions      map[sharecoordinator.Key]*SharePartitionCounters
	acknowledged    AcknowledgeCounts
	evictedSessions int64
	expiredFetches  int64
	deadLetters     map[string]*DeadLetterCounters // by group
}

func newShareCounters() shareCounters {
	return shareCounters{partitions: map[sharecoordinator.Key]*SharePartitionCounters{}, deadLetters: map[string]*DeadLetterCounters{}}
}

// deadLettersOf returns the counters of a group's dead letters.
func (s *shareCounters) deadLettersOf(group string) *DeadLetterCounters {
	d := s.deadLetters[group]
	if d == nil {
		d = &DeadLetterCounters{}
		s.deadLetters[group] = d
	}
	return d
}

// of returns the counters of a share partition.
func (s *shareCounters) of(k sharecoordinator.Key) *SharePartitionCounters {
	p := s.partitions[k]
	if p == nil {
		p = &SharePartitionCounters{}
		s.partitions[k] = p
	}
	return p
}

// InspectMetrics returns the metrics. It takes a time that grows with the numbers of share partitions, sessions, waiting requests, groups and transactional ids, and not with
// the records in flight, unless acknowledgements in transactions are taken.
func (c *Cluster) InspectMetrics() *Metrics {
	c.mu.Lock()
	defer c.mu.Unlock()
	counted := &c.share.counters
	m := &Metrics{
		At:                    c.clock.Now(),
		OpenTransactions:      c.openTransactions(),
		Acknowledged:          counted.acknowledged,
		ShareSessionEvictions: counted.evictedSessions,
		ExpiredShareFetches:   counted.expiredFetches,
		WaitingShareFetches:   c.waitingShareFetches(),
		ShareStateWrites:      c.share.coordinator.Writes(),
		DeadLetters:           make(map[string]DeadLetterCounters, len(counted.deadLetters)),
		Groups:                c.groups.coordinator.Count(),
		ShareGroupRebalances:  c.groups.coordinator.ShareRebalances(),
	}
	for group, d := range counted.deadLetters {
		m.DeadLetters[group] = *d
	}
	for _, s := range c.share.sessions {
		m.ShareSessions += s.Len()
		m.ShareSessionPartitions += s.PartitionCount()
	}
	for k, state := range c.share.coordinator.States() {
		if t := c.topicsByID[k.Topic]; t != nil {
			if p := t.partition(k.Partition); p != nil {
				m.SharePartitions = append(m.SharePartitions, c.sharePartitionMetrics(k, p, state))
			}
		}
	}
	slices.SortFunc(m.SharePartitions, func(a, b SharePartitionMetrics) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	if t := c.topics[shareStateTopic]; t != nil {
		for _, p := range t.partitions {
			m.ShareStatePartitions = append(m.ShareStatePartitions, ShareStatePartition{
				Partition: p.index, Led: p.leader != noLeader, Loading: p.coordinator == coordinatorLoading, Failed: p.coordinator == coordinatorFailed, PrunedTo: p.log.StartOffset(),
			})
		}
	}
	return m
}

func (c *Cluster) sharePartitionMetrics(k sharecoordinator.Key, p *partition, persisted *sharecoordinator.State) SharePartitionMetrics {
	m := SharePartitionMetrics{Group: k.Group, Topic: p.topic.name, Partition: k.Partition, Lag: shareLag(persisted, p)}
	if c.apis.TxnShareAcknowledge() != nil {
		m.Staged = stagedIn(persisted)
	}
	if counters := c.share.counters.partitions[k]; counters != nil {
		m.SharePartitionCounters = *counters
	}
	if sp := p.shareGroups[k.Group]; sp != nil {
		m.Known = true
		m.InFlight, m.InFlightBatches = sp.state.InFlight(), sp.state.Batches()
		m.StartOffset = sp.state.StartOffset()
		m.StartOffsetLag = max(0, p.highWatermark()-m.StartOffset)
	}
	return m
}

// waitingShareFetches is the number of fetches that wait for records or for state to be read.
func (c *Cluster) waitingShareFetches() int {
	waiting := map[*shareWaiter]bool{}
	for _, t := range c.topics {
		for _, p := range t.partitions {
			for _, w := range p.shareLoads.list {
				waiting[w] = true
			}
			for _, sp := range p.shareGroups {
				for _, w := range sp.waiters.list {
					waiting[w] = true
				}
			}
		}
	}
	return len(waiting)
}
