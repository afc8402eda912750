package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"

	"kshare"
	"kshare/control"
	"kshare/explore"
)

// runningControl is the control interface of a running kshare serve.
type runningControl struct {
	server  *http.Server
	explore *explore.Server
	address string
	ended   chan error
}

// startControl serves the control interface, where --http asks for one.
func (f *serveFlags) startControl(cluster *kshare.Cluster, log *slog.Logger) (*runningControl, error) {
	if f.http == "" {
		return nil, nil
	}
	l, host, err := listenHTTP(f.http)
	if err != nil {
		return nil, err
	}
	names := append([]string{host}, f.httpNames...)
	c := &runningControl{
		server:  control.Server(cluster, control.Options{Names: names, Log: log}),
		explore: explore.NewServer(explore.Options{Live: cluster, Names: names, Log: log}),
		address: l.Addr().String(), ended: make(chan error, 1),
	}
	mux := http.NewServeMux()
	mux.Handle(explore.Prefix, c.explore)
	mux.Handle("/", c.server.Handler)
	c.server.Handler = mux
	go func() { c.ended <- c.server.Serve(l) }()
	return c, nil
}

// listenHTTP listens on an address of --http, a port alone on the loopback interface, and returns its host.
func listenHTTP(address string) (l net.Listener, host string, err error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, "", fmt.Errorf("--http %q is not host:port", address)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	if l, err = net.Listen("tcp", net.JoinHostPort(host, port)); err != nil {
		return nil, "", fmt.Errorf("--http: %w", err)
	}
	return l, host, nil
}

// stop ends the interface and what it runs. It does nothing where there is none.
func (c *runningControl) stop() error {
	if c == nil {
		return nil
	}
	err := errors.Join(c.explore.Close(), c.server.Close())
	if ended := <-c.ended; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, fmt.Errorf("the control interface: %w", ended))
	}
	return err
}
