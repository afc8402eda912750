// Command kshare runs a fake Kafka that knows share groups.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"kshare/internal/spelling"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "kshare:", strings.TrimPrefix(err.Error(), "kshare: ")) // the package begins its errors so too
		stop()
		os.Exit(1)
	}
}

// command is the command line.
func command() *cobra.Command {
	root := &cobra.Command{
		Use:           "kshare",
		Short:         "A fake Apache Kafka 4.4 that knows share groups",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetFlagErrorFunc(flagError)
	root.AddCommand(serveCommand(), runCommand(), diffCommand(), commandsCommand(), judgeCommand(), kip1289Command(), exploreCommand(), checkCommand(), sinkCommand())
	return root
}

// flagError says what is wrong with a flag, and which one was meant.
func flagError(cmd *cobra.Command, err error) error {
	var (
		wrong   *pflag.InvalidValueError
		unknown *pflag.NotExistError
	)
	switch {
	case errors.As(err, &wrong):
		return fmt.Errorf("--%s %q is not %s", wrong.GetFlag().Name, wrong.GetValue(), valueOf(wrong.GetFlag()))
	case errors.As(err, &unknown):
		var known []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, "--"+f.Name) })
		name := "--" + unknown.GetSpecifiedName()
		if unknown.GetSpecifiedShortnames() != "" {
			name = "-" + unknown.GetSpecifiedName()
		}
		return fmt.Errorf("%s has no flag %s%s; %s --help lists them", cmd.Name(), name, spelling.DidYouMean(name, known), cmd.CommandPath())
	}
	return err
}

// valueOf says what the value of a flag is to be like.
func valueOf(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "int", "int32", "int64", "uint64":
		return "a whole number"
	case "bool":
		return "true or false"
	case "duration":
		return "a duration like 31s"
	}
	return "a " + f.Value.Type()
}

// noArguments refuses arguments of a command that has none.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%s takes no arguments: %q is one too many; %s --help lists its flags", cmd.Name(), args[0], cmd.CommandPath())
	}
	return nil
}
