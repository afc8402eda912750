package jsonhttp

import (
	"log/slog"
	"net/http"
	"time"
)

// Timeouts and bounds of a server.
const (
	headerTimeout  = 10 * time.Second
	readTimeout    = 30 * time.Second
	idleTimeout    = 2 * time.Minute
	maxHeaderBytes = 64 << 10
)

// Server makes an HTTP server with timeouts that keep slow clients from holding on to it. longest is longer than anything takes that is answered.
func Server(h http.Handler, longest time.Duration, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      longest,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}
