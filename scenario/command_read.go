package scenario

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func init() {
	register(&command{
		name:  "read",
		usage: "read PARTITION [offset=0] [wait=500ms] [min=1] [max=BYTES] [isolation=read_committed] [times=yes] [epoch=N] [node=N] [version=N]",
		summary: "Reads records as a plain consumer (Fetch without a session) from an offset to the high watermark, the first answer only. epoch is the leader epoch that the client believes in. " +
			"times=yes shows timestamps, as ages before now.",
		example: `
topic orders
produce orders-0 a b
read orders-0 offset=1
read orders-0 offset=9
----
orders: 1 partition
orders-0: offsets 0-1
orders-0: to 2
  1 b
orders-0: OFFSET_OUT_OF_RANGE (1)
`,
		optionNames: []string{"offset", "wait", "min", "max", "isolation", "times", "epoch", "node", "version"},
		least:       1, most: 1, waits: true,
		check: func(c *call) error {
			if _, err := c.isolation(); err != nil {
				return err
			}
			_, err := parsePartition(c.words[0])
			return err
		},
		run: read,
	})
}

func read(s *step, c *call) error {
	at, err := parsePartition(c.words[0])
	if err != nil {
		return err
	}
	times, err := c.flag("times")
	if err != nil {
		return err
	}
	return s.readPartition(c, at, 500*time.Millisecond, func(p *kmsg.FetchResponseTopicPartition, offset int64) { s.showRead(at, offset, p, times) })
}

// readPartition reads one partition as the options say, waiting so long unless they do, and has the answer shown with the offset that was read from.
func (s *step) readPartition(c *call, at topicPartition, wait time.Duration, show func(p *kmsg.FetchResponseTopicPartition, offset int64)) error {
	q := kmsg.NewPtrFetchRequest()
	if err := s.version(q, c); err != nil {
		return err
	}
	offset, err := s.fillRead(q, c, at, wait)
	if err != nil {
		return err
	}
	node, err := s.node(c, at)
	if err != nil {
		return err
	}
	p, err := ask[*kmsg.FetchResponse](s, s.as("consumer"), node, q)
	if err != nil {
		return err
	}
	if p.ErrorCode != 0 {
		s.printf("%s", failure(p.ErrorCode, nil))
	}
	for _, t := range p.Topics {
		for i := range t.Partitions {
			show(&t.Partitions[i], offset)
		}
	}
	return nil
}

// fillRead fills in a Fetch of one partition, which waits so long unless an option says otherwise, and returns the offset that it reads from.
func (s *step) fillRead(q *kmsg.FetchRequest, c *call, at topicPartition, usualWait time.Duration) (offset int64, err error) {
	if offset, err = c.numberOption("offset", 0, -1<<63, 1<<63-1); err != nil {
		return 0, err
	}
	wait, err := c.durationOption("wait", usualWait)
	if err != nil {
		return 0, err
	}
	least, err := c.numberOption("min", 1, -1<<31, 1<<31-1)
	if err != nil {
		return 0, err
	}
	most, err := c.numberOption("max", 50<<20, -1<<31, 1<<31-1)
	if err != nil {
		return 0, err
	}
	epoch, err := c.numberOption("epoch", -1, -1<<31, 1<<31-1)
	if err != nil {
		return 0, err
	}
	q.ReplicaID, q.MaxWaitMillis, q.MinBytes, q.MaxBytes, q.SessionEpoch = -1, int32(wait.Milliseconds()), int32(least), int32(most), -1
	if q.IsolationLevel, err = c.isolation(); err != nil {
		return 0, err
	}
	t := kmsg.NewFetchRequestTopic()
	t.Topic = s.wire(at.topic)
	if q.Version >= 13 {
		if t.TopicID, err = s.topicID(at.topic); err != nil {
			return 0, err
		}
	}
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes, p.CurrentLeaderEpoch = at.partition, offset, int32(most), int32(epoch)
	t.Partitions = append(t.Partitions, p)
	q.Topics = append(q.Topics, t)
	return offset, nil
}

func (s *step) showRead(at topicPartition, offset int64, p *kmsg.FetchResponseTopicPartition, times bool) {
	if p.ErrorCode != 0 {
		s.printf("%s: %s%s", at, failure(p.ErrorCode, nil), leaderHint(p.ErrorCode, p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch))
		return
	}
	text := fmt.Sprintf("%s: to %d", at, p.HighWatermark)
	if p.LastStableOffset >= 0 && p.LastStableOffset != p.HighWatermark {
		text += fmt.Sprintf(", stable to %d", p.LastStableOffset)
	}
	if p.LogStartOffset > 0 {
		text += fmt.Sprintf(", log starts at %d", p.LogStartOffset)
	}
	var aborted []string
	for _, a := range p.AbortedTransactions {
		aborted = append(aborted, fmt.Sprintf("%s from %d", s.producerName(a.ProducerID), a.FirstOffset))
	}
	if len(aborted) > 0 {
		text += "; aborted: " + strings.Join(aborted, ", ")
	}
	s.printf("%s", text)
	records, err := decodeRecords(p.RecordBatches)
	records = slices.DeleteFunc(records, func(r shownRecord) bool { return r.offset < offset })
	if times {
		for i := range records {
			records[i].text += " @" + s.age(records[i].timestamp)
		}
	}
	if len(records) > 0 {
		s.printf("  %s", showRecords(records))
	}
	if err != nil {
		s.printf("  records that cannot be read: %v", err)
	}
}

// age is how long before now a timestamp in ms lies, in the steps that times are shown in.
func (s *step) age(timestamp int64) string {
	if timestamp < 0 {
		return "none"
	}
	return "-" + show(s.target.now().Sub(time.UnixMilli(timestamp)).Round(rounding))
}
