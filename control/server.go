package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"kshare"
)

// Options are how an interface is served.
type Options struct {
	// Names are the host names that clients may use besides localhost and addresses.
	Names []string
	// Log is where it is said what went wrong in the process, nil for nowhere.
	Log *slog.Logger
}

// Timeouts and bounds of the HTTP server.
const (
	headerTimeout = 10 * time.Second
	readTimeout   = 30 * time.Second
	idleTimeout   = 2 * time.Minute
	// writeTimeout is longer than anything takes that is answered: a scenario.
	writeTimeout   = scenarioLimit + time.Minute
	maxHeaderBytes = 64 << 10
)

// Server makes an HTTP server of the interface, with timeouts that keep slow clients from holding on to it. Its Close ends scenarios that run.
func Server(c *kshare.Cluster, o Options) *http.Server {
	log := o.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &http.Server{
		Handler:           Handler(c, o),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// server answers requests about a cluster.
type server struct {
	cluster *kshare.Cluster
	names   []string
	log     *slog.Logger

	running chan struct{} // holds a token while a scenario runs: they would move each other's time

	moving sync.Mutex // held while time is moved or the cluster is reset

	shareWriteFaults writeFaults[shareWrites]
	markerFaults     writeFaults[markerWrites]
}

// Handler answers the requests of the interface. It starts no goroutine.
func Handler(c *kshare.Cluster, o Options) http.Handler {
	s := &server{cluster: c, names: o.Names, log: o.Log, running: make(chan struct{}, 1)}
	s.shareWriteFaults.what, s.markerFaults.what = "share-state writes", "markers"
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	return s.guard(s.routes())
}

// routes finds the endpoint of a request.
func (s *server) routes() http.Handler {
	mux := http.NewServeMux()
	methods := map[string][]string{}
	for _, e := range endpoints {
		mux.HandleFunc(e.method+" "+e.path, func(w http.ResponseWriter, r *http.Request) { e.serve(s, w, r) })
		methods[e.path] = append(methods[e.path], e.method)
	}
	mux.HandleFunc("GET "+documentPath, func(w http.ResponseWriter, _ *http.Request) { write(w, http.StatusOK, document()) })
	mux.Handle("GET "+metricsPath, metricsHandler(s.cluster))
	methods[documentPath], methods[metricsPath] = []string{http.MethodGet}, []string{http.MethodGet}
	for path, of := range methods {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Allow", strings.Join(of, ", "))
			fail(w, refuse(http.StatusMethodNotAllowed, "%s takes %s, not %s", path, strings.Join(of, " or "), clip(r.Method)))
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fail(w, refuse(http.StatusNotFound, "there is nothing at %s; %s lists what there is", clip(r.URL.Path), documentPath))
	})
	return mux
}

// guard refuses what does not come from a program on behalf of its user, and turns a panic into an error.
func (s *server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			switch p := recover(); p {
			case nil:
			case http.ErrAbortHandler:
				panic(p)
			default:
				s.log.Error("a control request made its handler panic", "method", r.Method, "path", r.URL.Path, "panic", p, "stack", string(debug.Stack()))
				fail(w, refuse(http.StatusInternalServerError, "kshare has a bug here; its log says more"))
			}
		}()
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		if err := s.admit(r); err != nil {
			fail(w, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// admit tells why a request is refused before anything is looked at. A web page can have a browser send requests to the loopback interface, and read the
// answers if a name of its own leads there.
func (s *server) admit(r *http.Request) error {
	if host := hostName(r.Host); !s.knows(host) {
		return refuse(http.StatusForbidden, "the host name %q is not known here: use localhost, an address, or a name that was told with --http-name", clip(host))
	}
	if origin := r.Header.Get("Origin"); origin != "" && origin != "http://"+r.Host {
		return refuse(http.StatusForbidden, "a request of the origin %q: web pages of others have no access", clip(origin))
	}
	switch site := r.Header.Get("Sec-Fetch-Site"); site {
	case "", "none", "same-origin":
		return nil
	default:
		return refuse(http.StatusForbidden, "a %s request of a browser: web pages of others have no access", clip(site))
	}
}

// hostName is the host of host:port or of a host alone, without the brackets of an IPv6 address.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
}

func (s *server) knows(host string) bool {
	if strings.EqualFold(host, "localhost") || net.ParseIP(host) != nil {
		return true
	}
	for _, name := range s.names {
		if name != "" && strings.EqualFold(host, name) {
			return true
		}
	}
	return false
}

// refusal is an error that is the client's to mend.
type refusal struct {
	status  int
	message string
}

func (r *refusal) Error() string { return r.message }

func refuse(status int, format string, args ...any) error {
	return &refusal{status, fmt.Sprintf(format, args...)}
}

// statusOf is the status of an error.
func statusOf(err error) int {
	var r *refusal
	switch {
	case errors.As(err, &r):
		return r.status
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, kshare.ErrClosed):
		return http.StatusServiceUnavailable
	default:
		return http.StatusInternalServerError
	}
}

// plain is what an error says, without the name of the package that the cluster's begin with.
func plain(err error) string { return strings.TrimPrefix(err.Error(), "kshare: ") }

// clip shortens what an error repeats of its request.
func clip(s string) string {
	const most = 80
	if len(s) > most {
		return s[:most] + "..."
	}
	return s
}
