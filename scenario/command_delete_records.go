package scenario

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

func init() {
	register(&command{
		name:    "delete-records",
		usage:   "delete-records PARTITION OFFSET",
		summary: "Deletes the records below an offset; -1 deletes all.",
		example: `
topic orders
produce orders-0 a b c
delete-records orders-0 2
delete-records orders-0 9
----
orders: 1 partition
orders-0: offsets 0-2
orders-0: log starts at 2
orders-0: OFFSET_OUT_OF_RANGE (1)
`,
		least: 2, most: 2,
		check: func(c *call) error { _, _, err := partitionAndOffset(c); return err },
		run: func(s *step, c *call) error {
			at, offset, err := partitionAndOffset(c)
			if err != nil {
				return err
			}
			node, err := s.leader(at)
			if err != nil {
				return err
			}
			q := kmsg.NewPtrDeleteRecordsRequest()
			q.TimeoutMillis = 30_000
			q.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: s.wire(at.topic), Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Partition: at.partition, Offset: offset}}}}
			p, err := request[*kmsg.DeleteRecordsResponse](s, s.as(admin), node, q)
			if err != nil {
				return err
			}
			for _, t := range p.Topics {
				for _, x := range t.Partitions {
					if x.ErrorCode != 0 {
						s.printf("%s: %s", at, failure(x.ErrorCode, nil))
					} else {
						s.printf("%s: log starts at %d", at, x.LowWatermark)
					}
				}
			}
			return nil
		},
	})
}

func partitionAndOffset(c *call) (topicPartition, int64, error) {
	at, err := parsePartition(c.words[0])
	if err != nil {
		return at, 0, err
	}
	offset, err := number(c.words[1], -1<<63, 1<<63-1)
	return at, offset, err
}
