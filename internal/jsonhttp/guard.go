// Package jsonhttp is what the interfaces of kshare have in common that are JSON over HTTP: who may ask, how a request is read into a struct, and how errors are answered.
package jsonhttp

import (
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"strings"
)

// Guard refuses what does not come from a program on behalf of its user.
type Guard struct {
	// Names are the host names that clients may use besides localhost and addresses.
	Names []string
	// Log is where it is said what went wrong in the process.
	Log *slog.Logger
}

// Wrap has a handler answer only requests that are let in, and turns its panic into an error.
func (g *Guard) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			switch p := recover(); p {
			case nil:
			case http.ErrAbortHandler:
				panic(p)
			default:
				g.Log.Error("a request over HTTP made its handler panic", "method", r.Method, "path", r.URL.Path, "panic", p, "stack", string(debug.Stack()))
				Fail(w, Refuse(http.StatusInternalServerError, "kshare has a bug here; its log says more"))
			}
		}()
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		if err := g.admit(r); err != nil {
			Fail(w, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// admit tells why a request is refused before anything is looked at. A web page can have a browser send requests to the loopback interface, and read the
// answers if a name of its own leads there.
func (g *Guard) admit(r *http.Request) error {
	if host := hostName(r.Host); !g.knows(host) {
		return Refuse(http.StatusForbidden, "the host name %q is not known here: use localhost, an address, or a name that was told with --http-name", Clip(host))
	}
	if origin := r.Header.Get("Origin"); origin != "" && origin != "http://"+r.Host {
		return Refuse(http.StatusForbidden, "a request of the origin %q: web pages of others have no access", Clip(origin))
	}
	switch site := r.Header.Get("Sec-Fetch-Site"); site {
	case "", "none", "same-origin":
		return nil
	default:
		return Refuse(http.StatusForbidden, "a %s request of a browser: web pages of others have no access", Clip(site))
	}
}

// hostName is the host of host:port or of a host alone, without the brackets of an IPv6 address.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
}

func (g *Guard) knows(host string) bool {
	if strings.EqualFold(host, "localhost") || net.ParseIP(host) != nil {
		return true
	}
	for _, name := range g.Names {
		if name != "" && strings.EqualFold(host, name) {
			return true
		}
	}
	return false
}
