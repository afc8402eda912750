package realkafka

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// pollEvery is the time between two looks whether the node is ready.
const pollEvery = 50 * time.Millisecond

// awaitMetadata returns once Metadata lists the node: it is registered, and no longer fenced.
func (n *Node) awaitMetadata(ctx context.Context) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	last := errors.New("it was not asked")
	for {
		select {
		case <-n.process.ended:
			return fmt.Errorf("realkafka: the node ended: %v\n%s", n.process.err, n.Log())
		case <-ctx.Done():
			return fmt.Errorf("realkafka: the node is not ready: %v; %w\n%s", last, ctx.Err(), n.Log())
		case <-tick.C:
		}
		if last = n.askMetadata(ctx); last == nil {
			return nil
		}
	}
}

// answerTimeout is how long one question may take.
const answerTimeout = 5 * time.Second

// askMetadata returns an error unless Metadata lists a broker.
func (n *Node) askMetadata(ctx context.Context) error {
	c, err := n.Dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(answerTimeout)); err != nil {
		return err
	}
	q := kmsg.NewPtrMetadataRequest()
	q.SetVersion(1) // the first in which no topics are asked for by an empty list
	q.Topics = []kmsg.MetadataRequestTopic{}
	client := "realkafka"
	frame := binary.BigEndian.AppendUint16(make([]byte, 4), uint16(q.Key()))
	frame = binary.BigEndian.AppendUint16(frame, uint16(q.GetVersion()))
	frame = binary.BigEndian.AppendUint32(frame, 0)
	frame = q.AppendTo(kbin.AppendNullableString(frame, &client))
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	if _, err := c.Write(frame); err != nil {
		return err
	}
	var head [8]byte // length and correlation id
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return err
	}
	const most = 1 << 20
	size := binary.BigEndian.Uint32(head[:])
	if size < 4 || size > most {
		return fmt.Errorf("an answer of %d bytes", size)
	}
	body := make([]byte, size-4)
	if _, err := io.ReadFull(c, body); err != nil {
		return err
	}
	r := q.ResponseKind().(*kmsg.MetadataResponse)
	if err := r.ReadFrom(body); err != nil {
		return err
	}
	if len(r.Brokers) == 0 {
		return errors.New("the node's metadata lists no broker")
	}
	return nil
}
