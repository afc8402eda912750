package scenario

func init() {
	register(&command{
		name:    "restart",
		usage:   "restart",
		summary: "Stops the cluster and starts it again on what it had stored. Every connection ends; what only the brokers knew is gone. Faults are gone too.",
		example: `
topic orders
config group workers share.auto.offset.reset=earliest
produce orders-0 a b
join workers m1 orders
fetch workers m1
ack workers m1 orders-0 0=accept
restart
fetch workers m1
fetch workers m1
----
orders: 1 partition
workers: ok
orders-0: offsets 0-1
m1: epoch 3, assigned orders-0
orders-0: acquired 0-1 count 1, lock 30s
  0 a | 1 b
orders-0: ok
the cluster has restarted
SHARE_SESSION_NOT_FOUND (122)
orders-0: acquired 1 count 1, lock 30s
  1 b
`,
		reach: inside,
		run: func(s *step, _ *call) error {
			r, ok := s.target.(restarter)
			if !ok {
				return mistakef("this cluster cannot be restarted by a script")
			}
			if err := r.restart(); err != nil {
				return err
			}
			s.writeFaults = nil
			clear(s.conns)
			s.printf("the cluster has restarted")
			return s.lookAround()
		},
	})
}

// restarter is a target whose cluster can be restarted.
type restarter interface{ restart() error }
