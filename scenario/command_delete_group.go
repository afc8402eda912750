package scenario

import "github.com/twmb/franz-go/pkg/kmsg"

func init() {
	register(&command{
		name:    "delete-group",
		usage:   "delete-group GROUP",
		summary: "Deletes a group that has no members (DeleteGroups).",
		example: `
topic orders
join workers m1 orders
delete-group workers
leave workers m1
delete-group workers
delete-group workers
----
orders: 1 partition
m1: epoch 3, assigned orders-0
workers: NON_EMPTY_GROUP (68)
m1: left
workers: deleted
workers: GROUP_ID_NOT_FOUND (69)
`,
		least: 1, most: 1,
		run: func(s *step, c *call) error {
			node, err := s.coordinator(c.words[0])
			if err != nil {
				return err
			}
			q := kmsg.NewPtrDeleteGroupsRequest()
			q.Groups = []string{s.wire(c.words[0])}
			p, err := request[*kmsg.DeleteGroupsResponse](s, s.as(admin), node, q)
			if err != nil {
				return err
			}
			for _, g := range p.Groups {
				if g.ErrorCode != 0 {
					s.printf("%s: %s", c.words[0], failure(g.ErrorCode, nil))
				} else {
					s.printf("%s: deleted", c.words[0])
				}
			}
			return nil
		},
	})
}
