package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"kshare/check"
	"kshare/kip1289"
)

// checkFlags are the flags of kshare check.
type checkFlags struct {
	model    check.Model
	faults   []string
	without  []string
	switches []string
	memory   int64 // MiB
	quiet    bool
	trace    string
	table    string
}

// checkGCPercent has the garbage collector run less often: what an exploration leaves behind is much, and what it keeps is little.
const checkGCPercent = 800

func checkCommand() *cobra.Command {
	f := checkFlags{model: check.Default()}
	c := &cobra.Command{
		Use:   "check",
		Short: "explore every order of events around acknowledgements in transactions (KIP-1289), up to a bound",
		Long: `Explores what the state machines of share partitions, the share coordinator and the transaction coordinator can come to, breadth first: every order of what members and
producers do and of what goes wrong between them. Properties are looked at in each state. The first that does not hold is shown by a shortest trace, as a scenario that kshare run
shows in a broker too, and the command exits with 1. docs/check.md explains what is explored and what is not.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	m, flags := &f.model, c.Flags()
	flags.IntVar(&m.Members, "members", m.Members, "members of the group, 1 to 3")
	flags.IntVar(&m.Records, "records", m.Records, "records of the partition, 1 to 6")
	flags.IntVar(&m.Producers, "producers", m.Producers, "transactional producers, 1 to 3")
	flags.IntVar(&m.Depth, "depth", m.Depth, "length of the longest trace, 0 for the whole state space")
	flags.StringSliceVar(&f.faults, "faults", nil, "what may go wrong: all, none, or of "+strings.Join(check.Faults, ","))
	flags.StringSliceVar(&f.without, "without", nil, "faults to leave out")
	flags.IntVar(&m.MostFaults, "most-faults", m.MostFaults, "faults in one trace, 0 for any number; locks that end and late clients are none")
	flags.BoolVar(&m.CountAll, "count-all", m.CountAll, "locks that end or are renewed and late clients count as faults too")
	flags.BoolVar(&m.InOrder, "in-order", m.InOrder, "members settle what they hold in the order of its offsets")
	flags.IntVar(&m.Limit, "delivery-limit", m.Limit, "share.delivery.count.limit, 2 to 5")
	flags.IntVar(&m.Writes, "writes", m.Writes, "state writes that may be on their way at a time, 0 to 3")
	flags.IntVar(&m.Held, "markers", m.Held, "markers that may be on their way at a time, 0 to 3")
	flags.IntVar(&m.EndTxn, "end-txn-version", m.EndTxn, "version of EndTxn that producers speak: 5, or 4 with which they keep their epoch")
	flags.StringArrayVar(&f.switches, "switch", nil, "a switch of KIP-1289 as name=value; kshare kip1289 switches lists them")
	flags.Int64Var(&f.memory, "memory", 1024, "MiB that the states may take, about; the search ends there")
	flags.BoolVar(&f.quiet, "quiet", false, "show no progress")
	flags.StringVar(&f.trace, "trace", "", "write the trace to this file instead of showing it")
	flags.StringVar(&f.table, "table", "", "explore the defaults and each unsafe switch, and write the table of docs/kip-1289.md and its traces in this copy of the repository; other flags do not count")
	return c
}

func (f *checkFlags) run(ctx context.Context, out, progress io.Writer) error {
	limits := check.Limits{Memory: f.memory << 20}
	if !f.quiet {
		limits.Progress = func(p check.Progress) {
			fmt.Fprintf(progress, "depth %d: %d states, %d steps, %d a second\n", p.Depth, p.States, p.Steps, p.PerSecond)
		}
	}
	debug.SetGCPercent(checkGCPercent)
	if f.table != "" {
		return check.WriteTable(ctx, f.table, limits)
	}
	var err error
	if f.model.Switches, err = kip1289.Parse(f.switches...); err != nil {
		return err
	}
	if f.model.Faults, err = check.FaultsNamed(f.faults, f.without); err != nil {
		return err
	}
	r, err := check.Explore(ctx, &f.model, limits)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, r)
	if len(r.Broken) == 0 {
		return nil
	}
	b := &r.Broken[0]
	text, err := b.Scenario("trace")
	if err != nil {
		return fmt.Errorf("the trace cannot be replayed, which is a mistake of the check itself: %w\n%s", err, text)
	}
	if f.trace != "" {
		if err := os.WriteFile(f.trace, []byte(text), 0o644); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(out, "\n%s", text)
	}
	return errors.New("this does not hold: " + b.Property)
}
