package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"kshare"
	"kshare/scenario"
)

// runFlags are the flags of kshare run.
type runFlags struct {
	bootstrap string
	timing    string
	rewrite   bool
	print     bool
	junit     string
	json      bool
}

func runCommand() *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use:   "run FILE|DIRECTORY...",
		Short: "run scenarios in the process, or against a Kafka on the network",
		Long: `Runs scenarios, each in a cluster of its own on virtual time, and shows the blocks that show something else than they say. A directory stands for
the .txt files below it, - for standard input. With --bootstrap they run against a Kafka on the network, under names of their own; blocks with commands that it
cannot follow are not compared. Exits with 0 where everything is as it says, with 1 where something is not or a script has a mistake.
kshare commands lists the commands of the language.`,
		Args: func(_ *cobra.Command, names []string) error {
			if len(names) == 0 {
				return errors.New("run needs the scenarios to run: FILE, DIRECTORY or - for standard input")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, names []string) error {
			return f.run(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), names)
		},
	}
	c.Flags().StringVar(&f.bootstrap, "bootstrap", "", "host:port of a Kafka to run against, of one broker or of several with commas between")
	c.Flags().StringVar(&f.timing, "timing", "fast", "fast or kafka, where the script's cluster command does not say")
	c.Flags().BoolVar(&f.rewrite, "rewrite", false, "write what was shown into the files")
	c.Flags().BoolVar(&f.print, "print", false, "print the scenarios with what was shown")
	c.Flags().StringVar(&f.junit, "junit", "", "write a report in JUnit's XML to this file")
	c.Flags().BoolVar(&f.json, "json", false, "print a report as JSON")
	return c
}

func (f *runFlags) run(ctx context.Context, in io.Reader, out io.Writer, names []string) error {
	if f.rewrite && f.bootstrap != "" {
		return errors.New("--rewrite writes what kshare shows; it does not go with --bootstrap")
	}
	if _, ok := kshare.TimingNamed(f.timing); !ok {
		return fmt.Errorf("--timing %s: fast or kafka", f.timing)
	}
	files, err := scenarioNames(names)
	if err != nil {
		return err
	}
	var outcomes []scenario.Outcome
	failed, compared, blocks := 0, 0, 0
	for i, name := range files {
		o := scenario.Outcome{Name: name}
		if o.Report, o.Err = f.one(ctx, in, out, name, i); o.Failed() {
			failed++
		}
		c, all := o.Compared()
		compared, blocks = compared+c, blocks+all
		outcomes = append(outcomes, o)
		if !f.json && (!f.print || o.Err != nil) {
			fmt.Fprint(out, o.Text())
		}
		if ctx.Err() != nil {
			break
		}
	}
	if f.json {
		if err := scenario.WriteJSON(out, outcomes); err != nil {
			return err
		}
	}
	if f.junit != "" {
		var b bytes.Buffer
		if err := scenario.WriteJUnit(&b, outcomes); err != nil {
			return err
		}
		if err := os.WriteFile(f.junit, b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d scenarios fail", failed, len(files))
	}
	if !f.json && !f.print {
		fmt.Fprintf(out, "%s\n", passed(len(files), compared, blocks))
	}
	return nil
}

// passed says what has passed, and what could not be looked at.
func passed(files, compared, blocks int) string {
	text := fmt.Sprintf("%d scenarios pass", files)
	if files == 1 {
		text = "1 scenario passes"
	}
	if compared < blocks {
		text += fmt.Sprintf("; %d of their %d blocks were not compared", blocks-compared, blocks)
	}
	return text
}

// one runs one file.
func (f *runFlags) one(ctx context.Context, in io.Reader, out io.Writer, name string, i int) (*scenario.Report, error) {
	s, err := readScenario(in, name)
	if err != nil {
		return nil, err
	}
	timing, _ := kshare.TimingNamed(f.timing) // run has checked the name
	var target scenario.Target = scenario.NewLocal(kshare.WithTiming(timing))
	o := scenario.Options{}
	if f.bootstrap != "" {
		target = scenario.NewRemote(f.bootstrap)
		o.Prefix = fmt.Sprintf("%s%d-", runPrefix(), i)
	}
	r, err := scenario.RunContext(ctx, s, target, o)
	if f.print {
		fmt.Fprint(out, string(r.Rewritten()))
	}
	if f.rewrite && err == nil && name != "-" {
		if err := os.WriteFile(name, r.Rewritten(), 0o644); err != nil {
			return nil, err
		}
		r.Accept()
	}
	return r, err
}

// scenarioNames puts the files below directories in their place.
func scenarioNames(names []string) (files []string, err error) {
	for _, name := range names {
		info, err := os.Stat(name)
		if name == "-" || err == nil && !info.IsDir() {
			files = append(files, name)
			continue
		}
		if err != nil {
			return nil, err
		}
		before := len(files)
		err = filepath.WalkDir(name, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".txt") {
				return err
			}
			info, err := os.Stat(path)
			if err == nil && !info.Mode().IsRegular() {
				return fmt.Errorf("%s is no regular file: name it itself if it is to be read", path) // a pipe might never end
			}
			files = append(files, path)
			return err
		})
		if err != nil {
			return nil, err
		}
		if len(files) == before {
			return nil, fmt.Errorf("there is no .txt file below %s", name)
		}
	}
	return files, nil
}

func readScenario(in io.Reader, name string) (*scenario.File, error) {
	if name == "-" {
		text, err := io.ReadAll(io.LimitReader(in, scenario.MaxFile+1))
		if err != nil {
			return nil, err
		}
		return scenario.Parse(name, text)
	}
	file, err := os.Open(filepath.Clean(name))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, scenario.MaxFile+1))
	if err != nil {
		return nil, err
	}
	return scenario.Parse(name, text)
}

func commandsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "commands [COMMAND]",
		Short: "list the commands of scenarios, or describe one",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, names []string) error {
			text, err := scenario.Help(strings.Join(names, ""))
			fmt.Fprint(cmd.OutOrStdout(), text)
			return err
		},
	}
}
