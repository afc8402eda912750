package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"kshare/clock"
	"kshare/conformance"
	"kshare/conformance/live"
	"kshare/conformance/proxy"
	"kshare/fault"
)

// proxyFlags are the flags of kshare judge proxy.
type proxyFlags struct {
	judgeFlags
	upstream []string
	listen   string
	faults   []string
	record   string
	logLevel string
	ready    serveFlags // of which the ready file counts
}

func judgeProxyCommand() *cobra.Command {
	var f proxyFlags
	c := &cobra.Command{
		Use:   "proxy --upstream host:port",
		Short: "Judge the clients of any Kafka: a proxy in front of it, until SIGTERM or SIGINT",
		Long: `Judge the clients of any Kafka: a proxy in front of it, until SIGTERM or SIGINT. It listens once for each node of the cluster and prints

    READY host:port[,host:port...]

which is what a client takes as its bootstrap servers; addresses in answers lead back to the proxy. The listener of the cluster must be PLAINTEXT or
SASL_PLAINTEXT. What clients log in with is neither kept nor recorded. The verdicts are printed to standard error at the end.`,
		Example: `  kshare judge proxy --upstream 127.0.0.1:9092 --listen 127.0.0.1:19092 --report report.html
  kshare judge proxy --upstream 127.0.0.1:9092 --fault 'api=ShareFetch nth=5 times=1 error=SHARE_SESSION_NOT_FOUND'
  kshare judge proxy --upstream 1=127.0.0.1:9093,2=127.0.0.1:9094   # clients have to log in, so the proxy cannot ask for the nodes`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := c.Flags()
	flags.StringSliceVar(&f.upstream, "upstream", nil, "`host:port` of a broker of the cluster; several, separated by commas, where one may be down. ID=host:port of each node where clients have to log in")
	flags.StringVar(&f.listen, "listen", "127.0.0.1:0", "`host:port` to listen on for the first node, the others take the following ports; port 0 for free ones")
	flags.StringArrayVar(&f.faults, "fault", nil, "`rule` of what goes wrong on the way, as kshare serve takes them; may be repeated")
	flags.StringVar(&f.record, "record", "", "`file` to record all frames of clients in, for kshare judge recording")
	flags.StringVar(&f.ready.readyFile, "ready-file", "", "`file` to write the READY line to as well")
	flags.StringVar(&f.logLevel, "log-level", "warn", "debug, info, warn or error")
	f.add(c)
	return c
}

func (f *proxyFlags) run(cmd *cobra.Command) error {
	if len(f.upstream) == 0 {
		return errors.New("proxy needs a Kafka to stand in front of: --upstream host:port")
	}
	if err := checkReports(f.reports); err != nil {
		return fmt.Errorf("--report: %w", err)
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.logLevel)); err != nil {
		return fmt.Errorf("--log-level %q is not debug, info, warn or error", f.logLevel)
	}
	var rules []fault.Rule
	for _, text := range f.faults {
		r, err := fault.ParseRule(strings.Fields(text)...)
		if err != nil {
			return fmt.Errorf("--fault %q: %w", text, err)
		}
		rules = append(rules, r)
	}
	recorder, err := createFrames("--record", f.record)
	if err != nil {
		return err
	}
	var frames io.Writer
	if recorder != nil {
		frames = recorder
	}
	judge := live.New(conformance.Options{}, clock.Machine{}, frames)
	p, err := proxy.Start(cmd.Context(), proxy.Options{
		Upstream: f.upstream, Listen: f.listen, Tap: judge, Faults: rules,
		Log: slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: level})),
	})
	if err != nil {
		return errors.Join(err, recorder.Close())
	}
	err = f.ready.announce(cmd.OutOrStdout(), "READY "+strings.Join(p.Addrs(), ",")+"\n")
	if err == nil {
		<-cmd.Context().Done()
	}
	return errors.Join(err, p.Close(), judge.Recorded(), recorder.Close(), f.tell(cmd.ErrOrStderr(), judge.Report()))
}
