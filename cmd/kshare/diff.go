package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"kshare"
	"kshare/release"
	"kshare/scenario"
)

// diffFlags are the flags of kshare diff.
type diffFlags struct {
	against string
	kafka   string
	random  bool
	seed    uint64
	seeds   int
	steps   int
	shrink  int
}

func diffCommand() *cobra.Command {
	var f diffFlags
	c := &cobra.Command{
		Use:   "diff [FILE...] --against host:port",
		Short: "run scenarios here and against a Kafka, and show where they differ",
		Long: `Runs scenarios here and against a Kafka on the network and shows, side by side, each command that differs in several runs. What a Kafka on
the network does not show or cannot do is counted, not compared. With --random the scenarios follow from seeds, and one that differs is
shrunk to a short script; the Kafka must have group.initial.rebalance.delay.ms=0 then. Topics and groups get names of their own, so that
the Kafka may be in use. Exits with 1 where something differs.`,
		RunE: func(cmd *cobra.Command, files []string) error {
			if f.against == "" {
				return errors.New("diff needs a Kafka to compare with: --against host:port")
			}
			if (len(files) > 0) == f.random {
				return errors.New("diff needs scenario files, or --random, one of the two")
			}
			return f.run(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), files)
		},
	}
	c.Flags().StringVar(&f.against, "against", "", "host:port of the Kafka to compare with, of one broker or of several with commas between")
	c.Flags().StringVar(&f.kafka, "kafka-version", release.Latest.String(), "`line` of Apache Kafka that kshare is, unless a scenario says: 4.2, 4.3 or 4.4")
	c.Flags().BoolVar(&f.random, "random", false, "write the scenarios from seeds")
	c.Flags().Uint64Var(&f.seed, "seed", 1, "the first seed")
	c.Flags().IntVar(&f.seeds, "seeds", 1, "how many seeds, each one more than the last")
	c.Flags().IntVar(&f.steps, "steps", 50, "commands of a random scenario")
	c.Flags().IntVar(&f.shrink, "shrink", 100, "how many shorter scripts are tried for one that differs")
	return c
}

func (f *diffFlags) run(ctx context.Context, in io.Reader, out io.Writer, files []string) error {
	d := &scenario.Differ{
		Here: func() *scenario.Local {
			return scenario.NewLocal(kshare.WithTiming(kshare.TimingKafka), kshare.WithKafkaVersion(f.kafka))
		},
		There:   func() scenario.Target { return scenario.NewRemote(f.against) },
		Prefix:  runPrefix(),
		Context: ctx,
	}
	if f.steps < 1 || f.steps > maxSteps || f.seeds < 1 {
		return fmt.Errorf("--steps is from 1 to %d and --seeds 1 or more", maxSteps)
	}
	differing := 0
	each := func(s *scenario.File) error {
		c, err := d.Compare(s)
		if err != nil {
			return err
		}
		_, differ, _ := c.Tally()
		if differ > 0 {
			differing++
			if f.random {
				fmt.Fprintf(out, "%s differs, looking for a shorter script\n", s.Name)
				if c, err = d.Shrink(c, f.shrink); err != nil {
					return err
				}
				fmt.Fprint(out, c.File.Text())
			}
		}
		fmt.Fprint(out, c.SideBySide("kshare", f.against))
		return nil
	}
	if f.random {
		for i := range f.seeds {
			s, err := scenario.Random(f.seed+uint64(i), f.steps)
			if err == nil {
				err = each(s)
			}
			if err != nil {
				return err
			}
		}
	}
	files, err := scenarioNames(files)
	if err != nil {
		return err
	}
	for _, name := range files {
		s, err := readScenario(in, name)
		if err == nil {
			err = each(s)
		}
		if err != nil {
			return err
		}
	}
	if differing > 0 {
		return fmt.Errorf("%d of the scenarios differ", differing)
	}
	return nil
}

// maxSteps bounds the commands of a random scenario.
const maxSteps = 10_000

// runPrefix begins the names that this process uses on a Kafka that others use too, or have used: process ids come again.
func runPrefix() string { return fmt.Sprintf("run%d-%d-", os.Getpid(), time.Now().UnixMilli()) }
