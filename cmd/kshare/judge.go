package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"kshare"
	"kshare/conformance"
	"kshare/conformance/cases"
	"kshare/conformance/recording"
	"kshare/conformance/report"
)

func judgeCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "judge",
		Short: "Judge what a client of Kafka puts on the wire: does it speak share groups correctly?",
		Long: `Judge what a client of Kafka puts on the wire. kshare serve --judge judges the clients of a kshare, and kshare judge proxy
those of any Kafka; here is what there is besides.`,
		Args: cobra.NoArgs,
	}
	c.AddCommand(judgeListCommand(), judgeRunCommand(), judgeCheckDriverCommand(), judgeSelfTestCommand(), judgeProxyCommand(), judgeRecordingCommand(), judgeMergeCommand())
	return c
}

func judgeListCommand() *cobra.Command {
	ofCases := false
	c := &cobra.Command{
		Use:   "list",
		Short: "List the rules, or the cases",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b := &strings.Builder{}
			if ofCases {
				for _, c := range cases.All() {
					fmt.Fprintf(b, "%-14s %-6s %s\n", c.ID, c.Level, c.Line())
				}
				_, err := io.WriteString(cmd.OutOrStdout(), b.String())
				return err
			}
			for i := range conformance.Rules {
				r := &conformance.Rules[i]
				fmt.Fprintf(b, "%-22s %-6s %s", r.ID, r.Level, r.Says)
				if r.Needs != "" {
					fmt.Fprintf(b, " (needs %s)", r.Needs)
				}
				b.WriteByte('\n')
			}
			_, err := io.WriteString(cmd.OutOrStdout(), b.String())
			return err
		},
	}
	c.Flags().BoolVar(&ofCases, "cases", false, "list the cases of kshare judge run")
	return c
}

// judgeFlags are what commands that end with verdicts have in common.
type judgeFlags struct {
	reports []string
	strict  bool
}

func (f *judgeFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&f.reports, "report", nil, "`file` to write the verdicts to: .txt, .json, .xml (JUnit), .html or .svg (a badge); may be repeated")
	cmd.Flags().BoolVar(&f.strict, "strict", false, "end with status 1 where a client has broken a MUST")
}

func judgeRecordingCommand() *cobra.Command {
	var f judgeFlags
	c := &cobra.Command{
		Use:   "recording FILE...",
		Short: "Judge the frames of recordings that --judge-record or --record made",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, files []string) error {
			var all []*conformance.Report
			for _, name := range files {
				r, err := judgeRecording(name)
				if err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				all = append(all, r)
			}
			return f.tell(cmd.OutOrStdout(), merged(all))
		},
	}
	f.add(c)
	return c
}

func judgeRecording(name string) (*conformance.Report, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	frames, err := recording.Read(file)
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	if len(frames) == 0 {
		return nil, errors.New("it has no frames")
	}
	j := conformance.New(conformance.Options{})
	for _, frame := range frames {
		j.Observe(frame)
	}
	return j.Report(frames[len(frames)-1].At), nil
}

func judgeMergeCommand() *cobra.Command {
	var f judgeFlags
	c := &cobra.Command{
		Use:   "merge REPORT.json...",
		Short: "Make one report of several: of each rule the worst verdict",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, files []string) error {
			var all []*conformance.Report
			for _, name := range files {
				file, err := os.Open(name)
				if err != nil {
					return err
				}
				r, err := report.Read(file)
				if err = errors.Join(err, file.Close()); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				all = append(all, r)
			}
			return f.tell(cmd.OutOrStdout(), merged(all))
		},
	}
	f.add(c)
	return c
}

func merged(all []*conformance.Report) *conformance.Report {
	if len(all) == 1 {
		return all[0]
	}
	return conformance.Merge(all...)
}

// tell prints the verdicts and writes them to the files that were asked for. It is an error where a MUST is broken and --strict is on.
func (f *judgeFlags) tell(out io.Writer, r *conformance.Report) error {
	err := report.Console(out, r)
	for _, name := range f.reports {
		err = errors.Join(err, writeReport(name, r))
	}
	if f.strict && len(r.Failures) > 0 {
		err = errors.Join(err, fmt.Errorf("clients have broken %d rules that they must keep: %s", len(r.Failures), strings.Join(r.Failures, ", ")))
	}
	return err
}

// checkReports tells what is wrong with the names of files of reports, before anything is done.
func checkReports(names []string) error {
	for _, name := range names {
		if _, err := report.For(name); err != nil {
			return err
		}
	}
	return nil
}

func writeReport(name string, r *conformance.Report) error {
	if err := checkReports([]string{name}); err != nil {
		return err
	}
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(report.Write(file, name, r), file.Close())
}

// judged tells whether clients are judged.
func (f *serveFlags) judged() bool {
	return f.judge || len(f.judgeReports) > 0 || f.judgeRecord != "" || f.judgeStrict
}

// tell prints the verdicts of kshare serve.
func (f *serveFlags) tell(out io.Writer, r *kshare.JudgeReport) error {
	of := judgeFlags{f.judgeReports, f.judgeStrict}
	return of.tell(out, r)
}

// frameFile is a file of frames. A nil one is none.
type frameFile struct {
	file *os.File
	*bufio.Writer
}

// record opens the file of --judge-record, nil where there is none.
func (f *serveFlags) record() (*frameFile, error) {
	if err := checkReports(f.judgeReports); err != nil {
		return nil, fmt.Errorf("--judge-report: %w", err)
	}
	return createFrames("--judge-record", f.judgeRecord)
}

func createFrames(flag, name string) (*frameFile, error) {
	if name == "" {
		return nil, nil
	}
	file, err := os.Create(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	return &frameFile{file, bufio.NewWriter(file)}, nil
}

func (r *frameFile) options() []kshare.Option {
	if r == nil {
		return nil
	}
	return []kshare.Option{kshare.WithJudgeRecording(r)}
}

// Close writes what is left, and closes the file.
func (r *frameFile) Close() error {
	if r == nil {
		return nil
	}
	return errors.Join(r.Flush(), r.file.Close())
}
