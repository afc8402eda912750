package scenario

func init() {
	register(&command{
		name:    "faults",
		usage:   "faults",
		summary: "Lists the faults that are set, and how often each has matched and acted.",
		example: `
fault broken api=CreateTopics error=REQUEST_TIMED_OUT times=1
topic orders
topic orders
faults
----
broken: set
orders: REQUEST_TIMED_OUT (7)
orders: 1 partition
name=broken api=CreateTopics times=1 error=REQUEST_TIMED_OUT: matched 2, acted 1
`,
		reach: inside, looks: true,
		run: func(s *step, _ *call) error {
			all := s.target.cluster().Faults()
			for _, f := range all {
				s.printf("%s: matched %d, acted %d", f.Rule, f.Matches, f.Acts)
			}
			if len(all) == 0 {
				s.printf("none")
			}
			return nil
		},
	})
}
