package realkafka

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// pollEvery is the time between two looks whether the node is ready.
const pollEvery = 50 * time.Millisecond

// ready says what of a node's metadata is not yet as it should be, nil where nothing is.
type ready func(*kmsg.MetadataResponse) error

// await returns once the node's metadata is as it should be.
func (n *Node) await(ctx context.Context, as ready) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	last := errors.New("it was not asked")
	for {
		select {
		case <-n.process.ended:
			return fmt.Errorf("realkafka: node %d ended: %v\n%s", n.role.id, n.process.err, n.Log())
		case <-ctx.Done():
			return fmt.Errorf("realkafka: node %d is not ready: %v; %w\n%s", n.role.id, last, ctx.Err(), n.Log())
		case <-tick.C:
		}
		var p *kmsg.MetadataResponse
		if p, last = n.metadata(ctx); last == nil {
			last = as(p)
		}
		if last == nil {
			return nil
		}
	}
}

// listsBrokers wants just these brokers in the metadata: they are registered and not fenced.
func listsBrokers(ids ...int32) ready {
	return func(p *kmsg.MetadataResponse) error {
		var listed []int32
		for _, b := range p.Brokers {
			listed = append(listed, b.NodeID)
		}
		slices.Sort(listed)
		if !slices.Equal(listed, ids) {
			return fmt.Errorf("its metadata lists the brokers %v, not %v", listed, ids)
		}
		return nil
	}
}

// inSync wants just these brokers in the metadata, and their replicas in sync with what has a leader.
func inSync(ids ...int32) ready {
	return func(p *kmsg.MetadataResponse) error {
		if err := listsBrokers(ids...)(p); err != nil {
			return err
		}
		for _, t := range p.Topics {
			for _, x := range t.Partitions {
				for _, id := range x.Replicas {
					if slices.Contains(ids, id) && x.Leader >= 0 && !slices.Contains(x.ISR, id) {
						return fmt.Errorf("broker %d is not in sync with %s-%d", id, *t.Topic, x.Partition)
					}
				}
			}
		}
		return nil
	}
}

// answerTimeout is how long one question may take.
const answerTimeout = 5 * time.Second

// metadata asks for the brokers and all topics.
func (n *Node) metadata(ctx context.Context) (*kmsg.MetadataResponse, error) {
	c, err := n.Dial(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(answerTimeout)); err != nil {
		return nil, err
	}
	q := kmsg.NewPtrMetadataRequest()
	q.SetVersion(1) // the first that names no replica that is not live an error
	client := "realkafka"
	frame := binary.BigEndian.AppendUint16(make([]byte, 4), uint16(q.Key()))
	frame = binary.BigEndian.AppendUint16(frame, uint16(q.GetVersion()))
	frame = binary.BigEndian.AppendUint32(frame, 0)
	frame = q.AppendTo(kbin.AppendNullableString(frame, &client))
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	if _, err := c.Write(frame); err != nil {
		return nil, err
	}
	var head [8]byte // length and correlation id
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return nil, err
	}
	const most = 16 << 20
	size := binary.BigEndian.Uint32(head[:])
	if size < 4 || size > most {
		return nil, fmt.Errorf("an answer of %d bytes", size)
	}
	body := make([]byte, size-4)
	if _, err := io.ReadFull(c, body); err != nil {
		return nil, err
	}
	r := q.ResponseKind().(*kmsg.MetadataResponse)
	return r, r.ReadFrom(body)
}
