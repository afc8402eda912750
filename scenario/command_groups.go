package scenario

import (
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func init() {
	register(&command{
		name:    "groups",
		usage:   "groups [types=TYPE,...] [states=STATE,...] [node=N]",
		summary: "Lists the groups of all nodes, or of one, (ListGroups) that the script has to do with.",
		example: `
topic orders
join workers m1 orders
groups
----
orders: 1 partition
m1: epoch 3, assigned orders-0
workers: share, Stable
`,
		optionNames: []string{"types", "states", "node"},
		check: func(c *call) error {
			if err := c.slipOfOption("types", "share", "consumer", "classic", "streams"); err != nil {
				return err
			}
			return c.slipOfOption("states", "Stable", "Empty", "Dead", "Assigning", "Reconciling", "PreparingRebalance", "CompletingRebalance")
		},
		run: func(s *step, c *call) error {
			var lines []string
			nodes := s.allNodes()
			if _, ok := c.options["node"]; ok {
				node, err := s.node(c, topicPartition{})
				if err != nil {
					return err
				}
				nodes = []int32{node}
			}
			for _, node := range nodes {
				q := kmsg.NewPtrListGroupsRequest()
				if t := c.options["types"]; t != "" {
					q.TypesFilter = strings.Split(t, ",")
				}
				if t := c.options["states"]; t != "" {
					q.StatesFilter = strings.Split(t, ",")
				}
				p, err := request[*kmsg.ListGroupsResponse](s, s.as(admin), node, q)
				if err != nil {
					return err
				}
				if p.ErrorCode != 0 {
					s.printf("%s", failure(p.ErrorCode, nil))
				}
				for _, g := range p.Groups {
					if strings.HasPrefix(g.Group, s.prefix) {
						lines = append(lines, fmt.Sprintf("%s: %s, %s", g.Group, g.GroupType, g.GroupState))
					}
				}
			}
			slices.Sort(lines)
			if len(lines) == 0 {
				lines = []string{"no groups"}
			}
			s.printf("%s", strings.Join(lines, "\n"))
			return nil
		},
	})
}

// allNodes are the ids of the nodes in order.
func (w *world) allNodes() (ids []int32) {
	for id := range w.nodes {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}
