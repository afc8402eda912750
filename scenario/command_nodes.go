package scenario

import (
	"net"
	"strconv"
)

// nodeCommand registers a command that does something to a node.
func nodeCommand(name, summary, done, example string, do func(Nodes, int32) error) {
	register(&command{
		name: name, usage: name + " NODE", summary: summary, example: example,
		least: 1, most: 1, reach: operated,
		check: func(c *call) error { _, err := number(c.words[0], 0, 1<<31-1); return err },
		run: func(s *step, c *call) error {
			id, err := number(c.words[0], 0, 1<<31-1)
			if err != nil {
				return err
			}
			if err := do(s.target.nodes(), int32(id)); err != nil {
				return mistakeFrom(err)
			}
			s.cut[int32(id)] = name == cutNode
			if name == stopNode {
				delete(s.nodes, int32(id))
			}
			s.printf("node %d: %s", id, done)
			return s.lookAround()
		},
	})
}

const (
	stopNode = "stop-node"
	cutNode  = "cut-node"
)

func init() {
	nodeCommand(stopNode, "Stops a node as a controlled shutdown does: its connections end, others lead what it led.", "stopped", `
cluster brokers=2
topic orders partitions=2 replicas=2
stop-node 1
describe-topic orders
----
orders: 2 partitions
node 1: stopped
orders: id <topic:orders>
  orders-0: leader 2 epoch 1, replicas 1 2, in sync 2, offline 1
  orders-1: leader 2 epoch 0, replicas 2 1, in sync 2, offline 1
`, Nodes.StopNode)
	nodeCommand("start-node", "Starts a stopped node again, at the address that it had.", "started", `
cluster brokers=2
topic orders partitions=2 replicas=2
stop-node 1
start-node 1
describe-topic orders
----
orders: 2 partitions
node 1: stopped
node 1: started
orders: id <topic:orders>
  orders-0: leader 2 epoch 1, replicas 1 2, in sync 1 2
  orders-1: leader 2 epoch 0, replicas 2 1, in sync 1 2
`, Nodes.StartNode)
	nodeCommand(cutNode, "Cuts a node off the network: nothing arrives there and nothing comes from it. After 9 s it is fenced and others lead what it led.", "cut off", `
cluster brokers=2
topic orders partitions=2 replicas=2
cut-node 2
advance 9s
describe-topic orders
----
orders: 2 partitions
node 2: cut off
orders: id <topic:orders>
  orders-0: leader 1 epoch 0, replicas 1 2, in sync 1, offline 2
  orders-1: leader 1 epoch 1, replicas 2 1, in sync 1, offline 2
`, Nodes.CutNode)
	nodeCommand("heal-node", "Ends the cut of a node.", "healed", `
cluster brokers=2
topic orders replicas=2
cut-node 2
produce orders-0 a
heal-node 2
----
orders: 1 partition
node 2: cut off
orders-0: offset 0
node 2: healed
`, Nodes.HealNode)
}

// lookAround takes in which nodes there are and forgets connections that have ended. A kshare is not asked by a request, for who would answer may be cut off.
func (s *step) lookAround() error {
	for _, k := range s.connKeys() { // a connection to a node that was healed goes on as it is looked at
		if s.conns[k].ended() {
			delete(s.conns, k)
		}
	}
	cluster := s.target.cluster()
	if cluster == nil {
		if err := s.learnNodes(); err != nil {
			return err
		}
		return s.settle()
	}
	s.nodes = map[int32]string{}
	for _, n := range cluster.InspectNodes() {
		if n.Runs && !n.Fenced {
			s.nodes[n.ID] = net.JoinHostPort(n.Host, strconv.Itoa(int(n.Port)))
		}
	}
	return nil
}
