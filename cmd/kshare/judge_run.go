package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"kshare/conformance/casereport"
	"kshare/conformance/cases"
)

// caseFlags are the flags of kshare judge run.
type caseFlags struct {
	clients  []string
	cases    []string
	short    bool
	parallel int
	again    int
	strict   bool
	reports  []string
	evidence string
	resume   string
}

func judgeRunCommand() *cobra.Command {
	var f caseFlags
	c := &cobra.Command{
		Use:   "run --client DRIVER",
		Short: "Put a client through cases: what it must survive, provoked one at a time",
		Long: `Puts a client through cases, each with a cluster of its own that goes wrong in one way. The client is run by a driver, a small program that docs/drivers.md describes. kshare judge list
--cases tells which cases there are.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	c.Flags().StringArrayVar(&f.clients, "client", nil, "`command` of a driver; may be repeated")
	c.Flags().StringSliceVar(&f.cases, "cases", nil, "ids or families (ses, ses.02, e76.*), with ! in front to leave them out; all without")
	c.Flags().BoolVar(&f.short, "short", false, "leave out what the short form leaves out: of errors for ten seconds, and at the join, all but one of a kind")
	c.Flags().IntVar(&f.parallel, "parallel", 8, "how many cases run at a time")
	c.Flags().IntVar(&f.again, "again", 0, "how often a case that has failed is put to the client again, by itself, when all others are done; the best verdict counts, and is said to be unsteady")
	c.Flags().BoolVar(&f.strict, "strict", false, "end with status 1 for a SHOULD that is broken too")
	c.Flags().StringArrayVar(&f.reports, "report", nil, "`file` to write the verdicts to: .txt, .json, .xml (JUnit), .html, .svg (a badge) or .md (the page of all cases); may be repeated")
	c.Flags().StringVar(&f.evidence, "evidence", "", "`directory` for what the client sent in each case that does not pass: the frames for kshare judge recording, and a scenario for kshare run")
	c.Flags().StringVar(&f.resume, "resume", "", "JSON `file` of a run that was ended: its results are kept, and it grows with each case")
	return c
}

func judgeCheckDriverCommand() *cobra.Command {
	var client string
	c := &cobra.Command{
		Use:   "check-driver --client DRIVER",
		Short: "Check that a driver does as it is told, before its client is judged",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if client == "" {
				return errors.New("--client is the command of a driver: docs/drivers.md tells how to write one")
			}
			r, err := cases.Run(cmd.Context(), cases.Options{Client: strings.Fields(client), Cases: cases.DriverChecks(), Parallel: 4, Done: func(x cases.Result, _ *cases.Report) {
				fmt.Fprintf(cmd.ErrOrStderr(), "%-14s %s %s\n", x.Verdict, x.ID, x.Why)
			}})
			if err != nil {
				return err
			}
			if err := casereport.Console(cmd.OutOrStdout(), []*cases.Report{r}); err != nil {
				return err
			}
			if bad := len(r.Results) - r.Summary[cases.Pass] - r.Summary[cases.Skip]; bad > 0 {
				return fmt.Errorf("%d of %d checks fail", bad, len(r.Results))
			}
			return nil
		},
	}
	c.Flags().StringVar(&client, "client", "", "`command` of the driver")
	return c
}

func judgeSelfTestCommand() *cobra.Command {
	var clients []string
	c := &cobra.Command{
		Use:   "selftest --client DRIVER",
		Short: "Prove that the cases catch mistakes: a client that passes, and what a mistake makes of it",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(clients) == 0 {
				return errors.New("--client is the command of the driver of a client that passes the cases of mutants")
			}
			var commands [][]string
			for _, c := range clients {
				commands = append(commands, strings.Fields(c))
			}
			all, err := cases.SelfTest(cmd.Context(), commands, 8, func(c cases.Caught) {
				verdict := "caught"
				if !c.OK() {
					verdict = "MISSED"
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%s %-12s %s: without it %s, with it %s: %s\n", verdict, c.Case, c.Says, c.Good.Verdict, c.Bad.Verdict, c.Bad.Why)
			})
			if err != nil {
				return err
			}
			caught := 0
			for i := range all {
				if all[i].OK() {
					caught++
				}
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%d of %d mutants are caught\n", caught, len(all))
			if caught < len(all) {
				return errors.New("a mistake was not caught")
			}
			return nil
		},
	}
	c.Flags().StringArrayVar(&clients, "client", nil, "`command` of a driver; may be repeated: a case is put to the first that can do what it needs")
	return c
}

func (f *caseFlags) run(cmd *cobra.Command) error {
	if len(f.clients) == 0 {
		return errors.New("--client is the command of a driver: docs/drivers.md tells how to write one")
	}
	chosen, err := cases.Select(f.cases, f.short)
	if err != nil {
		return err
	}
	for _, name := range f.reports {
		if _, err := casereport.For(name); err != nil {
			return err
		}
	}
	kept, err := f.kept()
	if err != nil {
		return err
	}
	var all []*cases.Report
	for _, client := range f.clients {
		r, err := f.one(cmd.Context(), cmd, client, chosen, kept)
		if err != nil {
			return fmt.Errorf("%s: %w", client, err)
		}
		all = append(all, r)
		kept = cases.Merge(kept, []*cases.Report{r})
	}
	if err := casereport.Console(cmd.OutOrStdout(), all); err != nil {
		return err
	}
	for _, name := range f.reports {
		if err := writeCases(name, all); err != nil {
			return err
		}
	}
	return f.verdict(all)
}

// one puts one client through the cases.
func (f *caseFlags) one(ctx context.Context, cmd *cobra.Command, client string, chosen []cases.Case, kept []*cases.Report) (*cases.Report, error) {
	done := 0
	return cases.Run(ctx, cases.Options{Client: strings.Fields(client), Cases: chosen, Parallel: f.parallel, Again: f.again, Known: kept, Done: func(x cases.Result, r *cases.Report) {
		done++
		fmt.Fprintf(cmd.ErrOrStderr(), "%s %d: %-14s %s %s\n", r.Client, done, x.Verdict, x.ID, x.Why)
		if err := f.keep(r.Client, &x); err != nil {
			fmt.Fprintln(cmd.ErrOrStderr(), "--evidence:", err)
		}
		if f.resume != "" {
			if err := writeCases(f.resume, cases.Merge(kept, []*cases.Report{r})); err != nil {
				fmt.Fprintln(cmd.ErrOrStderr(), "--resume:", err)
			}
		}
	}})
}

func (f *caseFlags) kept() ([]*cases.Report, error) {
	if f.resume == "" {
		return nil, nil
	}
	file, err := os.Open(f.resume)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	all, err := cases.Read(file)
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("--resume %s: %w", f.resume, err)
	}
	return all, nil
}

// keep writes the frames of a case, and what the client has sent as a scenario.
func (f *caseFlags) keep(client string, r *cases.Result) error {
	if f.evidence == "" || len(r.Frames) == 0 {
		return nil
	}
	if err := os.MkdirAll(f.evidence, 0o755); err != nil {
		return err
	}
	name := filepath.Join(f.evidence, client+"-"+r.ID)
	return errors.Join(os.WriteFile(name+".jsonl", r.Frames, 0o644), os.WriteFile(name+".txt", r.Scenario, 0o644))
}

// verdict is an error where a client has broken a MUST, or a SHOULD with --strict.
func (f *caseFlags) verdict(all []*cases.Report) error {
	var err error
	for _, r := range all {
		bad := r.Summary[cases.Fail] + r.Summary[cases.HarnessFailed]
		if f.strict {
			bad += r.Summary[cases.Warn]
		}
		if bad > 0 {
			err = errors.Join(err, fmt.Errorf("%s %s: %d cases are not passed", r.Client, r.Version, bad))
		}
	}
	return err
}

func writeCases(name string, all []*cases.Report) error {
	write, err := casereport.For(name)
	if err != nil {
		return err
	}
	file, err := os.Create(name + ".new")
	if err != nil {
		return err
	}
	if err := errors.Join(write(file, all), file.Close()); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}
