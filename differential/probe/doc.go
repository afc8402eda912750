// Package probe sends the same random requests to two brokers and finds where their answers differ.
//
// A run follows from its seed: the requests are drawn from what clients send to topics, logs and groups, with ids,
// epochs and offsets that the first broker has told, and about every third is spoilt in one field. Both brokers are
// asked one after the other; the answers are compared as replay compares recordings. The second broker should make
// its topics with the ids that the first one gave them ([Prober.TopicID]), since answers follow from the hashes of ids.
package probe
