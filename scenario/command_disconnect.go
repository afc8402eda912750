package scenario

func init() {
	register(&command{
		name:    "disconnect",
		usage:   "disconnect GROUP MEMBER [node=N]",
		summary: "Closes the connections of a member, or the one with a node, as if its process had died. The next command of the member connects anew; it believes in its share sessions still.",
		example: `
topic orders
config group workers share.auto.offset.reset=earliest
produce orders-0 a
join workers m1 orders
fetch workers m1
disconnect workers m1
fetch workers m1
fetch workers m1
----
orders: 1 partition
workers: ok
orders-0: offset 0
m1: epoch 3, assigned orders-0
orders-0: acquired 0 count 1, lock 30s
  0 a
m1: disconnected
SHARE_SESSION_NOT_FOUND (122)
orders-0: acquired 0 count 2, lock 30s
  0 a
`,
		optionNames: []string{"node"},
		least:       2, most: 2,
		check: func(c *call) error { _, err := c.numberOption("node", 0, 0, 1<<31-1); return err },
		run: func(s *step, c *call) error {
			client := c.words[0] + "/" + c.words[1]
			node, err := c.numberOption("node", -1, 0, 1<<31-1)
			if err != nil {
				return err
			}
			found := false
			for k := range s.conns {
				if k.client == client && (node < 0 || k.node == int32(node)) {
					found = s.drop(client, k.node) || found
				}
			}
			if !found {
				return mistakef("%s of %s has no such connection", c.words[1], c.words[0])
			}
			if err := s.settle(); err != nil {
				return err
			}
			s.printf("%s: disconnected", c.words[1])
			return nil
		},
	})
}
