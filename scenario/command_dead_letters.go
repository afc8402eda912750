package scenario

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol"
)

func init() {
	register(&command{
		name:  "dead-letters",
		usage: "dead-letters PARTITION [offset=0]",
		summary: "Reads a share group's dead-letter queue from an offset on: where each record comes from, which group gave it up after how many deliveries, and why, then the key and value that " +
			"were copied, or null. A record with other headers is shown as read shows it.",
		example: `
topic orders
topic dlq.orders errors.deadletterqueue.group.enable=true
config group workers share.auto.offset.reset=earliest errors.deadletterqueue.topic.name=dlq.orders
produce orders-0 a
join workers m1 orders
fetch workers m1
ack workers m1 orders-0 0=reject
dead-letters dlq.orders-0
----
orders: 1 partition
dlq.orders: 1 partition
workers: ok
orders-0: offset 0
m1: epoch 3, assigned orders-0
orders-0: acquired 0 count 1, lock 30s
  0 a
orders-0: ok
dlq.orders-0: to 1
  0  orders-0 0  of workers, count 1: Offset rejected by client.  null
`,
		optionNames: []string{"offset"},
		least:       1, most: 1,
		check: func(c *call) error { _, err := parsePartition(c.words[0]); return err },
		run:   readDeadLetters,
	})
}

func readDeadLetters(s *step, c *call) error {
	at, err := parsePartition(c.words[0])
	if err != nil {
		return err
	}
	return s.readPartition(c, at, 0, func(p *kmsg.FetchResponseTopicPartition, offset int64) { s.showDeadLetters(at, offset, p) })
}

func (s *step) showDeadLetters(at topicPartition, offset int64, p *kmsg.FetchResponseTopicPartition) {
	if p.ErrorCode != 0 {
		s.printf("%s: %s", at, failure(p.ErrorCode, nil))
		return
	}
	s.printf("%s: to %d", at, p.HighWatermark)
	records, err := decodeRecords(p.RecordBatches)
	for i := range records {
		r := &records[i]
		if r.offset < offset {
			continue
		}
		if h, ok := deadLetterHeaders(r.headers); ok {
			s.printf("  %d  %s-%s %s  of %s, count %s: %s  %s", r.offset, h[0], h[1], h[2], h[3], h[4], h[5], r.content)
		} else {
			s.printf("  %d  %s", r.offset, r.text)
		}
	}
	if err != nil {
		s.printf("  records that cannot be read: %v", err)
	}
}

// deadLetterNames are the headers of a record in a dead-letter queue, in their order (KIP-1191).
var deadLetterNames = [6]string{"__dlq.errors.topic", "__dlq.errors.partition", "__dlq.errors.offset", "__dlq.errors.group", "__dlq.errors.delivery.count", "__dlq.errors.message"}

// deadLetterHeaders are the values of the headers of a record in a dead-letter queue, false where it has others.
func deadLetterHeaders(headers []protocol.Header) (values [6]string, ok bool) {
	if len(headers) != len(values) {
		return values, false
	}
	for i, h := range headers {
		if string(h.Key) != deadLetterNames[i] || h.Value == nil {
			return values, false
		}
		values[i] = string(h.Value)
	}
	return values, true
}
