package scenario

func init() {
	register(&command{
		name:    "release",
		usage:   "release NAME",
		summary: "Lets go on what a fault, a share-writes or a marker-writes holds.",
		example: `
topic orders
fault held api=Produce hold
produce orders-0 a &p
list-offsets orders-0
release held
wait p
----
orders: 1 partition
held: set
orders-0: earliest 0, latest 0
held: 1 goes on
orders-0: offset 0
`,
		least: 1, most: 1, reach: inside,
		run: func(s *step, c *call) error {
			name := c.words[0]
			n := 0
			if f := s.writeFaults[name]; f != nil {
				n = f.Release()
			} else {
				var err error
				if n, err = s.target.cluster().ReleaseFault(name); err != nil {
					return mistakeFrom(err)
				}
			}
			if n == 1 {
				s.printf("%s: 1 goes on", name)
			} else {
				s.printf("%s: %d go on", name, n)
			}
			return nil
		},
	})
}
