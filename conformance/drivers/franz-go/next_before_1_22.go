//go:build before_1_22

package main

import "github.com/twmb/franz-go/pkg/kgo"

// nextGeneration is nothing: releases before 1.22 are put through cases of share groups alone.
func nextGeneration() []kgo.Opt { return nil }
