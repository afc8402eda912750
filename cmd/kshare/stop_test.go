package main

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A signal ends the process within a second whatever its clients are doing, with exit code 0. A machine that is busy with other things gets
// more than one try.
func TestStopWithClientsAttached(t *testing.T) {
	for _, signal := range []os.Signal{syscall.SIGTERM, syscall.SIGINT} {
		var took time.Duration
		for range 5 {
			if took = stopWithClients(t, signal); took < time.Second || !figures {
				break
			}
		}
		if figures {
			require.Less(t, took, time.Second)
		}
	}
}

func stopWithClients(t *testing.T, signal os.Signal) time.Duration {
	t.Helper()
	s := serving(t, with("--dir", t.TempDir(), "--topic", "orders")...)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	producer, err := kgo.NewClient(kgo.SeedBrokers(s.addrs...), kgo.DefaultProduceTopic("orders"), kgo.ProducerBatchMaxBytes(1<<20))
	require.NoError(t, err)
	defer producer.Close()
	for range 8 {
		require.NoError(t, producer.ProduceSync(ctx, &kgo.Record{Value: make([]byte, 900_000)}).FirstErr())
	}

	dial := func() net.Conn {
		c, err := net.Dial("tcp", s.addrs[0])
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
		return c
	}
	var ended []net.Conn
	for range 20 { // idle
		ended = append(ended, dial())
	}
	for range 20 { // half of a request
		c := dial()
		_, err := c.Write([]byte{0, 0, 1, 0, 0, 18})
		require.NoError(t, err)
		ended = append(ended, c)
	}
	// In a long poll: the answered request before it shows that the broker reads this connection.
	waiting := dial()
	send(t, waiting, fetch(1<<20, 0, 0))
	receive(t, waiting)
	send(t, waiting, fetch(8, time.Hour, 1))
	ended = append(ended, waiting)
	// Never reads, and asks for much.
	deaf := dial()
	for range 50 {
		send(t, deaf, fetch(0, 0, 0))
	}
	_, err = deaf.(*net.TCPConn).Read(make([]byte, 1)) // the broker has begun to answer
	require.NoError(t, err)
	// Members of groups, with a real client.
	for _, group := range []kgo.Opt{kgo.ConsumerGroup("a"), kgo.ShareGroup("b")} {
		member, err := kgo.NewClient(kgo.SeedBrokers(s.addrs...), kgo.ConsumeTopics("orders"), group)
		require.NoError(t, err)
		defer member.Close()
		go member.PollFetches(ctx)
	}

	took := s.stop(t, signal)
	require.Zero(t, s.cmd.ProcessState.ExitCode())
	for _, c := range ended {
		require.NoError(t, c.SetReadDeadline(time.Now().Add(time.Minute)))
		_, err := c.Read(make([]byte, 1))
		require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Error(t, err, "the connection has ended")
	}
	return took
}

// fetch asks for orders-0 from an offset on.
func fetch(offset int64, wait time.Duration, minBytes int32) kmsg.Request {
	q := kmsg.NewPtrFetchRequest()
	q.Version = 12
	q.MaxWaitMillis, q.MinBytes, q.MaxBytes = int32(wait.Milliseconds()), minBytes, 50<<20
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic = "orders"
	partition := kmsg.NewFetchRequestTopicPartition()
	partition.FetchOffset, partition.PartitionMaxBytes = offset, 50<<20
	topic.Partitions = append(topic.Partitions, partition)
	q.Topics = append(q.Topics, topic)
	q.SessionEpoch = -1
	return q
}

func send(t *testing.T, c net.Conn, q kmsg.Request) {
	t.Helper()
	_, err := c.Write(kmsg.NewRequestFormatter().AppendRequest(nil, q, 1))
	require.NoError(t, err)
}

func receive(t *testing.T, c net.Conn) {
	t.Helper()
	var size [4]byte
	_, err := io.ReadFull(c, size[:])
	require.NoError(t, err)
	_, err = io.CopyN(io.Discard, c, int64(binary.BigEndian.Uint32(size[:])))
	require.NoError(t, err)
}
