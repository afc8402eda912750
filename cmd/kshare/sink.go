package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kshare/config"
	"kshare/connect"
	"kshare/internal/jsonhttp"
)

// sinkFlags are the flags of kshare sink.
type sinkFlags struct {
	worker    string
	http      string
	httpNames []string
	logLevel  string
}

func sinkCommand() *cobra.Command {
	var f sinkFlags
	cmd := &cobra.Command{
		Use:   "sink --worker worker.properties connector.properties...",
		Short: "Run sink connectors in share groups (KIP-1302) until SIGTERM or SIGINT",
		Long: `Run sink connectors in share groups (KIP-1302, which is proposed only) until SIGTERM or SIGINT, as Kafka's connect-standalone does.

The files have the format of Java's properties. When their connectors are accepted it prints one line to standard output,

    READY name[,name...]

and with --http a second one,

    HTTP host:port

which is where Kafka Connect's REST interface is (GET /connectors/NAME/status), and the metrics (GET /metrics). A connector that fails later shows there and in the log,
and stops no other. docs/kip-1302.md describes the properties. Logs go to standard error.`,
		Example: `  kshare sink --worker worker.properties copy.properties --http 127.0.0.1:8083`,
		RunE:    func(cmd *cobra.Command, files []string) error { return sink(cmd, &f, files) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.worker, "worker", "", "`file` of the worker's properties, bootstrap.servers among them")
	flags.StringVar(&f.http, "http", "", "`host:port` of the REST interface, port 0 for a free one; without it there is none, and a port alone is on the loopback interface")
	flags.StringArrayVar(&f.httpNames, "http-name", nil, "host `name` that the REST interface is reached by, where that is neither localhost nor an address; may be repeated")
	flags.StringVar(&f.logLevel, "log-level", "warn", "debug, info, warn or error")
	return cmd
}

// sink runs connectors until the command's context ends.
func sink(cmd *cobra.Command, f *sinkFlags, files []string) error {
	switch {
	case f.worker == "":
		return errors.New("--worker is missing: the file of the worker's properties")
	case len(files) == 0:
		return errors.New("sink needs the properties file of a connector")
	case len(f.httpNames) > 0 && f.http == "":
		return errors.New("--http-name is a name of the REST interface: add --http")
	}
	log, err := logger(f.logLevel, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	properties, err := propertiesOf(f.worker)
	if err != nil {
		return fmt.Errorf("--worker: %w", err)
	}
	worker, err := connect.NewWorker(connect.WorkerConfig{Properties: properties, Log: log})
	if err != nil {
		return fmt.Errorf("%s: %w", f.worker, err)
	}
	var configs []map[string]string
	named := map[string]string{}
	for _, file := range files {
		c, err := propertiesOf(file)
		if err != nil {
			return err
		}
		if err := worker.Validate(c); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if other, ok := named[c["name"]]; ok {
			return fmt.Errorf("%s: name %q is that of %s too", file, c["name"], other)
		}
		named[c["name"]] = file
		configs = append(configs, c)
	}
	ready := "READY " + strings.Join(namesOf(configs), ",") + "\n"
	server, err := f.serve(worker, log)
	if err != nil {
		return err
	}
	if server != nil {
		ready += "HTTP " + server.address + "\n"
	}
	for _, c := range configs {
		err = errors.Join(err, worker.Put(c))
	}
	if err == nil {
		_, err = io.WriteString(cmd.OutOrStdout(), ready)
	}
	if err == nil {
		<-cmd.Context().Done()
	}
	worker.Close()
	return errors.Join(err, server.stop())
}

func namesOf(configs []map[string]string) (names []string) {
	for _, c := range configs {
		names = append(names, c["name"])
	}
	return names
}

// propertiesOf reads a file of properties.
func propertiesOf(name string) (map[string]string, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	all, err := config.ReadProperties(file, name)
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	properties := map[string]string{}
	for _, p := range all {
		properties[p.Key] = p.Value
	}
	return properties, nil
}

// sinkHTTP is the REST interface of a running kshare sink.
type sinkHTTP struct {
	server  *http.Server
	address string
	ended   chan error
}

// serve serves the REST interface, where --http asks for one.
func (f *sinkFlags) serve(worker *connect.Worker, log *slog.Logger) (*sinkHTTP, error) {
	if f.http == "" {
		return nil, nil
	}
	l, host, err := listenHTTP(f.http)
	if err != nil {
		return nil, err
	}
	s := &sinkHTTP{jsonhttp.Server(worker.Handler(append([]string{host}, f.httpNames...)...), time.Minute, log), l.Addr().String(), make(chan error, 1)}
	go func() { s.ended <- s.server.Serve(l) }()
	return s, nil
}

// stop ends the interface. It does nothing where there is none.
func (s *sinkHTTP) stop() error {
	if s == nil {
		return nil
	}
	err := s.server.Close()
	if ended := <-s.ended; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, fmt.Errorf("--http: %w", ended))
	}
	return err
}
