package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"kshare/explore"
	"kshare/internal/jsonhttp"
)

// exploreFlags are the flags of kshare explore.
type exploreFlags struct {
	script    string
	export    string
	http      string
	httpNames []string
	attach    string
	write     bool
	history   string
}

func exploreCommand() *cobra.Command {
	var f exploreFlags
	c := &cobra.Command{
		Use:   "explore",
		Short: "type commands of scenarios one by one and see what changes, with undo",
		Long: `Runs the commands of scenarios one by one on virtual time, and shows what each changes: records and their locks, groups, transactions, what is persisted. undo takes
them back, save writes the script, which kshare run takes. help lists the commands, Tab completes them. Where standard input is no terminal its lines are commands.

With --attach it looks at the cluster of a kshare serve --http, and prints requests, answers and changes as they happen.`,
		Example: `  kshare explore
  kshare explore --script testdata/scenarios/wire/released-records-come-before-new-ones.txt --export run.ndjson
  kshare explore --http 127.0.0.1:8080
  kshare explore --attach http://127.0.0.1:8080`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := c.Flags()
	flags.StringVar(&f.script, "script", "", "scenario `file` to begin with")
	flags.StringVar(&f.export, "export", "", "`file` to write what changes the state to, an event a line (docs/traces.md); needs --script, and ends")
	flags.StringVar(&f.http, "http", "", "`host:port` to serve the explorer as a web page on instead, port 0 for a free one; a port alone is on the loopback interface")
	flags.StringArrayVar(&f.httpNames, "http-name", nil, "host `name` that the page is reached by, where that is neither localhost nor an address; may be repeated")
	flags.StringVar(&f.attach, "attach", "", "`address` of the control interface of a kshare serve to look at, like http://127.0.0.1:8080")
	flags.BoolVar(&f.write, "write", false, "with --attach: let commands change the cluster, such as faults and those that move time")
	flags.StringVar(&f.history, "history", "", "`file` that remembers the lines of a terminal; none is kept without it")
	return c
}

// check tells which flags do not go together.
func (f *exploreFlags) check() error {
	switch {
	case f.export != "" && f.script == "":
		return errors.New("--export runs a script: add --script FILE")
	case f.write && f.attach == "":
		return errors.New("--write is for a cluster that is looked at: add --attach ADDRESS")
	case f.attach != "" && (f.script != "" || f.http != ""):
		return errors.New("--attach looks at a running cluster: neither --script nor --http goes with it")
	case f.http != "" && f.script != "":
		return errors.New("--http serves a page, which loads scripts itself: leave --script out")
	case len(f.httpNames) > 0 && f.http == "":
		return errors.New("--http-name is a name of the page: add --http")
	}
	return nil
}

func (f *exploreFlags) run(cmd *cobra.Command) error {
	if err := f.check(); err != nil {
		return err
	}
	ctx := cmd.Context()
	switch {
	case f.http != "":
		return f.serve(ctx, cmd.OutOrStdout(), cmd.ErrOrStderr())
	case f.export != "":
		text, err := explore.ReadScript(f.script)
		if err != nil {
			return err
		}
		return explore.ExportFile(ctx, text, f.export)
	case f.attach != "":
		a, err := explore.Attach(ctx, f.attach, f.write)
		if err != nil {
			return err
		}
		return f.converse(cmd, a, func(ctx context.Context, out io.Writer, _ *explore.Terminal) error {
			first := true
			return a.Watch(ctx, func(u *explore.Update) error {
				_, err := io.WriteString(out, u.Words(first))
				first = false
				return err
			})
		})
	}
	s := explore.New()
	err := f.converse(cmd, s, func(ctx context.Context, _ io.Writer, t *explore.Terminal) error {
		if f.script == "" {
			return nil
		}
		return t.Load(ctx, f.script)
	})
	return errors.Join(err, s.Close())
}

// serve serves the explorer as a page until the context ends.
func (f *exploreFlags) serve(ctx context.Context, out, logs io.Writer) error {
	l, host, err := listenHTTP(f.http)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(logs, &slog.HandlerOptions{Level: slog.LevelWarn}))
	e := explore.NewServer(explore.Options{Names: append([]string{host}, f.httpNames...), Log: log})
	mux := http.NewServeMux()
	mux.Handle(explore.Prefix, e)
	mux.Handle("/", http.RedirectHandler(explore.Prefix, http.StatusFound))
	server := jsonhttp.Server(mux, 2*explore.RunLimit+time.Minute, log)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	if _, err = fmt.Fprintf(out, "EXPLORE %s\n", pageAddress(l.Addr().String())); err == nil {
		select {
		case <-ctx.Done():
		case err = <-ended:
			return errors.Join(fmt.Errorf("--http: %w", err), e.Close())
		}
	}
	err = errors.Join(err, e.Close(), server.Close())
	<-ended
	return err
}

// pageAddress is where a browser finds the page.
func pageAddress(address string) string { return "http://" + address + explore.Prefix }

// converse reads lines and runs them. beside runs before the first line where it ends soon, else beside them; its output goes where that of the lines goes.
func (f *exploreFlags) converse(cmd *cobra.Command, b explore.Board, beside func(context.Context, io.Writer, *explore.Terminal) error) error {
	in, ok := cmd.InOrStdin().(*os.File)
	out, ok2 := cmd.OutOrStdout().(*os.File)
	if !ok || !ok2 || !term.IsTerminal(int(in.Fd())) || !term.IsTerminal(int(out.Fd())) {
		return f.lines(cmd, b, beside)
	}
	return f.terminal(cmd.Context(), in, out, b, beside)
}

// maxTyped is how long a line may be.
const maxTyped = 1 << 20

// lines takes the lines of standard input as commands.
func (f *exploreFlags) lines(cmd *cobra.Command, b explore.Board, beside func(context.Context, io.Writer, *explore.Terminal) error) error {
	out := &together{w: cmd.OutOrStdout()}
	t := explore.NewTerminal(b, out)
	ctx, stop := context.WithCancel(cmd.Context())
	defer stop()
	watching := f.beside(ctx, out, t, beside)
	if err := watching.begun(); err != nil {
		return err
	}
	typed := make(chan string)
	failed := make(chan error, 1)
	go func() {
		lines := bufio.NewScanner(cmd.InOrStdin())
		lines.Buffer(nil, maxTyped)
		for lines.Scan() {
			select {
			case typed <- lines.Text():
			case <-ctx.Done():
				return
			}
		}
		failed <- lines.Err()
	}()
	for {
		select {
		case <-ctx.Done():
			return watching.end(stop)
		case err := <-watching.ended:
			return err
		case err := <-failed:
			if err != nil {
				return errors.Join(fmt.Errorf("standard input: %w", err), watching.end(stop))
			}
			if f.attach != "" { // a pipe that is closed still wants to see what happens
				select {
				case <-ctx.Done():
				case err := <-watching.ended:
					return err
				}
			}
			if err := watching.end(stop); err != nil {
				return err
			}
			return refusedError(t)
		case line := <-typed:
			if strings.TrimSpace(line) != "" && !strings.HasPrefix(strings.TrimSpace(line), "#") {
				fmt.Fprintf(out, "> %s\n", line)
			}
			if err := t.Line(ctx, line); errors.Is(err, io.EOF) {
				return errors.Join(watching.end(stop), refusedError(t))
			} else if err != nil {
				return errors.Join(err, watching.end(stop))
			}
		}
	}
}

func refusedError(t *explore.Terminal) error {
	switch n := t.Refused(); n {
	case 0:
		return nil
	case 1:
		return errors.New("1 command was refused")
	default:
		return fmt.Errorf("%d commands were refused", n)
	}
}

// terminal talks with somebody at a terminal.
func (f *exploreFlags) terminal(ctx context.Context, in, out *os.File, b explore.Board, beside func(context.Context, io.Writer, *explore.Terminal) error) error {
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return fmt.Errorf("the terminal: %w", err)
	}
	defer func() { _ = term.Restore(int(in.Fd()), before) }() // nothing is left to be done where it fails
	screen := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{in, out}, "> ")
	t := explore.NewTerminal(b, screen)
	completion := completing{terminal: t, screen: screen}
	screen.AutoCompleteCallback = completion.key
	past, err := openHistory(f.history)
	if err != nil {
		return err
	}
	screen.History = past
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if _, err := io.WriteString(screen, "help lists the commands, Tab completes, quit ends.\n"); err != nil {
		return err
	}
	watching := f.beside(ctx, screen, t, beside)
	if err := watching.begun(); err != nil {
		return err
	}
	for {
		if width, height, err := term.GetSize(int(out.Fd())); err == nil && width > 0 {
			_ = screen.SetSize(width, height) // it is taken to be as wide as before where it fails
		}
		line, err := screen.ReadLine()
		if errors.Is(err, term.ErrPasteIndicator) {
			err = nil
		}
		if err == nil {
			err = t.Line(ctx, line)
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return errors.Join(err, watching.end(stop), past.save())
		}
	}
}

// watching is what runs beside the lines.
type watching struct {
	ended chan error
	waits bool // it ends before the first line
}

func (f *exploreFlags) beside(ctx context.Context, out io.Writer, t *explore.Terminal, run func(context.Context, io.Writer, *explore.Terminal) error) *watching {
	w := &watching{ended: make(chan error, 1), waits: f.attach == ""}
	go func() { w.ended <- run(ctx, out, t) }()
	return w
}

// begun waits for what ends before the first line.
func (w *watching) begun() error {
	if !w.waits {
		return nil
	}
	err := <-w.ended
	w.ended = nil
	return err
}

// end ends what runs.
func (w *watching) end(stop func()) error {
	stop()
	if w.ended == nil {
		return nil
	}
	return <-w.ended
}

// openHistory reads the lines of earlier times from a file, none where it has no name.
func openHistory(name string) (*history, error) {
	h := &history{name: name}
	if name == "" {
		return h, nil
	}
	text, err := os.ReadFile(filepath.Clean(name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("--history: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		h.Add(strings.TrimRight(line, "\r\n"))
	}
	return h, nil
}
