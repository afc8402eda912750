// Package scenario is a language for what happens between Kafka clients and brokers: the same readable file runs here, in the process and on
// virtual time, and over the wire against any Kafka.
//
// A file is blocks of commands, a line of four dashes and what the commands showed, up to the next blank line:
//
//	# What a member releases comes back with its count raised.
//
//	topic orders
//	config group workers share.auto.offset.reset=earliest
//	produce orders-0 a b
//	join workers m1 orders
//	----
//	orders: 1 partition
//	workers: ok
//	orders-0: offsets 0-1
//	m1: epoch 3, assigned orders-0
//
//	fetch workers m1
//	----
//	orders-0: acquired 0-1 count 1, lock 30s
//	  0 a | 1 b
//
// A line that begins with # is a comment. Words are separated by spaces; "quotes" keep them together, with Go's escapes. A word key=value is an option of
// the command. Help lists the commands, each with an example.
//
// A mistake in the script stops the run with its line and reason. An error of the broker is a result.
//
// Ids that a broker makes up have names in what is shown: <topic:orders> for a topic's, m1 for a member's, <p1> for a producer's, <uuid-1> for others
// in the order of their appearance. A later one of the same topic, member or producer has a number: m1#2. What Kafka leaves open, such as the order of
// partitions in an answer, is shown in one order.
//
// A command that ends in a word &name runs in the background: it begins, and "wait name" shows what came of it. Times are shown rounded to half
// seconds, so that a line is the same on virtual and on real time.
package scenario
