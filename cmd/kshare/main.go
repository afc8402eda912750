// Command kshare runs a fake Kafka that knows share groups.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
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
	root.AddCommand(serveCommand(), runCommand(), diffCommand(), commandsCommand())
	return root
}
