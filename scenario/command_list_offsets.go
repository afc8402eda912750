package scenario

import (
	"fmt"
	"strings"

	"kshare/internal/spelling"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func init() {
	register(&command{
		name:    "list-offsets",
		usage:   "list-offsets PARTITION [at=earliest|latest|max-timestamp|earliest-local|latest-tiered|MS] [isolation=read_committed] [node=N] [version=N]",
		summary: "Asks for an offset of a partition (ListOffsets): earliest and latest, or the one asked for.",
		example: `
topic orders
produce orders-0 a b c
delete-records orders-0 1
list-offsets orders-0
list-offsets orders-0 at=max-timestamp
list-offsets orders-7
----
orders: 1 partition
orders-0: offsets 0-2
orders-0: log starts at 1
orders-0: earliest 1, latest 3
orders-0: max-timestamp 0
orders-7: UNKNOWN_TOPIC_OR_PARTITION (3)
`,
		optionNames: []string{"at", "isolation", "node", "version"},
		least:       1, most: 1,
		check: func(c *call) error {
			if _, err := offsetQueries(c); err != nil {
				return err
			}
			if _, err := c.isolation(); err != nil {
				return err
			}
			_, err := parsePartition(c.words[0])
			return err
		},
		run: listOffsets,
	})
}

// offsetQuery is a kind of offset and how a request asks for it.
type offsetQuery struct {
	name      string
	timestamp int64
}

var offsetKinds = []offsetQuery{{"latest", -1}, {"earliest", -2}, {"max-timestamp", -3}, {"earliest-local", -4}, {"latest-tiered", -5}}

func offsetQueries(c *call) ([]offsetQuery, error) {
	at, ok := c.options["at"]
	if !ok {
		return []offsetQuery{offsetKinds[1], offsetKinds[0]}, nil
	}
	for _, k := range offsetKinds {
		if k.name == at {
			return []offsetQuery{k}, nil
		}
	}
	n, err := number(at, -1<<63, 1<<62)
	if err != nil {
		names := make([]string, len(offsetKinds))
		for i, k := range offsetKinds {
			names[i] = k.name
		}
		return nil, mistakef("at=%s: %s, or a time in ms%s", at, strings.Join(names, ", "), spelling.DidYouMean(at, names))
	}
	return []offsetQuery{{"at " + at, n}}, nil
}

func listOffsets(s *step, c *call) error {
	at, err := parsePartition(c.words[0])
	if err != nil {
		return err
	}
	queries, err := offsetQueries(c)
	if err != nil {
		return err
	}
	node, err := s.node(c, at)
	if err != nil {
		return err
	}
	var parts []string
	for _, k := range queries {
		q := kmsg.NewPtrListOffsetsRequest()
		if err := s.version(q, c); err != nil {
			return err
		}
		q.ReplicaID = -1
		if q.IsolationLevel, err = c.isolation(); err != nil {
			return err
		}
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp, p.CurrentLeaderEpoch = at.partition, k.timestamp, -1
		q.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: s.wire(at.topic), Partitions: []kmsg.ListOffsetsRequestTopicPartition{p}}}
		answer, err := ask[*kmsg.ListOffsetsResponse](s, s.as(admin), node, q)
		if err != nil {
			return err
		}
		for _, t := range answer.Topics {
			for _, x := range t.Partitions {
				if x.ErrorCode != 0 {
					s.printf("%s: %s", at, failure(x.ErrorCode, nil))
					return nil
				}
				parts = append(parts, fmt.Sprintf("%s %d", k.name, x.Offset))
			}
		}
	}
	s.printf("%s: %s", at, strings.Join(parts, ", "))
	return nil
}
