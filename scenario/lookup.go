package scenario

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol/describe"
	"kshare/protocol/errorcode"
	"kshare/sharecoordinator"
)

// setUp makes the cluster ready: it starts it, learns its nodes and has its coordinators made, which the first requests would otherwise show.
func (s *step) setUp(with settings) error {
	if s.ready {
		return mistakef("cluster comes before every other command")
	}
	s.ready = true
	if err := s.target.setUp(with); err != nil {
		return err
	}
	if err := s.learnNodes(); err != nil {
		var no noAnswer
		if errors.As(err, &no) {
			return fmt.Errorf("there is no Kafka to ask: %s", no.why)
		}
		return err
	}
	if err := s.checkStarted(with); err != nil {
		return err
	}
	for _, kind := range []int8{groupCoordinator, shareCoordinator} {
		if err := s.makeCoordinator(kind); err != nil {
			return err
		}
	}
	return nil
}

// checkStarted tells how a cluster that somebody else started differs from what the cluster command wants.
func (s *step) checkStarted(with settings) error {
	if with.brokers > 1 && with.brokers != len(s.nodes) {
		return mistakef("the scenario wants %d brokers, there are %d", with.brokers, len(s.nodes))
	}
	keys := slices.Sorted(maps.Keys(with.config))
	if len(keys) == 0 || s.target.starts() {
		return nil
	}
	x, err := s.describeConfig(kmsg.ConfigResourceTypeBroker, number32(s.someNode()), keys)
	if err != nil {
		return err
	}
	for _, e := range x.Configs {
		if want := with.config[e.Name]; e.Value != nil && !e.IsSensitive && strings.TrimSpace(*e.Value) != want {
			return mistakef("the scenario wants a broker with %s=%s, it has %s", e.Name, want, *e.Value)
		}
	}
	return nil
}

// learnNodes asks which nodes there are.
func (s *step) learnNodes() error {
	q := kmsg.NewPtrMetadataRequest()
	q.Topics = []kmsg.MetadataRequestTopic{}
	p, err := request[*kmsg.MetadataResponse](s, s.as(admin), 0, q)
	if err != nil {
		return err
	}
	s.nodes = map[int32]string{}
	for _, b := range p.Brokers {
		s.nodes[b.NodeID] = net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
	}
	return nil
}

// settlePause is between questions for something that takes a broker a moment, settleLimit how often it is asked.
const (
	settlePause = 100 * time.Millisecond
	settleLimit = 300
)

// until asks again until something is so.
func (s *step) until(what string, so func() (bool, error)) error {
	for range settleLimit {
		ok, err := so()
		if ok || err != nil {
			return err
		}
		if err := s.sleep(settlePause); err != nil {
			return err
		}
	}
	return noAnswer{fmt.Sprintf("%s, which was waited for %s", what, show(settleLimit*settlePause))}
}

// makeCoordinator has the topic of a kind of coordinators made.
func (s *step) makeCoordinator(kind int8) error {
	key := "any"
	if kind == shareCoordinator {
		key = sharecoordinator.Key{Group: "any"}.String()
	}
	return s.until("no coordinator", func() (bool, error) {
		code, _, err := s.findCoordinator(kind, key)
		return code != errorcode.CoordinatorNotAvailable, err
	})
}

// findCoordinator asks for the node that is in charge of a key.
func (s *step) findCoordinator(kind int8, key string) (code int16, node int32, err error) {
	q := kmsg.NewPtrFindCoordinatorRequest()
	q.CoordinatorType, q.CoordinatorKeys = kind, []string{key}
	p, err := request[*kmsg.FindCoordinatorResponse](s, s.as(admin), 0, q)
	if err != nil {
		return 0, 0, err
	}
	if len(p.Coordinators) != 1 {
		return p.ErrorCode, p.NodeID, nil
	}
	return p.Coordinators[0].ErrorCode, p.Coordinators[0].NodeID, nil
}

// coordinator is the node that coordinates a group.
func (s *step) coordinator(group string) (int32, error) {
	return s.coordinatorOf(groupCoordinator, s.wire(group))
}

// coordinatorOf is the node that coordinates a key.
func (s *step) coordinatorOf(kind int8, key string) (int32, error) {
	if len(s.nodes) <= 1 {
		return s.someNode(), nil
	}
	code, node, err := s.findCoordinator(kind, key)
	if err != nil {
		return 0, err
	}
	if code != 0 {
		return 0, noAnswer{"FindCoordinator: " + failure(code, nil)}
	}
	return node, nil
}

// metadata asks for a topic. Its partitions are in the order of their numbers.
func (s *step) metadata(topic string) (*kmsg.MetadataResponseTopic, error) {
	return s.metadataFrom(0, topic)
}

// metadataFrom is metadata as a node has it.
func (s *step) metadataFrom(node int32, topic string) (*kmsg.MetadataResponseTopic, error) {
	q := kmsg.NewPtrMetadataRequest()
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = kmsg.StringPtr(s.wire(topic))
	q.Topics, q.AllowAutoTopicCreation = []kmsg.MetadataRequestTopic{t}, false
	p, err := request[*kmsg.MetadataResponse](s, s.as(admin), node, q)
	if err != nil {
		return nil, err
	}
	if len(p.Topics) != 1 {
		return nil, noAnswer{fmt.Sprintf("metadata of %d topics", len(p.Topics))}
	}
	found := &p.Topics[0]
	slices.SortFunc(found.Partitions, func(a, b kmsg.MetadataResponseTopicPartition) int { return cmp.Compare(a.Partition, b.Partition) })
	return found, nil
}

// leader is the node that leads a partition.
func (s *step) leader(p topicPartition) (int32, error) {
	if len(s.nodes) <= 1 {
		return s.someNode(), nil
	}
	t, err := s.metadata(p.topic)
	if err != nil {
		return 0, err
	}
	for _, x := range t.Partitions {
		if x.Partition == p.partition && x.Leader >= 0 {
			return x.Leader, nil
		}
	}
	return s.someNode(), nil
}

// someNode is the running node with the smallest id, one that is not cut off where there is one.
func (w *world) someNode() int32 {
	all := w.allNodes()
	if i := slices.IndexFunc(all, func(id int32) bool { return !w.cut[id] }); i >= 0 {
		return all[i]
	}
	if len(all) == 0 {
		return 0
	}
	return all[0]
}

// node is where a request goes that is about a partition: where the option says, else to its leader.
func (s *step) node(c *call, p topicPartition) (int32, error) {
	if n, ok, err := s.nodeOption(c); ok {
		return n, err
	}
	return s.leader(p)
}

// nodeOption is the node that an option names. One that a cluster never had is a mistake, as far as can be told.
func (s *step) nodeOption(c *call) (node int32, given bool, err error) {
	v, ok := c.options["node"]
	if !ok {
		return 0, false, nil
	}
	n, err := number(v, 1, 1<<31-1)
	if err != nil {
		return 0, true, mistakef("node=%s: %v", v, err)
	}
	if cluster := s.target.cluster(); cluster != nil {
		var ids []int32
		for _, x := range cluster.InspectNodes() { // those that are stopped too
			ids = append(ids, x.ID)
		}
		if !slices.Contains(ids, int32(n)) {
			return 0, true, mistakef("node=%d: there is no such node; there are %s", n, numbers(ids))
		}
	}
	return int32(n), true, nil
}

// topicID is the id of a topic; a name that was never seen is asked for. An unknown topic has an id that no topic has.
func (s *step) topicID(topic string) ([16]byte, error) {
	if id, ok := s.topics[topic]; ok {
		return id, nil
	}
	t, err := s.metadata(topic)
	if err != nil {
		return [16]byte{}, err
	}
	if t.ErrorCode != 0 {
		h := fingerprint("no topic " + topic)
		id := [16]byte(h[:16])
		s.names.add(describe.UUIDText(id), "<no-topic:"+topic+">")
		return id, nil
	}
	s.knowTopic(topic, t.TopicID)
	return t.TopicID, nil
}

// knowTopic remembers the id of a topic.
func (w *world) knowTopic(topic string, id [16]byte) {
	if id == [16]byte{} || w.topics[topic] == id {
		return
	}
	w.topics[topic], w.byID[id] = id, topic
	w.made[w.wire(topic)] = append(w.made[w.wire(topic)], id)
	w.names.addTopic(topic, describe.UUIDText(id))
}

// topicName is the script's name for a topic in an answer.
func (w *world) topicName(id [16]byte) string {
	if name, ok := w.byID[id]; ok {
		return name
	}
	return describe.UUIDText(id)
}

// topicName is the script's name for a topic in an answer; one that the script has not named before is asked for.
func (s *step) topicName(id [16]byte) string {
	if _, known := s.byID[id]; known || id == [16]byte{} || s.strange[id] {
		return s.world.topicName(id)
	}
	q := kmsg.NewPtrMetadataRequest()
	t := kmsg.NewMetadataRequestTopic()
	t.TopicID = id
	q.Topics = []kmsg.MetadataRequestTopic{t}
	p, err := request[*kmsg.MetadataResponse](s, s.as(admin), 0, q)
	if err == nil && len(p.Topics) == 1 && p.Topics[0].ErrorCode == 0 && p.Topics[0].Topic != nil {
		s.knowTopic(s.script(*p.Topics[0].Topic), id)
	} else {
		s.strange[id] = true
	}
	return s.world.topicName(id)
}

// script is a name on the wire as scripts have it.
func (w *world) script(name string) string { return strings.TrimPrefix(name, w.prefix) }
