package cases

import (
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kshare"
	"kshare/certificate"
	"kshare/conformance"
	"kshare/conformance/driver"
	"kshare/conformance/proxy"
)

const (
	handshakeKey    int16 = 17
	authenticateKey int16 = 36
)

// Who clients log in as.
const (
	userName     = "judged"
	userPassword = "secret"
)

// loginOptions have the cluster's listener ask who is there.
func loginOptions() []kshare.Option {
	return []kshare.Option{
		kshare.WithListener("SASL_PLAINTEXT://127.0.0.1:9092"), kshare.WithSASLUser(userName, userPassword),
		kshare.WithConfig("sasl.enabled.mechanisms", "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER"),
	}
}

// certified makes a certificate for the proxy. What vouches for it is in a file, whose name is returned.
func certified() (listen func(addr string) (net.Listener, error), file string, err error) {
	authority, err := certificate.NewAuthority()
	if err != nil {
		return nil, "", err
	}
	made, err := authority.ForHosts("127.0.0.1")
	if err != nil {
		return nil, "", err
	}
	dir, err := os.MkdirTemp("", "kshare-judge")
	if err != nil {
		return nil, "", err
	}
	file = filepath.Join(dir, "ca.pem")
	if err := os.WriteFile(file, authority.PEM(), 0o600); err != nil {
		return nil, "", err
	}
	return func(addr string) (net.Listener, error) {
		return tls.Listen("tcp", addr, &tls.Config{Certificates: []tls.Certificate{made}, MinVersion: tls.VersionTLS12})
	}, file, nil
}

// loggedIn is a case of a client that logs in.
func loggedIn(id string, level conformance.Level, says, source, mechanism string, setup Setup, run func(*Stage)) Case {
	setup.SASL = true
	props := map[string]any{"sasl_mechanism": mechanism, "sasl_username": userName, "sasl_password": userPassword}
	for k, v := range setup.Props {
		props[k] = v
	}
	setup.Props = props
	return Case{ID: id, Level: level, Says: says, Source: source, Needs: []string{driver.SASL}, Setup: setup, Within: 60 * time.Second, run: run}
}

// logsIn checks that nothing but what belongs to logging in is asked of a connection before that has succeeded, and that records are consumed.
func logsIn(s *Stage) {
	s.Run()
	s.Drained(20*time.Second, "t", 0)
	in := map[uint64]bool{}
	for _, x := range s.Since(0, -1) {
		switch p := x.Response.(type) {
		case *kmsg.SASLAuthenticateResponse:
			in[x.Conn] = in[x.Conn] || p.ErrorCode == 0
		case *kmsg.SASLHandshakeResponse, *kmsg.ApiVersionsResponse:
		default:
			if !in[x.Conn] {
				s.Failf("%s is sent over a connection that has not logged in", kmsg.NameForKey(x.Key))
			}
		}
	}
	if len(in) == 0 {
		s.Inconclusivef("no connection has logged in")
	}
}

// sessionsGoOn checks that the client re-authenticates on its connections while it goes on with its share session.
func (s *Stage) sessionsGoOn(d time.Duration) {
	began := time.Now()
	for time.Since(began) < d {
		s.Resumes(10 * time.Second)
		s.Wait(500 * time.Millisecond)
	}
	again := map[uint64]int{}
	for _, x := range s.Since(0, authenticateKey) {
		again[x.Conn]++
	}
	opened := 0
	for _, x := range s.Since(0, shareFetchKey) {
		if fetchOf(x).ShareSessionEpoch == 0 {
			opened++
		}
	}
	most := 0
	for _, n := range again {
		most = max(most, n)
	}
	if most < 3 {
		s.Failf("no connection is re-authenticated: each is closed as its session ends, and %d share sessions are opened", opened)
	}
	if opened > 2 { // the first may precede the assignment
		s.Failf("%d share sessions are opened", opened)
	}
	if all := s.troubles(0); len(all) > 0 {
		s.Failf("the application is told: %s", all[0].Text)
	}
}

const reauthentication = "KIP-368"

// A broker refuses a login over a connection less than a second behind the last one.
var shortSessions = map[string]string{"connections.max.reauth.ms": "3000"}

var security = []Case{
	loggedIn("sec.01", conformance.Must, "the client logs in with PLAIN: records are consumed, and nothing else is sent before", "KIP-43", "PLAIN", Setup{}, logsIn),
	loggedIn("sec.01.256", conformance.Must, "the client logs in with SCRAM-SHA-256: records are consumed, and nothing else is sent before", "KIP-84", "SCRAM-SHA-256", Setup{}, logsIn),
	loggedIn("sec.01.512", conformance.Must, "the client logs in with SCRAM-SHA-512: records are consumed, and nothing else is sent before", "KIP-84", "SCRAM-SHA-512", Setup{}, logsIn),
	loggedIn("sec.02", conformance.Must, "the password is wrong: the application is told, and the client floods nobody", "KIP-152", "PLAIN", Setup{Late: true, Props: map[string]any{"sasl_password": "wrong"}}, func(s *Stage) {
		s.Launch()
		s.Run()
		var refused *Seen
		if !s.until(15*time.Second, func() bool {
			refused = s.first(0, authenticateKey, func(x *Seen) bool { return x.Response != nil })
			return refused != nil
		}) {
			s.Inconclusivef("the client does not try to log in")
		}
		s.MustTold(10*time.Second, 0)
		from := time.Now()
		s.Wait(4 * time.Second)
		connects := float64(s.Connects(-1, from, time.Now())) / 4
		s.Shouldf(connects <= mostConnects, "%.0f connections are opened a second, at most %d are bearable", connects, mostConnects)
	}),
	loggedIn("sec.03", conformance.Must, "a login lasts 3 s: the client logs in again over its connections, and its share session goes on", reauthentication, "PLAIN", Setup{Config: shortSessions}, func(s *Stage) {
		s.Steady()
		s.sessionsGoOn(13 * time.Second)
	}),
	loggedIn("sec.04", conformance.Must, "a login lasts 3 s, and a ShareFetch waits for 3 s: both go on, and answers match", reauthentication, "PLAIN", Setup{Config: shortSessions, Props: map[string]any{"max_wait_ms": 3000}}, func(s *Stage) {
		s.Steady()
		for range 3 {
			s.Wait(3500 * time.Millisecond)
			s.Resumes(10 * time.Second)
		}
		if all := s.troubles(0); len(all) > 0 {
			s.Failf("the application is told: %s", all[0].Text)
		}
	}),
	loggedIn("sec.05", conformance.Must, "connections are closed as their logins end: the client connects again at a bearable rate, opens new sessions, and goes on", reauthentication, "PLAIN", Setup{Config: map[string]string{"connections.max.reauth.ms": "3000"}}, func(s *Stage) {
		logins := map[uint64]bool{}
		ended := &atomic.Int32{}
		s.OnAsk(func(x *proxy.Exchange) {
			if x.Header.Key != handshakeKey {
				return
			}
			s.mu.Lock()
			again := logins[x.Conn]
			logins[x.Conn] = true
			s.mu.Unlock()
			if again {
				x.Close = true
				ended.Add(1)
			}
		})
		s.Steady()
		from := time.Now()
		for range 4 {
			s.Wait(3 * time.Second)
			s.Resumes(15 * time.Second)
		}
		connects := float64(s.Connects(-1, from, time.Now())) / time.Since(from).Seconds()
		s.Shouldf(connects <= mostConnects, "%.0f connections are opened a second, at most %d are bearable", connects, mostConnects)
		if ended.Load() == 0 {
			s.Tellf("the client does not log in again over a connection: the broker closes each")
		}
	}),
	loggedIn("sec.06", conformance.Should, "tokens of OAUTHBEARER last 15 s: each login has a token that lasts, and the share session goes on", reauthentication, "OAUTHBEARER", Setup{Props: map[string]any{"sasl_token_s": 15}}, func(s *Stage) {
		s.Steady()
		mark := s.Mark()
		s.Next(20*time.Second, mark, authenticateKey, "another login", func(x *Seen) bool { return x.Response != nil })
		for range 3 {
			s.Resumes(10 * time.Second)
			s.Wait(2 * time.Second)
		}
		tokens := map[string]bool{}
		for _, x := range s.Since(0, authenticateKey) {
			p, ok := x.Response.(*kmsg.SASLAuthenticateResponse)
			if ok && p.ErrorCode != 0 {
				s.Failf("a login fails with %d", p.ErrorCode)
			}
			tokens[string(x.Request.(*kmsg.SASLAuthenticateRequest).SASLAuthBytes)] = true
		}
		s.Shouldf(len(tokens) > 1, "every login has the same token")
	}),
	{ID: "sec.07", Level: conformance.Must, Says: "the TLS handshake fails five times, then it does not: the client backs off, and joins", Source: "KIP-144", Needs: []string{driver.TLS}, Setup: Setup{TLS: true, Late: true}, Within: 60 * time.Second, run: func(s *Stage) {
		failures := &atomic.Int32{}
		s.OnOpen(func(int32) bool { return failures.Add(1) > 5 })
		s.Launch()
		s.Run()
		s.Drained(40*time.Second, "t", 0)
		s.mu.Lock()
		conns := slices.Clone(s.conns)
		s.mu.Unlock()
		if took := conns[5].at.Sub(conns[0].at); took < 100*time.Millisecond {
			s.Shouldf(false, "the first six connections are opened within %s", took.Round(time.Millisecond))
		}
	}},
}
