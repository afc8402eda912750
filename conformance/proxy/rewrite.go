package proxy

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/fault"
	"kshare/protocol/describe"
)

// rewritten are the APIs whose answers have addresses.
var rewritten = map[int16]bool{0: true, 1: true, 3: true, 10: true, 60: true, 78: true, 79: true}

// rewrite puts the addresses of the proxy into an answer, and tells whether it has any.
func (p *Proxy) rewrite(m kmsg.Response) (changed bool, err error) {
	put := func(id int32, host *string, port *int32) {
		if err != nil || id < 0 || *host == "" {
			return
		}
		*host, *port, err = p.address(id, *host, *port)
		changed = true
	}
	switch m := m.(type) {
	case *kmsg.MetadataResponse:
		p.learn(m)
		for i := range m.Brokers {
			b := &m.Brokers[i]
			put(b.NodeID, &b.Host, &b.Port)
		}
	case *kmsg.FindCoordinatorResponse:
		put(m.NodeID, &m.Host, &m.Port)
		for i := range m.Coordinators {
			c := &m.Coordinators[i]
			put(c.NodeID, &c.Host, &c.Port)
		}
	case *kmsg.DescribeClusterResponse:
		for i := range m.Brokers {
			b := &m.Brokers[i]
			put(b.NodeID, &b.Host, &b.Port)
		}
	case *kmsg.ProduceResponse:
		for i := range m.Brokers {
			b := &m.Brokers[i]
			put(b.NodeID, &b.Host, &b.Port)
		}
	case *kmsg.FetchResponse:
		for i := range m.Brokers {
			b := &m.Brokers[i]
			put(b.NodeID, &b.Host, &b.Port)
		}
	case *kmsg.ShareFetchResponse:
		for i := range m.NodeEndpoints {
			b := &m.NodeEndpoints[i]
			put(b.NodeID, &b.Host, &b.Port)
		}
		for i := range m.Topics {
			for k := range m.Topics[i].Partitions {
				if r := &m.Topics[i].Partitions[k].Records; *r == nil {
					*r = []byte{} // which may not be null
				}
			}
		}
	case *kmsg.ShareAcknowledgeResponse:
		for i := range m.NodeEndpoints {
			b := &m.NodeEndpoints[i]
			put(b.NodeID, &b.Host, &b.Port)
		}
	}
	return changed, err
}

// maxTopics bounds the names that are remembered for faults.
const maxTopics = 100_000

// learn takes in the names of topics.
func (p *Proxy) learn(m *kmsg.MetadataResponse) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range m.Topics {
		if t.Topic != nil && t.TopicID != ([16]byte{}) && len(p.topics) < maxTopics {
			p.topics[t.TopicID] = *t.Topic
		}
	}
}

func (p *Proxy) topicName(id [16]byte) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.topics[id]
}

// match finds the faults that act on a request.
func (p *Proxy) match(node int32, a *asked) []fault.Action {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.faults.Empty() {
		return nil
	}
	f := &fault.Request{Key: a.header.Key, Version: a.header.Version, Node: node, Client: a.header.ClientID}
	if a.q != nil {
		f.Subject = describe.SubjectOf(a.q)
		for i := range f.Subject.Topics {
			if t := &f.Subject.Topics[i]; t.Name == "" {
				t.Name = p.topics[t.ID]
			}
		}
	}
	return p.faults.Match(f)
}
