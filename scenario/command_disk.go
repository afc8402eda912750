package scenario

func init() {
	register(&command{
		name:    "disk",
		usage:   "disk full|unreadable|well [count=N]",
		summary: "Has writes (full) or reads (unreadable) of what the cluster stores fail, the next N or all until disk well.",
		example: `
topic orders
disk full count=1
produce orders-0 a
produce orders-0 b
----
orders: 1 partition
disk: full
orders-0: KAFKA_STORAGE_ERROR (56)
orders-0: offset 0
`,
		optionNames: []string{"count"},
		least:       1, most: 1, reach: inside,
		check: func(c *call) error {
			if w := c.words[0]; w != "full" && w != "unreadable" && w != "well" {
				return mistakef("%q: full, unreadable or well", w)
			}
			return nil
		},
		run: func(s *step, c *call) error {
			n, err := c.numberOption("count", 0, 0, 1<<31-1)
			if err != nil {
				return err
			}
			switch c.words[0] {
			case "full":
				err = s.target.cluster().FailWrites(int(n), nil)
			case "unreadable":
				err = s.target.cluster().FailReads(int(n), nil)
			case "well":
				s.target.cluster().MendStore()
			}
			s.printf("disk: %s", c.words[0])
			return err
		},
	})
}
