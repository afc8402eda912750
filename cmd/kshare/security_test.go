package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// A user logs in over TLS, another shows a certificate that the command has made, and a third listener knows nobody and lets everybody look.
func TestServeSecurely(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := serving(t, "--listener", "SASL_SSL://127.0.0.1:0", "--listener", "SSL://127.0.0.1:0", "--listener", "OPEN://127.0.0.1:0", "--sasl-user", "alice:secret:with colon",
		"--tls-out", filepath.Join(dir, "tls"), "--tls-client", "bob", "--authorizer", "--super-user", "User:alice", "--super-user", "User:CN=bob",
		"--config", "listener.security.protocol.map=OPEN:PLAINTEXT", "--config", "listener.name.ssl.ssl.client.auth=required", "--topic", "orders")
	addrs := map[string]string{}
	for range 3 {
		line, err := s.stdout.ReadString('\n')
		require.NoError(t, err)
		words := strings.Fields(line)
		require.Len(t, words, 3, line)
		require.Equal(t, "LISTENER", words[0])
		addrs[words[1]] = words[2]
	}
	assert.Equal(t, s.addrs, []string{addrs["SASL_SSL"]}, "READY has the first listener")

	ca, err := os.ReadFile(filepath.Join(dir, "tls", "ca.pem"))
	require.NoError(t, err)
	trusted := x509.NewCertPool()
	require.True(t, trusted.AppendCertsFromPEM(ca))
	forBob, err := tls.LoadX509KeyPair(filepath.Join(dir, "tls", "bob.pem"), filepath.Join(dir, "tls", "bob.key"))
	require.NoError(t, err)
	key, err := os.Stat(filepath.Join(dir, "tls", "bob.key"))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), key.Mode())

	produce := func(listener string, opts ...kgo.Opt) error {
		client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(addrs[listener]), kgo.DefaultProduceTopic("orders")}, opts...)...)
		require.NoError(t, err)
		defer client.Close()
		return client.ProduceSync(context.Background(), &kgo.Record{Value: []byte("v")}).FirstErr()
	}
	require.NoError(t, produce("SASL_SSL", kgo.DialTLSConfig(&tls.Config{RootCAs: trusted}), kgo.SASL(scram.Auth{User: "alice", Pass: "secret:with colon"}.AsSha512Mechanism())))
	require.NoError(t, produce("SSL", kgo.DialTLSConfig(&tls.Config{RootCAs: trusted, Certificates: []tls.Certificate{forBob}})))
	require.ErrorIs(t, produce("OPEN"), kerr.TopicAuthorizationFailed)
	s.stop(t, syscall.SIGTERM)
	assert.NotContains(t, s.stderr.String(), "secret")
}

// Flags that make no sense together are refused, and no password is repeated.
func TestSecurityFlags(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		says string
		args []string
	}{
		{"--sasl-user is name:password", []string{"--sasl-user", "verysecret"}},
		{"no listener for them", []string{"--sasl-user", "alice:verysecret"}},
		{"add --authorizer", []string{"--super-user", "User:alice"}},
		{"--tls-cert and --tls-key go together", []string{"--tls-cert", "x.pem"}},
		{"add --tls-out", []string{"--tls-client", "bob"}},
		{"no listener has TLS", []string{"--tls-out", t.TempDir()}},
		{"also that of a file", []string{"--listener", "SSL://127.0.0.1:0", "--tls-out", t.TempDir(), "--tls-client", "../bob"}},
		{"NAME://host:port", []string{"--listener", "127.0.0.1:0"}},
	} {
		code, _, stderr := run(t, append([]string{"serve", "--listen", "127.0.0.1:0"}, c.args...)...)
		assert.Equal(t, 1, code, c.args)
		assert.Contains(t, stderr, c.says)
		assert.NotContains(t, stderr, "verysecret")
	}
}
