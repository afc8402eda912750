package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kshare"
	"kshare/clock"
	"kshare/config"
	"kshare/release"
)

// serveFlags are the flags of kshare serve.
type serveFlags struct {
	listen          []string
	listeners       []string
	advertise       []string
	authorizer      bool
	superUsers      []string
	saslUsers       []string
	tls             tlsFlags
	brokers         int
	dir             string
	topics          []string
	configs         []string
	properties      []string
	features        []string
	timing          string
	kafka           string
	readyFile       string
	logLevel        string
	clock           string
	clockStart      string
	requestLog      int
	http            string
	httpNames       []string
	plain           bool // there is the listener of --listen
	judge           bool
	judgeReports    []string
	judgeRecord     string
	judgeStrict     bool
	kip1289         bool
	kip1289Switches []string
}

func serveCommand() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run a fake Kafka until SIGTERM or SIGINT",
		Long: `Run a fake Kafka until SIGTERM or SIGINT.

When it accepts connections it prints one line to standard output,

    READY host:port[,host:port...]

which is what a client takes as its bootstrap servers. With --http a second one follows,

    HTTP host:port

which is where the control interface is; GET /openapi.json describes it. A third one,

    EXPLORE http://host:port/explore/

is for a browser: the page shows what happens in the cluster. With --listener there is a line for each listener,

    LISTENER NAME host:port[,host:port...]

behind the first. Logs go to standard error.`,
		Example: `  kshare serve --topic orders:3 --config group.share.record.lock.duration.ms=15000
  kshare serve --listen 127.0.0.1:0 --brokers 3 --dir ./data`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return serve(cmd, &f) },
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&f.listen, "listen", []string{"127.0.0.1:9092"}, "`host:port` to listen on, port 0 for a free one; several, separated by commas, for several brokers")
	flags.StringArrayVar(&f.listeners, "listener", nil, "`NAME://host:port` of a listener, as in SASL_PLAINTEXT://127.0.0.1:9093, where clients log in or speak TLS; may be repeated. Without --listen there is no other")
	flags.StringArrayVar(&f.saslUsers, "sasl-user", nil, "`name:password` of a user who can log in, by PLAIN and SCRAM; may be repeated")
	flags.BoolVar(&f.authorizer, "authorizer", false, "ask who may do what, as Kafka's StandardAuthorizer; who is no --super-user needs rules (kafka-acls)")
	flags.StringArrayVar(&f.superUsers, "super-user", nil, "`principal` who may do everything, as in User:admin; may be repeated")
	f.tls.register(flags)
	flags.StringSliceVar(&f.advertise, "advertise", nil, "`host:port` that clients are told to connect to, where it differs from --listen; a host alone keeps the port")
	flags.IntVar(&f.brokers, "brokers", 1, "number of brokers, each with a port of its own")
	flags.StringVar(&f.dir, "dir", "", "`directory` to keep everything in; without it all is in memory")
	flags.StringArrayVar(&f.topics, "topic", nil, "`name[:partitions]` of a topic to make at start; may be repeated")
	flags.StringArrayVar(&f.configs, "config", nil, "`key=value` of a broker configuration, as in Kafka's server.properties; may be repeated")
	flags.StringArrayVar(&f.properties, "properties", nil, "`file` of broker configurations in the format of server.properties; --config overrides it")
	flags.StringArrayVar(&f.features, "feature", nil, "`name=level` to finalise at the first start, as in share.version=1; may be repeated")
	flags.StringVar(&f.timing, "timing", "fast", "fast: waits that carry no meaning are shortened; kafka: waits as long as Apache Kafka 4.4.0")
	flags.StringVar(&f.kafka, "kafka-version", release.Latest.String(), "`line` of Apache Kafka that the brokers are: 4.2, 4.3 or 4.4")
	flags.BoolVar(&f.kip1289, "kip1289", false, "take acknowledgements of share groups in transactions (KIP-1289, which is proposed only)")
	flags.StringArrayVar(&f.kip1289Switches, "kip1289-switch", nil, "`name=value` of a point on which the texts of KIP-1289 differ (kshare kip1289 switches lists them); may be repeated")
	flags.StringVar(&f.readyFile, "ready-file", "", "`file` to write the READY line to as well, and the HTTP line; one that is there is removed first")
	flags.StringVar(&f.clock, "clock", "machine", "machine: time passes; virtual: it stands still until the control interface moves it")
	flags.StringVar(&f.clockStart, "clock-start", "", "`time` at which a virtual clock stands at first, as in 2027-01-01T00:00:00Z; the machine's where it is not given. In a --dir that has seen a later time it goes on from there")
	flags.IntVar(&f.requestLog, "request-log", 0, "`number` of requests that are remembered for the control interface, in 64 MiB at most; long ones without their records")
	flags.StringVar(&f.http, "http", "", "`host:port` of the control interface, port 0 for a free one; without it there is none, and a port alone is on the loopback interface")
	flags.StringArrayVar(&f.httpNames, "http-name", nil, "host `name` that the control interface is reached by, where that is neither localhost nor an address; may be repeated")
	flags.BoolVar(&f.judge, "judge", false, "judge what clients put on the wire, and print the verdicts to standard error at the end")
	flags.StringArrayVar(&f.judgeReports, "judge-report", nil, "`file` to write the verdicts to at the end: .txt, .json, .xml (JUnit), .html or .svg (a badge); may be repeated")
	flags.StringVar(&f.judgeRecord, "judge-record", "", "`file` to record all frames of clients in, for kshare judge recording")
	flags.BoolVar(&f.judgeStrict, "judge-strict", false, "end with status 1 where a client has broken a MUST")
	flags.StringVar(&f.logLevel, "log-level", "warn", "debug, info, warn or error")
	return cmd
}

// serve runs a cluster until the command's context ends.
func serve(cmd *cobra.Command, f *serveFlags) error {
	if f.readyFile != "" {
		if err := os.Remove(f.readyFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("--ready-file: one of an earlier run cannot be removed: %w", err)
		}
	}
	log, err := logger(f.logLevel, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	f.plain = cmd.Flags().Changed("listen") || len(f.listeners) == 0
	opts, err := f.options(log)
	if err != nil {
		return err
	}
	recorder, err := f.record()
	if err != nil {
		return err
	}
	cluster, err := kshare.Start(append(opts, recorder.options()...)...)
	if err != nil {
		return errors.Join(err, recorder.Close())
	}
	ready := "READY " + strings.Join(cluster.Addrs(), ",") + "\n" + f.listenerLines(cluster)
	if err := f.tls.write(cluster.Authority()); err != nil {
		return errors.Join(err, cluster.Close(), recorder.Close())
	}
	c, err := f.startControl(cluster, log)
	if err != nil {
		return errors.Join(err, cluster.Close())
	}
	if c != nil {
		ready += "HTTP " + c.address + "\n"
	}
	err = f.announce(cmd.OutOrStdout(), ready)
	if err == nil && c != nil {
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "EXPLORE %s\n", pageAddress(c.address))
	}
	if err == nil {
		<-cmd.Context().Done()
	}
	err = errors.Join(err, c.stop(), cluster.Close())
	if j := cluster.Judge(); j != nil {
		err = errors.Join(err, j.Recorded(), recorder.Close(), f.tell(cmd.ErrOrStderr(), j.Report()))
	}
	return err
}

// announce says that the cluster accepts connections.
func (f *serveFlags) announce(out io.Writer, ready string) error {
	if f.readyFile != "" {
		if err := writeWhole(f.readyFile, ready); err != nil {
			return fmt.Errorf("--ready-file: %w", err)
		}
	}
	_, err := io.WriteString(out, ready)
	return err
}

// writeWhole writes a file so that nobody who waits for it sees half of it.
func writeWhole(name, content string) error {
	temp, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	_, err = temp.WriteString(content)
	if err = errors.Join(err, temp.Close()); err == nil {
		err = os.Rename(temp.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temp.Name()))
	}
	return nil
}

// logger makes the logger of --log-level.
func logger(name string, logs io.Writer) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(name)); err != nil {
		return nil, fmt.Errorf("--log-level %q is not debug, info, warn or error", name)
	}
	return slog.New(slog.NewTextHandler(logs, &slog.HandlerOptions{Level: level})), nil
}

// options turns the flags into options of a cluster.
func (f *serveFlags) options(log *slog.Logger) ([]kshare.Option, error) {
	opts := []kshare.Option{
		kshare.WithLogger(log),
		kshare.WithBrokers(f.brokers),
		kshare.WithKafkaVersion(f.kafka),
	}
	security, err := f.securityOptions()
	if err != nil {
		return nil, err
	}
	opts = append(opts, security...)
	if len(f.advertise) > 0 {
		opts = append(opts, kshare.WithAdvertise(f.advertise...))
	}
	if f.dir != "" {
		opts = append(opts, kshare.WithDirectory(f.dir))
	}
	timing, ok := kshare.TimingNamed(f.timing)
	if !ok {
		return nil, fmt.Errorf("--timing %q is neither fast nor kafka", f.timing)
	}
	opts = append(opts, kshare.WithTiming(timing))
	c, err := f.clockOption()
	if err != nil {
		return nil, err
	}
	opts = append(opts, c)
	if f.requestLog != 0 && f.http == "" {
		return nil, errors.New("--request-log is read over the control interface: add --http")
	}
	if len(f.httpNames) > 0 && f.http == "" {
		return nil, errors.New("--http-name is a name of the control interface: add --http")
	}
	if f.judged() {
		opts = append(opts, kshare.WithJudge(), kshare.WithJudgeClock(clock.Machine{})) // clients live by the machine's clock, whatever the cluster's is
	}
	if f.requestLog != 0 {
		opts = append(opts, kshare.WithRequestLog(f.requestLog))
	}
	named := map[string]bool{}
	for _, t := range f.topics {
		if name, _, _ := strings.Cut(t, ":"); named[name] {
			return nil, fmt.Errorf("--topic %q: the topic is there twice", t)
		} else {
			named[name] = true
		}
		opt, err := topicOption(t)
		if err != nil {
			return nil, err
		}
		opts = append(opts, opt)
	}
	for _, feature := range f.features {
		name, text, ok := strings.Cut(feature, "=")
		level, err := strconv.ParseInt(text, 10, 16)
		if !ok || err != nil {
			return nil, fmt.Errorf("--feature %q is not name=level", feature)
		}
		opts = append(opts, kshare.WithFeature(name, int16(level)))
	}
	switch {
	case f.kip1289:
		opts = append(opts, kshare.WithKIP1289(f.kip1289Switches...))
	case len(f.kip1289Switches) > 0:
		return nil, errors.New("--kip1289-switch is of transactional acknowledgements: add --kip1289")
	}
	configs, err := f.configOptions()
	return append(opts, configs...), err
}

// clockOption makes the option for the clock.
func (f *serveFlags) clockOption() (kshare.Option, error) {
	switch {
	case f.clock != "machine" && f.clock != "virtual":
		return nil, fmt.Errorf("--clock %q is neither machine nor virtual", f.clock)
	case f.clock == "machine" && f.clockStart != "":
		return nil, errors.New("--clock-start is of a virtual clock: add --clock virtual")
	case f.clock == "machine":
		return kshare.WithClock(clock.Machine{}), nil
	case f.http == "":
		return nil, errors.New("--clock virtual moves only when the control interface is told: add --http")
	}
	start := time.Now()
	if f.clockStart != "" {
		var err error
		if start, err = time.Parse(time.RFC3339, f.clockStart); err != nil {
			return nil, fmt.Errorf("--clock-start %q is no time like 2027-01-01T00:00:00Z", f.clockStart)
		}
		if start.After(clock.Last) {
			return nil, fmt.Errorf("--clock-start %s is too late: a virtual clock reaches %s at most", f.clockStart, clock.Last.Format(time.RFC3339))
		}
	}
	return kshare.WithClock(clock.NewVirtual(start)), nil
}

// configOptions are the broker configurations: those of the files, then those of the command line, which override them.
func (f *serveFlags) configOptions() ([]kshare.Option, error) {
	var all []config.Property
	for _, name := range f.properties {
		file, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("--properties: %w", err)
		}
		properties, err := config.ReadProperties(file, name)
		if err = errors.Join(err, file.Close()); err != nil {
			return nil, fmt.Errorf("--properties: %w", err)
		}
		all = append(all, properties...)
	}
	for _, c := range f.configs {
		property, err := config.ParseAssignment(c)
		if err != nil {
			return nil, fmt.Errorf("--config: %w", err)
		}
		all = append(all, property)
	}
	return []kshare.Option{kshare.WithProperties(all...)}, nil
}

// topicOption makes the option for name[:partitions].
func topicOption(spec string) (kshare.Option, error) {
	name, text, ok := strings.Cut(spec, ":")
	if !ok {
		return kshare.WithTopic(name, -1), nil
	}
	partitions, err := strconv.ParseInt(text, 10, 32)
	if err != nil || partitions < 1 {
		return nil, fmt.Errorf("--topic %q: %q is not a number of partitions, 1 or more", spec, text)
	}
	return kshare.WithTopic(name, int32(partitions)), nil
}
