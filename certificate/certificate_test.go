package certificate_test

import (
	"crypto/tls"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"kshare/certificate"
)

// meet lets a client and a server make their handshake, and returns whom the server has met.
func meet(t *testing.T, client, server *tls.Config) (subject string, clientErr, serverErr error) {
	t.Helper()
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	done := make(chan error, 1)
	c := tls.Client(a, client)
	go func() {
		err := c.Handshake()
		if err == nil {
			_, err = c.Read(make([]byte, 1)) // in TLS 1.3 a server refuses behind the handshake
		} else {
			a.Close()
		}
		done <- err
	}()
	s := tls.Server(b, server)
	if serverErr = s.Handshake(); serverErr == nil {
		if shown := s.ConnectionState().PeerCertificates; len(shown) > 0 {
			subject = shown[0].Subject.String()
		}
		_, serverErr = s.Write([]byte{1})
	}
	b.Close()
	return subject, <-done, serverErr
}

func TestCertificates(t *testing.T) {
	authority, err := certificate.NewAuthority()
	require.NoError(t, err)
	another, err := certificate.NewAuthority()
	require.NoError(t, err)
	forBroker, err := authority.ForHosts("broker.test", "127.0.0.1")
	require.NoError(t, err)
	forAlice, err := authority.ForClient("alice")
	require.NoError(t, err)
	forMallory, err := another.ForClient("alice")
	require.NoError(t, err)
	server := &tls.Config{Certificates: []tls.Certificate{forBroker}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: authority.Pool()}

	for _, host := range []string{"broker.test", "127.0.0.1"} {
		for _, year := range []int{1999, 2026, 2400} {
			now := func() time.Time { return time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC) }
			server.Time = now
			who, clientErr, serverErr := meet(t, &tls.Config{RootCAs: authority.Pool(), ServerName: host, Certificates: []tls.Certificate{forAlice}, Time: now}, server)
			require.NoError(t, clientErr)
			require.NoError(t, serverErr)
			assert.Equal(t, "CN=alice", who)
		}
	}
	_, clientErr, _ := meet(t, &tls.Config{RootCAs: authority.Pool(), ServerName: "other.test", Certificates: []tls.Certificate{forAlice}}, server)
	require.ErrorContains(t, clientErr, "other.test")
	_, clientErr, _ = meet(t, &tls.Config{RootCAs: another.Pool(), ServerName: "broker.test", Certificates: []tls.Certificate{forAlice}}, server)
	require.ErrorContains(t, clientErr, "unknown authority")
	_, _, serverErr := meet(t, &tls.Config{RootCAs: authority.Pool(), ServerName: "broker.test", Certificates: []tls.Certificate{forMallory}}, server)
	require.Error(t, serverErr)

	chain, key, err := certificate.EncodePEM(forBroker)
	require.NoError(t, err)
	read, err := tls.X509KeyPair(chain, key)
	require.NoError(t, err)
	assert.Equal(t, forBroker.Certificate, read.Certificate)
	assert.Contains(t, string(authority.PEM()), "BEGIN CERTIFICATE")
}
