package shareclient

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol/errorcode"
)

// retryBackoff is how long the client waits before it sends again (retry.backoff.ms), and maxBackoff how long it does at most (retry.backoff.max.ms).
const retryBackoff, maxBackoff = 100 * time.Millisecond, time.Second

// backoff is how long the client waits after so many failures in a row.
func backoff(failures int) time.Duration {
	return min(retryBackoff<<min(max(failures-1, 0), 10), maxBackoff)
}

// routes knows who leads which partition.
type routes struct {
	client *kgo.Client

	mu     sync.Mutex
	topics map[string]topic
	names  map[[16]byte]string
}

type topic struct {
	id      [16]byte
	leaders []int32 // by partition, -1 for none
}

func newRoutes(client *kgo.Client) *routes {
	return &routes{client: client, topics: map[string]topic{}, names: map[[16]byte]string{}}
}

// refresh asks for the topics of the names. A topic that is not there is no error: it may come. refused are those that will not come by themselves.
func (r *routes) refresh(ctx context.Context, names ...string) (refused []*Error, err error) {
	req := kmsg.NewPtrMetadataRequest()
	for _, name := range names {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(name)
		req.Topics = append(req.Topics, t)
	}
	resp, err := req.RequestWith(ctx, r.client)
	if err != nil {
		return nil, fmt.Errorf("metadata of %v: %w", names, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range resp.Topics {
		switch {
		case t.ErrorCode == errorcode.TopicAuthorizationFailed || t.ErrorCode == errorcode.InvalidTopicException:
			name := ""
			if t.Topic != nil {
				name = *t.Topic
			}
			refused = append(refused, &Error{API: "Metadata", Of: name, Code: t.ErrorCode, Class: Retriable})
			continue
		case t.Topic == nil || t.TopicID == [16]byte{} || t.ErrorCode != errorcode.None:
			continue
		}
		leaders := make([]int32, len(t.Partitions))
		for _, p := range t.Partitions {
			if p.Partition >= 0 && int(p.Partition) < len(leaders) {
				leaders[p.Partition] = p.Leader
			}
		}
		r.topics[*t.Topic] = topic{t.TopicID, leaders}
		r.names[t.TopicID] = *t.Topic
	}
	return refused, nil
}

// forget has the next look at a topic ask for it.
func (r *routes) forget(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.topics, name)
}

// known is a topic as it was seen last; false where it was not.
func (r *routes) known(name string) (topic, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t, ok := r.topics[name]
	return t, ok
}

// name is the name of a topic id, "" where it was not seen.
func (r *routes) name(id [16]byte) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.names[id]
}

// find is a topic, which is asked for where it is not known.
func (r *routes) find(ctx context.Context, name string) (topic, error) {
	if t, ok := r.known(name); ok {
		return t, nil
	}
	if _, err := r.refresh(ctx, name); err != nil {
		return topic{}, err
	}
	t, ok := r.known(name)
	if !ok {
		return topic{}, fmt.Errorf("topic %s is not there", name)
	}
	return t, nil
}

// leader is the node that leads a partition.
func (r *routes) leader(ctx context.Context, name string, partition int32) (int32, error) {
	t, err := r.find(ctx, name)
	if err != nil {
		return 0, err
	}
	if int(partition) >= len(t.leaders) || partition < 0 || t.leaders[partition] < 0 {
		r.forget(name)
		return 0, fmt.Errorf("%s-%d has no leader", name, partition)
	}
	return t.leaders[partition], nil
}

// pause waits for d, or until the context ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// ask sends a request to a node and gives its answer as the type that belongs to it.
func ask[R kmsg.Response](ctx context.Context, client *kgo.Client, node int32, req kmsg.Request) (resp R, err error) {
	answer, err := client.Broker(int(node)).Request(ctx, req)
	if err != nil {
		return resp, err
	}
	resp, ok := answer.(R)
	if !ok {
		return resp, fmt.Errorf("%T answered with %T", req, answer)
	}
	return resp, nil
}
