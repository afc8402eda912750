package scenario

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol"
	"kshare/protocol/errorcode"
)

func init() {
	register(&command{
		name: "produce",
		usage: "produce PARTITION RECORD ... [count=N] [size=BYTES] [time=MS|-AGE] [codec=none|gzip|snappy|lz4|zstd] [acks=all|1|0] [producer=NAME] [sequence=N] [txn=yes] " +
			"[node=N] [version=N]",
		summary: "Appends records: value, key:value or key:null; a / begins a new batch, each in a request of its own. count=N repeats the last record with numbers, size fills values up. " +
			"With a producer the batches have its id, epoch and next sequence, with txn=yes they are of its transaction. time is ms since 1970, or an age like -2h.",
		example: `
topic orders
produce orders-0 a k:b k:null / c
produce orders-0 x count=3
read orders-0
----
orders: 1 partition
orders-0: offsets 0-2, 3
orders-0: offsets 4-6
orders-0: to 7
  0 a | 1 k:b | 2 k:null | 3 c | 4 x0 | 5 x1 | 6 x2
`,
		optionNames: []string{"count", "size", "time", "codec", "acks", "producer", "sequence", "txn", "node", "version"},
		least:       2, most: -1,
		check: func(c *call) error { _, err := parseProduce(c); return err },
		run:   produce,
	})
}

// produced is a produce command taken apart.
type produced struct {
	at       topicPartition
	batches  [][]recordText // as written
	count    int            // how often the last record is repeated, 0 for once and without a number
	size     int            // of values at least, bytes
	acks     int16
	codec    int8
	sequence int64 // -1 for the producer's next
	txn      bool
}

var codecs = []string{"none", "gzip", "snappy", "lz4", "zstd"}

// Bounds of what one produce makes.
const (
	maxProduced     = 100_000
	maxProducedSize = 64 << 20
	// maxProducedInAll bounds what all of a scenario make.
	maxProducedInAll = 512 << 20
)

func parseProduce(c *call) (p produced, err error) {
	if p.at, err = parsePartition(c.words[0]); err != nil {
		return p, err
	}
	if p.sequence, err = c.numberOption("sequence", -1, 0, 1<<31-1); err != nil {
		return p, err
	}
	if p.txn, err = c.flag("txn"); err != nil {
		return p, err
	}
	for _, option := range []string{"txn", "sequence"} {
		if _, of := c.options["producer"]; c.options[option] != "" && !of {
			return p, mistakef("%s= is that of a producer: name it with producer=NAME", option)
		}
	}
	if p.acks, err = acksOption(c); err != nil {
		return p, err
	}
	if name, ok := c.options["codec"]; ok {
		i := slices.Index(codecs, name)
		if i < 0 {
			return p, mistakef("codec=%s: one of %s", name, strings.Join(codecs, ", "))
		}
		p.codec = int8(i)
	}
	if _, err = recordTime(c, 0); err != nil {
		return p, err
	}
	return p, p.parseRecords(c)
}

func acksOption(c *call) (int16, error) {
	a, ok := c.options["acks"]
	if !ok || a == "all" {
		return -1, nil
	}
	n, err := number(a, -1<<15, 1<<15-1)
	return int16(n), err
}

// parseRecords reads the records, and refuses what would be too much of them before any is made.
func (p *produced) parseRecords(c *call) error {
	count, err := c.numberOption("count", 0, 1, maxProduced)
	if err != nil {
		return err
	}
	size, err := c.numberOption("size", 0, 0, maxProducedSize)
	if err != nil {
		return err
	}
	p.count, p.size = int(count), int(size)
	p.batches = [][]recordText{nil}
	for _, w := range c.words[1:] {
		last := &p.batches[len(p.batches)-1]
		if w != "/" {
			*last = append(*last, parseRecord(w))
		} else if len(*last) > 0 {
			p.batches = append(p.batches, nil)
		}
	}
	last := p.batches[len(p.batches)-1]
	if len(last) == 0 {
		return mistakef("a batch without records")
	}
	bytes := 0
	for _, b := range p.batches {
		for _, r := range b {
			bytes += p.bytes(r)
		}
	}
	bytes += max(0, p.count-1) * p.bytes(last[len(last)-1])
	if bytes > maxProducedSize {
		return mistakef("records of %d bytes; a produce may have %d", bytes, maxProducedSize)
	}
	return nil
}

// bytes is how large a record becomes, its number not counted.
func (p *produced) bytes(r recordText) int { return len(r.key) + max(len(r.value), p.size) }

// records are the records of each batch, with the last one repeated and the values filled up.
func (p *produced) records() [][]recordText {
	all := slices.Clone(p.batches)
	if last := &all[len(all)-1]; p.count > 0 {
		r := (*last)[len(*last)-1]
		*last = slices.Clone((*last)[:len(*last)-1])
		for i := range p.count {
			*last = append(*last, recordText{r.key, fmt.Appendf(nil, "%s%d", r.value, i)})
		}
	}
	for i, b := range all {
		all[i] = make([]recordText, len(b))
		for j, r := range b {
			if n := p.size - len(r.value); n > 0 && r.value != nil {
				r.value = slices.Concat(r.value, bytes.Repeat([]byte("."), n))
			}
			all[i][j] = r
		}
	}
	return all
}

// recordTime is the timestamp that the time option asks for, in ms, where now is the current one.
func recordTime(c *call, now int64) (int64, error) {
	t, ok := c.options["time"]
	if !ok {
		return now, nil
	}
	if age, is := strings.CutPrefix(t, "-"); is && t != "-1" {
		d, err := duration(age)
		if err != nil {
			return 0, mistakef("time=%s: %v", t, err)
		}
		return now - d.Milliseconds(), nil
	}
	n, err := number(t, -1, 1<<62)
	if err != nil {
		return 0, mistakef("time=%s: write ms since 1970, or an age like -2h", t)
	}
	return n, nil
}

func produce(s *step, c *call) error {
	p, err := parseProduce(c)
	if err != nil {
		return err
	}
	node, err := s.node(c, p.at)
	if err != nil {
		return err
	}
	client := s.as("producer")
	var by *producer
	if name, ok := c.options["producer"]; ok {
		if by, err = s.producer(name); err != nil {
			return err
		}
		client = name
	}
	batches := p.records()
	for _, records := range batches {
		for _, r := range records {
			s.produced += len(r.key) + len(r.value)
		}
	}
	if s.produced > s.maxProduced {
		return mistakef("the scenario has produced %d bytes; it may %d", s.produced, s.maxProduced)
	}
	var ranges []string
	for _, records := range batches {
		q := kmsg.NewPtrProduceRequest()
		if err := s.version(q, c); err != nil {
			return err
		}
		batch, err := s.batch(c, &p, records, by)
		if err != nil {
			return err
		}
		q.Acks, q.TimeoutMillis = p.acks, 30_000
		if by != nil && p.txn {
			q.TransactionID = by.transactionalID
		}
		t := kmsg.NewProduceRequestTopic()
		t.Topic = s.wire(p.at.topic)
		if q.Version >= 13 {
			if t.TopicID, err = s.topicID(p.at.topic); err != nil {
				return err
			}
		}
		x := kmsg.NewProduceRequestTopicPartition()
		x.Partition, x.Records = p.at.partition, batch
		t.Partitions = append(t.Partitions, x)
		q.Topics = append(q.Topics, t)
		if p.acks == 0 {
			if err := s.tell(client, node, q); err != nil {
				return err
			}
			ranges = append(ranges, "unanswered")
			continue
		}
		answer, err := ask[*kmsg.ProduceResponse](s, client, node, q)
		if err != nil {
			return err
		}
		for _, t := range answer.Topics {
			for _, r := range t.Partitions {
				if r.ErrorCode != errorcode.None {
					s.printf("%s: %s%s", p.at, failure(r.ErrorCode, r.ErrorMessage), leaderHint(r.ErrorCode, r.CurrentLeader.LeaderID, r.CurrentLeader.LeaderEpoch))
					return nil
				}
				if by != nil && p.sequence < 0 {
					by.next[p.at] += int32(len(records))
				}
				ranges = append(ranges, offsets(r.BaseOffset, r.BaseOffset+int64(len(records))-1))
			}
		}
	}
	switch {
	case p.acks == 0:
		s.printf("%s: not answered (acks=0)", p.at)
	case len(ranges) == 1 && !strings.Contains(ranges[0], "-"):
		s.printf("%s: offset %s", p.at, ranges[0])
	default:
		s.printf("%s: offsets %s", p.at, strings.Join(ranges, ", "))
	}
	return nil
}

// batch encodes the records of a batch.
func (s *step) batch(c *call, p *produced, records []recordText, by *producer) ([]byte, error) {
	b := protocol.NewBatchBuilder()
	b.Compression = protocol.DefaultCompression(p.codec)
	if by != nil {
		b.ProducerID, b.ProducerEpoch, b.BaseSequence = by.id, by.epoch, by.next[p.at]
		b.Transactional = p.txn
		if p.sequence >= 0 {
			b.BaseSequence = int32(p.sequence)
		}
	}
	if err := b.Reset(nil); err != nil {
		return nil, err
	}
	at, err := recordTime(c, s.target.now().UnixMilli())
	if err != nil {
		return nil, err
	}
	for _, r := range records {
		if err := b.Append(at, r.key, r.value); err != nil {
			return nil, err
		}
	}
	return b.Finish()
}
