package cases

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare/protocol"
	"kshare/protocol/describe"
)

// maxReplayed bounds the requests of a scenario, and maxReplayedRecords the records that it writes one by one.
const maxReplayed, maxReplayedRecords = 2000, 1000

// unreplayed are the requests that say nothing of what a client does with records.
var unreplayed = []int16{metadataKey, apiVersionsKey, handshakeKey, authenticateKey}

// replay is the case as a scenario: the cluster as it was when the case began, and what the client has sent, one after the other. What the case has changed on the way,
// its faults and what it has asked of the cluster are not in it. topicNames are of topicNames.
func (s *Stage) replay(r *Result, topicNames []string) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s (%s): %s\n# %s: %s\n#\n# What the client has sent, one after the other. What the case has changed on the way is not in it.\n\n", r.ID, r.Level, r.Says, r.Verdict, oneLine(r.Why))
	s.replaySetup(&b)
	names := strings.NewReplacer(topicNames...)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.began
	sent := slices.DeleteFunc(slices.Clone(s.seen), func(x *Seen) bool { return slices.Contains(unreplayed, x.Key) || x.Request == nil })
	for _, x := range sent[:min(len(sent), maxReplayed)] {
		if d := x.clockAsked.Sub(now).Truncate(time.Millisecond); d > 0 {
			fmt.Fprintf(&b, "advance %s\n", d)
			now = now.Add(d)
		}
		fmt.Fprintf(&b, "send %s %d as=c%d node=%d %s\n", apiName(x.Key), x.Version, x.Conn, x.Node, names.Replace(fieldsOf(x.Request)))
		if x.clockAnswered.After(now) { // the time that the broker took passes by itself
			now = x.clockAnswered
		}
	}
	return []byte(b.String())
}

// fieldsOf are the fields of a request as send takes them: records are bytes there, which describe shows as what they mean.
func fieldsOf(q kmsg.Request) string {
	produce, ok := q.(*kmsg.ProduceRequest)
	if !ok {
		return jsonOf(describe.Message(q))
	}
	marked := *produce
	marked.Topics = slices.Clone(produce.Topics)
	var pairs []string // what stands for records, and they
	for i := range marked.Topics {
		t := &marked.Topics[i]
		t.Partitions = slices.Clone(t.Partitions)
		for j := range t.Partitions {
			p := &t.Partitions[j]
			mark := fmt.Appendf(nil, "records %d %d", i, j)
			pairs = append(pairs, jsonOf(describe.Message(&kmsg.ProduceRequestTopicPartition{Partition: p.Partition, Records: mark})),
				fmt.Sprintf(`{"Partition":%d,"Records":"%x"}`, p.Partition, p.Records))
			p.Records = mark
		}
	}
	return strings.NewReplacer(pairs...).Replace(jsonOf(describe.Message(&marked)))
}

func jsonOf(v any) string {
	b, err := json.Marshal(v)
	if err != nil { // trees of describe have no values that JSON lacks
		panic(err)
	}
	return string(b)
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

func apiName(key int16) string {
	if key == protocol.TxnShareAcknowledgeKey {
		return protocol.TxnShareAcknowledgeName
	}
	return kmsg.NameForKey(key)
}

// topicNames are what stands for the ids of topics in a scenario, one behind the other.
func (s *Stage) topicNames() (pairs []string) {
	for _, t := range s.cluster.InspectTopics() {
		pairs = append(pairs, describe.UUIDText(t.ID), "<topic:"+t.Name+">")
	}
	return pairs
}

// replaySetup writes what makes a cluster as that of the case.
func (s *Stage) replaySetup(b *strings.Builder) {
	setup := &s.c.Setup
	fmt.Fprintf(b, "cluster brokers=%d", max(1, setup.Brokers))
	if setup.Atomic {
		b.WriteString(" kip1289=on")
	}
	var features []string
	for _, name := range slices.Sorted(maps.Keys(setup.Features)) {
		features = append(features, fmt.Sprintf("%s:%d", name, setup.Features[name]))
	}
	if len(features) > 0 {
		b.WriteString(" feature=" + strings.Join(features, ","))
	}
	config := s.config()
	for _, key := range slices.Sorted(maps.Keys(config)) {
		fmt.Fprintf(b, " %s=%s", key, config[key])
	}
	b.WriteByte('\n')
	topics := s.topicsOfSetup()
	for _, name := range slices.Sorted(maps.Keys(topics)) {
		fmt.Fprintf(b, "topic %s partitions=%d\n", name, topics[name])
	}
	group := s.groupConfig()
	fmt.Fprintf(b, "config group %s", groupID)
	for _, key := range slices.Sorted(maps.Keys(group)) {
		fmt.Fprintf(b, " %s=%s", key, group[key])
	}
	b.WriteByte('\n')
	n, batch := s.recordsOfSetup()
	for _, name := range slices.Sorted(maps.Keys(topics)) {
		for p := range topics[name] {
			if n > maxReplayedRecords {
				fmt.Fprintf(b, "produce %s-%d \"\" count=%d\n", name, p, n)
				continue
			}
			for from := 0; from < n; from += batch {
				fmt.Fprintf(b, "produce %s-%d", name, p)
				for i := from; i < min(n, from+batch); i++ {
					fmt.Fprintf(b, " %d", i)
				}
				b.WriteByte('\n')
			}
		}
	}
}
