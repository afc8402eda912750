//go:build !before_1_22

package main

import "github.com/twmb/franz-go/pkg/kgo"

// nextGeneration has a member take part in a group of KIP-848.
func nextGeneration() []kgo.Opt {
	return []kgo.Opt{kgo.Balancers(kgo.RangeBalancer()), kgo.ServerSideBalancer()}
}
