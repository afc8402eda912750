package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol"
)

// hostile starts a server for strangers and a client of good manners that must not notice them. The function returned checks that it does not.
func hostile(t *testing.T, args ...string) (s *server, undisturbed func()) {
	t.Helper()
	s = serving(t, with(append([]string{"--topic", "orders", "--log-level", "debug"}, args...)...)...)
	client, err := kgo.NewClient(kgo.SeedBrokers(s.addrs...), kgo.ConsumeTopics("orders"), kgo.ConsumerGroup("good"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	require.NoError(t, err)
	t.Cleanup(client.Close)
	n := 0
	undisturbed = func() {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		value := strconv.Itoa(n)
		n++
		require.NoError(t, client.ProduceSync(ctx, &kgo.Record{Topic: "orders", Value: []byte(value)}).FirstErr())
		for {
			fetches := client.PollFetches(ctx)
			require.NoError(t, fetches.Err())
			if records := fetches.Records(); len(records) > 0 && string(records[len(records)-1].Value) == value {
				break
			}
		}
		require.NoError(t, client.CommitUncommittedOffsets(ctx))
	}
	undisturbed()
	return s, undisturbed
}

// memory is what the server takes and has taken at most, in bytes.
func (s *server) memory(t *testing.T) (now, peak int) {
	t.Helper()
	if runtime.GOOS != "linux" || !figures {
		return 0, 0
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	require.NoError(t, err)
	for line := range strings.Lines(string(status)) {
		for name, to := range map[string]*int{"VmRSS:": &now, "VmHWM:": &peak} {
			if rest, ok := strings.CutPrefix(line, name); ok {
				kb, err := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(rest, "kB\n")))
				require.NoError(t, err)
				*to = kb << 10
			}
		}
	}
	return now, peak
}

func (s *server) dial(t *testing.T) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", s.addrs[0])
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(2*time.Minute)))
	return c
}

// frame is a request as it goes over the wire.
func frame(q kmsg.Request) []byte {
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("stranger")).AppendRequest(nil, q, 7)
}

// sized puts the length in front of the body of a frame.
func sized(body []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

// header is a request header without tags.
func header(key, version int16) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(key))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	b = binary.BigEndian.AppendUint32(b, 7)
	return append(b, 0, 1, 'x')
}

// answerTo sends bytes and returns the body of the answer behind its correlation id, nil where the connection was closed instead.
func (s *server) answerTo(t *testing.T, b []byte) []byte {
	t.Helper()
	c := s.dial(t)
	go c.Write(b) // the server may close before it has read everything
	var size [4]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "neither answered nor closed")
		return nil
	}
	body := make([]byte, binary.BigEndian.Uint32(size[:]))
	_, err := io.ReadFull(c, body)
	require.NoError(t, err)
	require.EqualValues(t, 7, binary.BigEndian.Uint32(body))
	return body[4:]
}

// What no client of Kafka would send ends the connection that it came on, and no other.
func TestHostileFrames(t *testing.T) {
	t.Parallel()
	s, undisturbed := hostile(t, "--kip1289")
	flexible := func(key, version int16, body ...byte) []byte {
		return sized(append(append(header(key, version), 0), body...))
	}
	garbage := make([]byte, 1<<16)
	rng := rand.NewChaCha8([32]byte{1})
	_, _ = rng.Read(garbage)
	truncated := frame(fetch(0, 0, 1))
	truncated = sized(truncated[4 : len(truncated)-9])
	for name, b := range map[string][]byte{
		"NegativeLength":          {0xff, 0xff, 0xff, 0xff},
		"MostNegativeLength":      {0x80, 0, 0, 0},
		"LongestLength":           {0x7f, 0xff, 0xff, 0xff},
		"OneByteTooLong":          binary.BigEndian.AppendUint32(nil, 100<<20+1),
		"Empty":                   {0, 0, 0, 0},
		"HalfAHeader":             sized([]byte{0, 18, 0, 3, 0}),
		"Garbage":                 garbage,
		"SizedGarbage":            sized(garbage),
		"HTTP":                    []byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
		"TLS":                     {0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3},
		"UnknownKey":              sized(header(999, 0)),
		"NegativeKey":             sized(header(-1, 0)),
		"ControllerKey":           sized(header(52, 0)), // Vote
		"UnknownVersion":          sized(header(3, 99)),
		"NegativeVersion":         sized(header(3, -1)),
		"ClientIDTooLong":         sized([]byte{0, 3, 0, 1, 0, 0, 0, 7, 0x7f, 0xff, 'x'}),
		"Truncated":               truncated,
		"HugeArray":               sized(append(header(3, 8), 0x7f, 0xff, 0xff, 0xff)),
		"HugeCompactArray":        flexible(3, 9, 0xff, 0xff, 0xff, 0xff, 0x0f),
		"OverlongVarint":          flexible(3, 9, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff),
		"HugeTags":                sized(append(header(3, 9), 0xff, 0xff, 0xff, 0xff, 0x0f)),
		"HugeTag":                 sized(append(header(3, 9), 1, 0, 0xff, 0xff, 0xff, 0xff, 0x07)),
		"HugeRecords":             sized(append(header(0, 8), 0xff, 0xff, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 'o', 0, 0, 0, 1, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff)),
		"HugeSubscription":        sized(append(header(11, 5), 0, 1, 'g', 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0xff, 0xff, 0, 1, 'c', 0x7f, 0xff, 0xff, 0xff)),
		"HugeNestedArray":         sized(append(header(1, 11), 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1, 0, 1, 'o', 0x7f, 0xff, 0xff, 0xff)),
		"HugeAcknowledgeTypes":    flexible(79, 1, 2, 'g', 2, 'm', 0, 0, 0, 1, 2, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 2, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0x0f),
		"HugeTxnAcknowledgements": flexible(95, 0, 2, 't', 2, 'g', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 'm', 0, 0, 0, 0, 2, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 2, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f),
		"HugeTxnAcknowledgeTypes": flexible(95, 0, 2, 't', 2, 'g', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 'm', 0, 0, 0, 0, 2, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 2, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0x0f),
		"NegativeArrayInCommit":   sized(append(header(8, 2), 0, 1, 'g', 0xff, 0xff, 0xff, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xf0, 1)),
	} {
		t.Run(name, func(t *testing.T) {
			if name == "NegativeArrayInCommit" {
				s.answerTo(t, b) // a null list: an empty answer, as Kafka's
				return
			}
			require.Nil(t, s.answerTo(t, b), "the connection is closed")
		})
	}
	undisturbed()

	// A version of ApiVersions that nobody knows is answered, so that the client can choose another.
	body := s.answerTo(t, sized(append(header(18, 99), 0)))
	require.EqualValues(t, 35, binary.BigEndian.Uint16(body))

	// What comes before the garbage is answered, in order.
	c := s.dial(t)
	_, err := c.Write(append(append(frame(fetch(0, 0, 0)), frame(fetch(0, 0, 0))...), garbage...))
	require.NoError(t, err)
	receive(t, c)
	receive(t, c)
	_, err = c.Read(make([]byte, 1))
	require.Error(t, err)

	undisturbed()
	s.stop(t, syscall.SIGTERM)
}

// Any request of a client, with bytes of it changed, cut out or put in, is answered or ends its connection.
func TestMutatedRequests(t *testing.T) {
	t.Parallel()
	s, undisturbed := hostile(t, "--kip1289")
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for key := range protocol.TxnShareAcknowledgeKey + 1 {
		q := (&protocol.API{Key: key}).NewRequest(0)
		if key == protocol.TxnShareAcknowledgeKey {
			q = transactionalAcks()
		}
		if q == nil {
			continue
		}
		for range 40 {
			q.SetVersion(int16(rng.IntN(int(q.MaxVersion()) + 1)))
			b := frame(q)[4:]
			for range 1 + rng.IntN(4) {
				if len(b) < 10 {
					break
				}
				at := 8 + rng.IntN(len(b)-8)
				switch rng.IntN(4) {
				case 0:
					b[at] = byte(rng.Uint32())
				case 1:
					b[at] = []byte{0, 1, 0x7f, 0x80, 0xff}[rng.IntN(5)]
				case 2:
					b = append(b[:at], append(bytes.Repeat([]byte{byte(rng.Uint32())}, 1+rng.IntN(20)), b[at:]...)...)
				case 3:
					b = b[:max(at, 10)]
				}
			}
			c := s.dial(t)
			_, err := c.Write(append(sized(b), frame(kmsg.NewPtrApiVersionsRequest())...))
			require.NoError(t, err)
			require.NoError(t, c.(*net.TCPConn).CloseWrite())
			_, err = io.Copy(io.Discard, c)
			require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "key %d: neither answered nor closed: %x", key, b)
			require.NoError(t, c.Close())
		}
	}
	undisturbed()
	_, peak := s.memory(t)
	require.Less(t, peak, 256<<20)
	s.stop(t, syscall.SIGTERM)
}

// transactionalAcks is a TxnShareAcknowledge with every list in it.
func transactionalAcks() *protocol.TxnShareAcknowledgeRequest {
	id := "payments"
	return &protocol.TxnShareAcknowledgeRequest{TransactionalID: &id, GroupID: "g", MemberID: "m", Topics: []protocol.TxnShareAcknowledgeTopic{{
		Partitions: []protocol.TxnShareAcknowledgePartition{{AcknowledgementBatches: []protocol.TxnShareAcknowledgeBatch{{LastOffset: 9, AcknowledgeTypes: []int8{1}}}}},
	}}}
}

// Batches that are not what they say are refused with Kafka's code, and their connection goes on.
func TestHostileBatches(t *testing.T) {
	t.Parallel()
	s, undisturbed := hostile(t)
	good := batch(t)
	changed := func(at int, b byte) []byte {
		changed := bytes.Clone(good)
		changed[at] ^= b
		return changed
	}
	resealed := func(b []byte) []byte { // with the right checksum
		binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
		return b
	}
	count := bytes.Clone(good)
	binary.BigEndian.PutUint32(count[57:], 1<<31-1)
	binary.BigEndian.PutUint32(count[23:], 1<<31-2)
	length := bytes.Clone(good)
	binary.BigEndian.PutUint32(length[8:], 1<<31-1)
	for _, c := range []struct {
		name    string
		records []byte
		code    int16
	}{
		{"Good", good, 0},
		{"Checksum", changed(len(good)-1, 1), 2},
		{"Magic0", changed(16, 2), 87},
		{"Magic9", changed(16, 2^9), 2},
		{"ManyRecords", resealed(count), 87},
		{"Length", length, 87},
		{"Cut", good[:len(good)-3], 87},
		{"Short", good[:20], 87},
		{"Codec7", resealed(changed(22, 7)), -1},
		{"NotGzip", resealed(changed(22, 1)), -1},
		{"Garbage", bytes.Repeat([]byte{0xa5}, 500), 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			body := s.answerTo(t, frame(produce(c.records)))
			require.NotNil(t, body)
			p := kmsg.NewPtrProduceResponse()
			p.Version = 8
			require.NoError(t, p.ReadFrom(body))
			require.Equal(t, c.code, p.Topics[0].Partitions[0].ErrorCode)
		})
	}
	undisturbed()
	s.stop(t, syscall.SIGTERM)
}

func batch(t *testing.T) []byte {
	t.Helper()
	record := []byte{0, 0, 0, 1, 10, 'v', 'a', 'l', 'u', 'e', 0} // attributes, deltas, null key, value, no headers
	record = append([]byte{byte(len(record)) << 1}, record...)
	b := kmsg.RecordBatch{Magic: 2, FirstTimestamp: time.Now().UnixMilli(), ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: 1, Records: record}
	b.MaxTimestamp = b.FirstTimestamp
	b.Length = int32(49 + len(record))
	raw := b.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	return raw
}

func produce(records []byte) kmsg.Request {
	partition := kmsg.NewProduceRequestTopicPartition()
	partition.Records = records
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic, topic.Partitions = "orders", []kmsg.ProduceRequestTopicPartition{partition}
	q := kmsg.NewPtrProduceRequest()
	q.Version, q.Acks, q.TimeoutMillis = 8, -1, 1000
	q.Topics = append(q.Topics, topic)
	return q
}

// Lengths that are announced and never sent cost nothing.
func TestAnnouncedLengths(t *testing.T) {
	t.Parallel()
	s, undisturbed := hostile(t)
	for range 300 {
		c := s.dial(t)
		_, err := c.Write(append(binary.BigEndian.AppendUint32(nil, 100<<20), header(0, 8)...))
		require.NoError(t, err)
	}
	undisturbed()
	_, peak := s.memory(t)
	require.Less(t, peak, 500<<20, "300 times 100 MiB were announced")
	s.stop(t, syscall.SIGTERM)
}

// A frame whose bytes are all elements of lists must not take many times its length in memory: a Produce of 100 MiB, another of 4 MiB.
func TestManyElements(t *testing.T) {
	s, undisturbed := hostile(t)
	fill := func(size int, prefix []byte, pattern ...byte) []byte {
		b := append(binary.BigEndian.AppendUint32(nil, uint32(size)), prefix...)
		b = append(b, bytes.Repeat(pattern, (size+4-len(b))/len(pattern))...)
		return append(b, make([]byte, size+4-len(b))...)
	}
	compact := func(n int) []byte { return binary.AppendUvarint(nil, uint64(n+1)) }
	const largest, other = 100 << 20, 4 << 20
	for name, b := range map[string][]byte{
		"Produce":           fill(largest, append(append(header(0, 9), 0, 0, 0, 1, 0, 0, 0, 1), compact(largest/3-100)...), 1, 1, 0),
		"ProducePartitions": fill(largest, append(append(header(0, 9), 0, 0, 0, 1, 0, 0, 0, 1, 2, 1), compact(largest/6-100)...), 0, 0, 0, 0, 1, 0),
		"ProduceFew":        fill(largest, append(header(0, 8), 0xff, 0xff, 0, 1, 0, 0, 0, 1, 0, 0x4f, 0xff, 0xff), 0, 0, 0, 0, 0, 0),
		"MetadataTooLong":   fill(largest, append(append(header(3, 9), 0), compact(largest/2-100)...), 1, 0),
		"Metadata":          fill(other, append(append(header(3, 9), 0), compact(other/2-100)...), 1, 0),
		"MetadataNames":     fill(other, append(append(header(3, 9), 0), compact(other/4-100)...), 3, 'o', 'x', 0),
		"MetadataOld":       fill(other, append(header(3, 8), 0, 0x1f, 0xff, 0xff), 0, 0),
		"CreateTopics":      fill(other, append(append(header(19, 7), 0), compact(other/11-100)...), 1, 0, 0, 0, 1, 0, 1, 1, 1, 0, 0),
		"DescribeConfigs":   fill(other, append(append(header(32, 4), 0), compact(other/4-100)...), 2, 1, 1, 0),
		"OffsetCommit":      fill(other, append(append(header(8, 8), 0, 2, 'g', 0, 0, 0, 0, 1, 0), compact(other/3-100)...), 1, 1, 0),
		"ShareAcknowledge":  fill(other, append(append(header(79, 1), 0, 2, 'g', 2, 'm', 0, 0, 0, 1), compact(other/18-100)...), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0),
		"ListGroups":        fill(other, append(append(header(16, 5), 0), compact(other-200)...), 1),
		"DescribeGroups":    fill(other, append(append(header(15, 5), 0), compact(other-200)...), 1),
		"Fetch":             fill(other, append(append(header(1, 12), 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff), compact(other/3-100)...), 1, 1, 0),
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			done := make(chan struct{})
			go func() {
				defer close(done)
				c := s.dial(t)
				go c.Write(b) // the server may close before it has read everything
				_, _ = io.Copy(io.Discard, io.LimitReader(c, 1))
				_ = c.Close()
			}()
			undisturbed()
			<-done
			_, peak := s.memory(t)
			t.Logf("peak %d MiB, %v", peak>>20, time.Since(began))
			require.Less(t, peak, 1<<30)
		})
	}
	s.stop(t, syscall.SIGTERM)
}

// Thousands of connections that do nothing, or send half of something, are cheap.
func TestIdleConnections(t *testing.T) {
	t.Parallel()
	s, undisturbed := hostile(t)
	before, _ := s.memory(t)
	const n = 2000
	for i := range n {
		c, err := net.Dial("tcp", s.addrs[0])
		if errors.Is(err, syscall.EMFILE) {
			t.Skip("the limit of open files is too low")
		}
		require.NoError(t, err)
		defer c.Close()
		if i%2 == 1 {
			_, err = c.Write([]byte{0, 0, 1, 0, 0, 18, 0}[:1+i%7])
			require.NoError(t, err)
		}
	}
	undisturbed()
	now, _ := s.memory(t)
	t.Logf("%d bytes a connection", (now-before)/n)
	require.Less(t, (now-before)/n, 24<<10)
	require.Less(t, s.stop(t, syscall.SIGTERM), 30*time.Second)
}

// Clients that ask for much and never read keep what the broker holds for them bounded, and disturb nobody.
func TestClientsThatNeverRead(t *testing.T) {
	t.Parallel()
	for _, store := range []string{"Memory", "Directory"} {
		t.Run(store, func(t *testing.T) {
			var args []string
			if store == "Directory" {
				args = []string{"--dir", t.TempDir()}
			}
			s, undisturbed := hostile(t, append(args, "--topic", "large")...)
			producer, err := kgo.NewClient(kgo.SeedBrokers(s.addrs...), kgo.DefaultProduceTopic("large"))
			require.NoError(t, err)
			defer producer.Close()
			for range 20 {
				require.NoError(t, producer.ProduceSync(context.Background(), &kgo.Record{Value: make([]byte, 900_000)}).FirstErr())
			}
			q := fetch(0, 0, 0).(*kmsg.FetchRequest)
			q.Topics[0].Topic = "large"
			asked := bytes.Repeat(frame(q), 100)
			for range 30 {
				c := s.dial(t)
				_, err := c.Write(asked)
				require.NoError(t, err)
				_, err = c.Read(make([]byte, 1))
				require.NoError(t, err, "the first answer has begun")
			}
			undisturbed()
			now, _ := s.memory(t)
			t.Logf("%d MiB", now>>20)
			if store == "Memory" {
				require.Less(t, now, 150<<20, "30 answers of 18 MB are the log's own bytes")
			} else {
				require.Less(t, now, 1<<30, "30 answers of 18 MB at most")
			}
			s.stop(t, syscall.SIGTERM)
		})
	}
}
