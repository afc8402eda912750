package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// conn is a connection that sends frames and reads answers, nothing more: what it takes of the CPU is left to the broker.
type conn struct {
	net       net.Conn
	in        *bufio.Reader
	formatter *kmsg.RequestFormatter
	sent      int32 // correlation id of the last request
	received  int32 // of the last answer
	out, buf  []byte
}

func dial(addr string) (*conn, error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &conn{net: c, in: bufio.NewReaderSize(c, 64<<10), formatter: kmsg.NewRequestFormatter(kmsg.FormatterClientID("bench"))}, nil
}

func (c *conn) close() { c.net.Close() }

// send writes a request.
func (c *conn) send(q kmsg.Request) error {
	c.out = c.formatter.AppendRequest(c.out[:0], q, c.sent+1)
	return c.sendFrame(c.out)
}

// frameCorrelation is where a frame has its correlation id: behind the length, the key and the version.
const frameCorrelation = 4 + 2 + 2

// sendFrame writes a request that has been encoded before.
func (c *conn) sendFrame(frame []byte) error {
	c.sent++
	binary.BigEndian.PutUint32(frame[frameCorrelation:], uint32(c.sent))
	_, err := c.net.Write(frame)
	return err
}

// maxAnswer bounds an answer, in bytes.
const maxAnswer = 256 << 20

// receive reads the answer to the oldest request without one. What it decodes is valid until the next call.
func (c *conn) receive(p kmsg.Response) error {
	var head [8]byte
	if _, err := io.ReadFull(c.in, head[:]); err != nil {
		return fmt.Errorf("reading the answer of %s: %w", kmsg.NameForKey(p.Key()), err)
	}
	size := int(int32(binary.BigEndian.Uint32(head[:]))) - 4
	c.received++
	if id := int32(binary.BigEndian.Uint32(head[4:])); id != c.received || size < 0 || size > maxAnswer {
		return fmt.Errorf("answer of %s: correlation id %d and %d bytes, expected id %d", kmsg.NameForKey(p.Key()), id, size, c.received)
	}
	if cap(c.buf) < size {
		c.buf = make([]byte, size, size+size/4)
	}
	body := c.buf[:size]
	if _, err := io.ReadFull(c.in, body); err != nil {
		return fmt.Errorf("reading the answer of %s: %w", kmsg.NameForKey(p.Key()), err)
	}
	if p.IsFlexible() && p.Key() != int16(kmsg.ApiVersions) {
		body = body[1:] // the header's tagged fields: none
	}
	return p.ReadFrom(body)
}

// request sends a request and reads its answer into p, whose version is the request's.
func (c *conn) request(q kmsg.Request, p kmsg.Response) error {
	if err := c.send(q); err != nil {
		return err
	}
	p.SetVersion(q.GetVersion())
	return c.receive(p)
}

// failure is the error of an error code in an answer.
func failure(api string, code int16) error {
	if code == 0 {
		return nil
	}
	return fmt.Errorf("%s: error code %d", api, code)
}

const topicName = "bench"

// createTopic creates the topic of a trial and returns its id.
func (c *conn) createTopic(partitions int32) ([16]byte, error) {
	q := kmsg.NewPtrCreateTopicsRequest()
	q.SetVersion(7)
	q.TimeoutMillis = 10_000
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = topicName, partitions, 1
	q.Topics = append(q.Topics, t)
	p := kmsg.NewPtrCreateTopicsResponse()
	if err := c.request(q, p); err != nil {
		return [16]byte{}, err
	}
	if len(p.Topics) != 1 {
		return [16]byte{}, fmt.Errorf("CreateTopics: %d topics in the answer", len(p.Topics))
	}
	return p.Topics[0].TopicID, failure("CreateTopics", p.Topics[0].ErrorCode)
}

// readFromStart makes a group begin at the start of its partitions.
func (c *conn) readFromStart(group string) error {
	q := kmsg.NewPtrIncrementalAlterConfigsRequest()
	q.SetVersion(1)
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
	set := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	set.Name, set.Op, set.Value = "share.auto.offset.reset", kmsg.IncrementalAlterConfigOpSet, kmsg.StringPtr("earliest")
	r.Configs = append(r.Configs, set)
	q.Resources = append(q.Resources, r)
	p := kmsg.NewPtrIncrementalAlterConfigsResponse()
	if err := c.request(q, p); err != nil {
		return err
	}
	if len(p.Resources) != 1 {
		return fmt.Errorf("IncrementalAlterConfigs: %d resources in the answer", len(p.Resources))
	}
	return failure("IncrementalAlterConfigs", p.Resources[0].ErrorCode)
}
