// Command bench measures kshare beside kfake, franz-go's fake Kafka, and writes the table of docs/benchmarks.md.
//
// Each broker is a process of its own, fresh for each run, and is given its work by this program over loopback connections. Every trial is run several
// times, the two brokers taking turns, so that what else goes on in the machine meets both; medians are compared. CPU time and memory are the
// kernel's accounts of the broker's process. It builds the brokers and has to run in its own directory.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var o options
	flag.BoolVar(&o.quick, "quick", false, "a smoke test of some seconds; its figures mean little")
	flag.StringVar(&o.out, "out", "", "`file` to write the table to as well, in Markdown")
	flag.StringVar(&o.only, "run", "", "`regexp` of the trials to run, matched against section and name")
	flag.IntVar(&o.rounds, "rounds", 0, "how often each broker runs each trial, 0 for the default")
	flag.StringVar(&o.profiles, "profiles", "", "`directory` for CPU profiles of kshare, one a run; runs kshare without kfake")
	flag.Parse()
	if err := run(ctx, &o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

type options struct {
	quick    bool
	out      string
	only     string
	rounds   int
	profiles string
}

func run(ctx context.Context, o *options) error {
	s := fullSizes
	if o.quick {
		s = quickSizes
	}
	if o.rounds > 0 {
		s.rounds = o.rounds
	}
	only, err := regexp.Compile(o.only)
	if err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	dir, err := os.MkdirTemp("", "kshare-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	brokers, err := build(ctx, dir, o.profiles)
	if err != nil {
		return err
	}
	var results []*result
	for _, t := range trials(&s) {
		if !only.MatchString(t.section + ": " + t.name) {
			continue
		}
		if t.derive != nil {
			if r := t.derived(results); r != nil {
				r.print(os.Stdout)
				results = append(results, r)
			}
			continue
		}
		r, err := t.measure(ctx, brokers, s.rounds, o.profiles == "")
		if err != nil {
			return fmt.Errorf("%s: %s: %w", t.section, t.name, err)
		}
		r.print(os.Stdout)
		results = append(results, r)
	}
	if o.out == "" {
		return nil
	}
	return writePage(o.out, results, &s)
}

// derived makes the result of a trial that only looks at those of others, nil where it lacks one.
func (t *trial) derived(others []*result) *result {
	r := &result{trial: t}
	for i := range r.values {
		r.values[i] = t.derive(others, i)
	}
	if r.values[kshareBroker] == nil {
		return nil
	}
	return r
}

// measure runs a trial in rounds. The broker that goes first changes from round to round.
func (t *trial) measure(ctx context.Context, brokers [2]broker, rounds int, compare bool) (*result, error) {
	r := &result{trial: t}
	for round := range rounds {
		for turn := range 2 {
			i := (round + turn) % 2
			if i == kfakeBroker && (!compare || t.alone) {
				continue
			}
			values, err := t.run(ctx, &brokers[i])
			if err != nil {
				return nil, fmt.Errorf("%s: %w", brokers[i].name, err)
			}
			r.values[i] = append(r.values[i], values)
		}
	}
	return r, nil
}
