package broker

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/deadletter"
	"kshare/logvalidator"
	"kshare/protocol/errorcode"
	"kshare/sharepartition"
)

// The dead-letter queue of share groups (KIP-1191; ShareGroupDLQStateManager, SharePartition.initiateDLQAndArchive).
//
// A record that is rejected, or whose last delivery ends, is ARCHIVING from then on: that is persisted, what the client sent is answered, the record is
// written to the queue, and then it is ARCHIVED and that persisted. A record that cannot be written is ARCHIVED all the same, and lost. Whether a group
// has a queue is looked at twice, when the record becomes ARCHIVING and when it is written, because everything about it may change meanwhile.

const (
	deadLetterShareVersion = 2 // the level of share.version that brings dead-letter queues

	deadLetterTopicKey = "errors.deadletterqueue.topic.name"

	deadLetterAttempts = 5               // to make the queue's topic, and again to write one batch
	deadLetterBackoff  = 2 * time.Second // before the second attempt, doubled before each further one; Apache Kafka's is up to a fifth more or less
	deadLetterRead     = 1 << 20         // bytes of source batches that are read at once

	// deadLetterDelay is how long a record takes to the queue with timing=kafka, where the answer to the client does not wait for it.
	deadLetterDelay = 10 * time.Millisecond
)

// deadLetters are records of a share partition on their way to the queue of the group. They go on if the leader forgets the share partition meanwhile, but end
// with the node: who leads the share partition next finds them ARCHIVING and begins anew.
type deadLetters struct {
	deadletter.Letters
	sp          *sharePartition
	leader      *node
	leaderEpoch int32
	stopped     <-chan struct{}

	next     int64              // the first that is not in the queue yet
	copies   *deadletter.Copies // for the batch under way, nil where they have not been looked up
	creating int                // attempts to make the topic
	writing  int                // attempts to write the batch under way
}

// sendDeadLetters writes records to the group's queue whose state is persisted as ARCHIVING by their leader in an epoch.
func (sp *sharePartition) sendDeadLetters(archiving []sharepartition.StateBatch, leader *node, leaderEpoch int32) {
	all := make([]*deadLetters, len(archiving))
	for i, b := range archiving {
		message := deadletter.Rejected
		if b.Reason == sharepartition.ReasonExceeded {
			message = deadletter.Exceeded
		}
		all[i] = &deadLetters{
			Letters: deadletter.Letters{
				Group: sp.group, Topic: sp.partition.topic.name, Partition: sp.partition.index,
				FirstOffset: b.FirstOffset, LastOffset: b.LastOffset, DeliveryCount: b.DeliveryCount, Message: message,
			},
			sp: sp, leader: leader, leaderEpoch: leaderEpoch, stopped: leader.stopped, next: b.FirstOffset,
		}
	}
	c := sp.partition.cluster
	for _, d := range all {
		if err := c.checkDeadLetterTopic(d.Group); err != nil {
			d.end(err)
		} else if c.timing == TimingKafka {
			c.after(deadLetterDelay, d.send)
		} else {
			d.send()
		}
	}
}

// deadLetterTopic is the name of a group's queue, "" where it has none.
func (c *Cluster) deadLetterTopic(group string) string {
	return c.groupValues(group).String(deadLetterTopicKey)
}

// checkDeadLetterTopic says why nothing can be written to a group's queue as things are configured (validateDlqTopic).
func (c *Cluster) checkDeadLetterTopic(group string) error {
	name, broker := c.deadLetterTopic(group), c.brokerValues()
	t := c.topics[name]
	switch prefix := broker.String("errors.deadletterqueue.topic.name.prefix"); {
	case name == "":
		return errors.New("the group names no topic: " + deadLetterTopicKey + " is empty")
	case strings.HasPrefix(name, "__"):
		return fmt.Errorf("the topic %s is an internal one by its name", name)
	case t != nil && !t.config.deadLetters:
		return fmt.Errorf("the topic %s is not made for it: errors.deadletterqueue.group.enable is false", name)
	case t == nil && !broker.Bool("errors.deadletterqueue.auto.create.topics.enable"):
		return fmt.Errorf("the topic %s does not exist and errors.deadletterqueue.auto.create.topics.enable is false", name)
	case !strings.HasPrefix(name, prefix):
		return fmt.Errorf("the topic %s does not begin with %q: errors.deadletterqueue.topic.name.prefix", name, prefix)
	}
	return nil
}

// errLater says that something is tried again after a while.
var errLater = errors.New("it is not there")

// send writes what is left to the queue, or as much as can be written now.
func (d *deadLetters) send() {
	select {
	case <-d.stopped:
		return
	default:
	}
	c := d.sp.partition.cluster
	for d.next <= d.LastOffset {
		if err := c.checkDeadLetterTopic(d.Group); err != nil {
			d.end(err)
			return
		}
		to, err := d.destination()
		if err == nil {
			err = d.write(to)
		}
		if err == nil {
			continue
		}
		if errors.Is(err, errLater) {
			attempts := &d.writing
			if to == nil {
				attempts = &d.creating
			}
			if *attempts++; *attempts < deadLetterAttempts {
				c.after(deadLetterBackoff<<(*attempts-1), d.send)
				return
			}
			err = fmt.Errorf("%w after %d attempts", err, *attempts)
		}
		if to != nil {
			c.share.counters.deadLettersOf(d.Group).FailedProduces++
		}
		d.end(err)
		return
	}
	d.end(nil)
}

// destination is the partition of the queue that the records go to. The queue's topic is made if there is none.
func (d *deadLetters) destination() (*partition, error) {
	c := d.sp.partition.cluster
	name := c.deadLetterTopic(d.Group)
	t := c.topics[name]
	if t == nil {
		asked := kmsg.NewCreateTopicsRequestTopic()
		asked.Topic, asked.NumPartitions, asked.ReplicationFactor = name, -1, -1
		for _, set := range [][2]string{{"errors.deadletterqueue.group.enable", "true"}, {"message.timestamp.type", "CreateTime"}} {
			config := kmsg.NewCreateTopicsRequestTopicConfig()
			config.Name, config.Value = set[0], &set[1]
			asked.Configs = append(asked.Configs, config)
		}
		entry := newCreatedTopic(name)
		if no := c.createTopic(&asked, c.collidingTopic(name), false, &entry); no != nil {
			return nil, fmt.Errorf("the topic %s could not be made: %s: %s", name, errorcode.Name(no.code), no.message)
		}
		t = c.topics[name]
	}
	p := t.partition(d.Partition % int32(len(t.partitions)))
	if p.leader == noLeader {
		return nil, fmt.Errorf("%w: %s has no leader", errLater, p)
	}
	d.creating = 0
	return p, nil
}

// write writes the next batch to a partition of the queue, as a Produce with acks=all does.
func (d *deadLetters) write(to *partition) error {
	c, leader := to.cluster, to.cluster.node(to.leader)
	counters := c.share.counters.deadLettersOf(d.Group)
	counters.Produces++
	if leader != d.leader && (leader.gate.isShut() || d.leader.gate.isShut()) {
		return fmt.Errorf("%w: node %d, the leader of %s, cannot be reached", errLater, leader.id, to)
	}
	params := to.topic.config.params
	params.Partition, params.Version, params.NowMs = to.index, latestProduceVersion, c.now()
	if d.copies == nil {
		d.copies = d.lookUp(int(params.MaxMessageBytes))
	}
	batch, last, err := d.Batch(c.share.builder, d.next, params.NowMs, int(params.MaxMessageBytes), d.copies)
	if err != nil {
		return err
	}
	result, no := logvalidator.Validate(batch, &params)
	switch {
	case len(to.isr) < to.minISR():
		return fmt.Errorf("%s: %s", to, errorcode.Name(errorcode.NotEnoughReplicas))
	case no != nil:
		return fmt.Errorf("%s: %s: %s", to, errorcode.Name(no.Code), no.Message)
	}
	if _, err := to.append(&result.Header, result.Batch); err != nil {
		return err
	}
	counters.Records += last - d.next + 1
	d.next, d.copies, d.writing = last+1, nil, 0
	return nil
}

// lookUp reads what is copied of the records that are left, at most maxBytes of it.
func (d *deadLetters) lookUp(maxBytes int) *deadletter.Copies {
	source := d.sp.partition
	c := source.cluster
	if source.gone || !c.groupValues(d.Group).Bool("errors.deadletterqueue.copy.record.enable") {
		return deadletter.NoCopies()
	}
	copies, err := deadletter.Copy(d.next, d.LastOffset, maxBytes, func(offset int64) ([][]byte, error) {
		return source.log.Read(offset, source.highWatermark(), deadLetterRead, true)
	})
	if err != nil {
		c.log.Warn("records go to the dead-letter queue without their contents, which cannot be read", "group", d.Group, "partition", source, "from", d.next, "error", err)
	}
	return copies
}

// end archives the records, whether they are in the queue or could not be written.
func (d *deadLetters) end(failed error) {
	sp := d.sp
	log := sp.partition.cluster.log.With("group", d.Group, "partition", sp.partition, "first", d.FirstOffset, "last", d.LastOffset)
	if failed != nil {
		log.Error("records could not be written to the dead-letter queue and are archived without", "from", d.next, "error", failed)
	}
	before := sp.state.StartOffset()
	w := sp.state.CompleteArchiving(d.FirstOffset, d.LastOffset)
	sp.tell(ActionArchived, nil)
	if !sp.forgotten() {
		sp.persist(w, nil)
		sp.settled(before)
		return
	}
	if w.ID == 0 {
		return
	}
	if code, message := sp.write(d.leader, d.leaderEpoch, &w, nil); code != errorcode.None {
		log.Error("that records are archived could not be persisted by a leader that has forgotten them", "code", errorcode.Name(code), "message", message)
	}
}
