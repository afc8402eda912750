package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"

	"kshare"
	"kshare/control"
)

// runningControl is the control interface of a running kshare serve.
type runningControl struct {
	server  *http.Server
	address string
	ended   chan error
}

// startControl serves the control interface, where --http asks for one.
func (f *serveFlags) startControl(cluster *kshare.Cluster, log *slog.Logger) (*runningControl, error) {
	if f.http == "" {
		return nil, nil
	}
	host, port, err := net.SplitHostPort(f.http)
	if err != nil {
		return nil, fmt.Errorf("--http %q is not host:port", f.http)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, fmt.Errorf("--http: %w", err)
	}
	c := &runningControl{
		server:  control.Server(cluster, control.Options{Names: append([]string{host}, f.httpNames...), Log: log}),
		address: l.Addr().String(), ended: make(chan error, 1),
	}
	go func() { c.ended <- c.server.Serve(l) }()
	return c, nil
}

// stop ends the interface and what it runs. It does nothing where there is none.
func (c *runningControl) stop() error {
	if c == nil {
		return nil
	}
	err := c.server.Close()
	if ended := <-c.ended; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, fmt.Errorf("the control interface: %w", ended))
	}
	return err
}
