package control

import (
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"kshare"
	"kshare/internal/jsonhttp"
)

// Options are how an interface is served.
type Options struct {
	// Names are the host names that clients may use besides localhost and addresses.
	Names []string
	// Log is where it is said what went wrong in the process, nil for nowhere.
	Log *slog.Logger
}

// writeTimeout is longer than anything takes that is answered: a scenario.
const writeTimeout = scenarioLimit + time.Minute

// Server makes an HTTP server of the interface, with timeouts that keep slow clients from holding on to it. Its Close ends scenarios that run.
func Server(c *kshare.Cluster, o Options) *http.Server {
	log := o.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return jsonhttp.Server(Handler(c, o), writeTimeout, log)
}

// server answers requests about a cluster.
type server struct {
	cluster *kshare.Cluster
	log     *slog.Logger

	running chan struct{} // holds a token while a scenario runs: they would move each other's time

	moving sync.Mutex // held while time is moved or the cluster is reset

	shareWriteFaults writeFaults[shareWrites]
	markerFaults     writeFaults[markerWrites]
}

// Handler answers the requests of the interface. It starts no goroutine.
func Handler(c *kshare.Cluster, o Options) http.Handler {
	s := &server{cluster: c, log: o.Log, running: make(chan struct{}, 1)}
	s.shareWriteFaults.what, s.markerFaults.what = "share-state writes", "markers"
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	g := &jsonhttp.Guard{Names: o.Names, Log: s.log}
	return g.Wrap(s.routes())
}

// routes finds the endpoint of a request.
func (s *server) routes() http.Handler {
	mux := http.NewServeMux()
	methods := map[string][]string{}
	for _, e := range endpoints {
		mux.HandleFunc(e.method+" "+e.path, func(w http.ResponseWriter, r *http.Request) { e.serve(s, w, r) })
		methods[e.path] = append(methods[e.path], e.method)
	}
	mux.HandleFunc("GET "+documentPath, func(w http.ResponseWriter, _ *http.Request) { jsonhttp.Write(w, http.StatusOK, document()) })
	mux.Handle("GET "+metricsPath, metricsHandler(s.cluster))
	methods[documentPath], methods[metricsPath] = []string{http.MethodGet}, []string{http.MethodGet}
	for path, of := range methods {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Allow", strings.Join(of, ", "))
			jsonhttp.Fail(w, jsonhttp.Refuse(http.StatusMethodNotAllowed, "%s takes %s, not %s", path, strings.Join(of, " or "), jsonhttp.Clip(r.Method)))
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		jsonhttp.Fail(w, jsonhttp.Refuse(http.StatusNotFound, "there is nothing at %s; %s lists what there is", jsonhttp.Clip(r.URL.Path), documentPath))
	})
	return mux
}

// plain is what an error says, without the name of the package that the cluster's begin with.
func plain(err error) string { return strings.TrimPrefix(err.Error(), "kshare: ") }
