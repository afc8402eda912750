package scenario

func init() {
	register(&command{
		name:    "unfault",
		usage:   "unfault NAME",
		summary: "Ends a fault, a share-writes or a marker-writes, lets what it holds go on, and tells how often a fault matched and acted.",
		example: `
topic orders
fault slow api=Produce delay=2s
produce orders-0 a &p
wait p
unfault slow
produce orders-0 b
----
orders: 1 partition
slow: set
after 2s: orders-0: offset 0
slow: matched 1, acted 1
orders-0: offset 1
`,
		least: 1, most: 1, reach: inside,
		run: func(s *step, c *call) error {
			name := c.words[0]
			if f := s.writeFaults[name]; f != nil {
				f.Remove()
				delete(s.writeFaults, name)
				s.printf("%s: ended", name)
				return nil
			}
			for _, f := range s.target.cluster().Faults() {
				if f.Rule.Name == name {
					s.printf("%s: matched %d, acted %d", name, f.Matches, f.Acts)
					return s.target.cluster().RemoveFault(f.ID)
				}
			}
			return mistakef("there is no fault %s", name)
		},
	})
}
