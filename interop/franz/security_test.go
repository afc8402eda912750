package franz

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// guarded is a broker where clients have to say who they are and may do what rules say. KSHARE_SECURED has the addresses of its listeners PLAINTEXT, SASL_SSL
// and SSL, and the directory of its certificates.
type guarded struct {
	*testing.T
	ctx                 context.Context
	plain, saslSSL, ssl string
	root                *kadm.Client
	authority           *x509.CertPool
	bob                 tls.Certificate
	topic, readers      string
}

func startGuarded(t *testing.T) *guarded {
	t.Helper()
	words := strings.Fields(os.Getenv("KSHARE_SECURED"))
	if len(words) != 4 {
		t.Skip("KSHARE_SECURED names no broker")
	}
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	g := &guarded{T: t, ctx: ctx, plain: words[0], saslSSL: words[1], ssl: words[2], authority: x509.NewCertPool()}
	pem, err := os.ReadFile(filepath.Join(words[3], "ca.pem"))
	require.NoError(t, err)
	require.True(t, g.authority.AppendCertsFromPEM(pem))
	g.bob, err = tls.LoadX509KeyPair(filepath.Join(words[3], "bob.pem"), filepath.Join(words[3], "bob.key"))
	require.NoError(t, err)
	g.root = kadm.NewClient(g.client(kgo.SeedBrokers(g.plain)))
	name := fmt.Sprintf("franz-%s-%x", t.Name(), time.Now().UnixNano())
	g.topic, g.readers = name, name+"-readers"
	created, err := g.root.CreateTopic(ctx, 1, 1, nil, g.topic)
	require.NoError(t, err)
	require.NoError(t, created.Err)
	return g
}

func (g *guarded) client(opts ...kgo.Opt) *kgo.Client {
	g.Helper()
	cl, err := kgo.NewClient(append(opts, kgo.MetadataMinAge(10*time.Millisecond))...)
	require.NoError(g, err)
	g.Cleanup(cl.Close)
	return cl
}

func (g *guarded) login(m sasl.Mechanism, opts ...kgo.Opt) *kgo.Client {
	return g.client(append(opts, kgo.SeedBrokers(g.saslSSL), kgo.SASL(m), kgo.DialTLSConfig(&tls.Config{RootCAs: g.authority}))...)
}

func (g *guarded) alice(opts ...kgo.Opt) *kgo.Client {
	return g.login(scram.Auth{User: "alice", Pass: "alice-secret"}.AsSha512Mechanism(), opts...)
}

func (g *guarded) allow(b *kadm.ACLBuilder) {
	g.Helper()
	made, err := g.root.CreateACLs(g.ctx, b)
	require.NoError(g, err)
	for _, m := range made {
		require.NoError(g, m.Err)
	}
}

// polled polls until there is a record, which it returns, or an error, and closes the client.
func (g *guarded) polled(cl *kgo.Client) (value string, err error) {
	g.Helper()
	defer cl.Close()
	for value == "" && err == nil {
		ctx, cancel := context.WithTimeout(g.ctx, 100*time.Millisecond)
		fetches := cl.PollFetches(ctx)
		fetches.EachError(func(_ string, _ int32, e error) {
			if !errors.Is(e, context.DeadlineExceeded) {
				err = e
			}
		})
		cancel()
		fetches.EachRecord(func(r *kgo.Record) { value = string(r.Value) })
		require.NoError(g, g.ctx.Err(), "not within %s", limit)
	}
	return value, err
}

func TestWhoGetsIn(t *testing.T) {
	g := startGuarded(t)
	assert.ErrorContains(t, g.client(kgo.SeedBrokers(g.ssl), kgo.DialTLSConfig(&tls.Config{}), kgo.RequestRetries(0)).Ping(g.ctx), "certificate signed by unknown authority")
	secret := plain.Auth{User: "alice", Pass: "wrong"}
	assert.ErrorIs(t, g.login(secret.AsMechanism(), kgo.RequestRetries(0)).Ping(g.ctx), kerr.SaslAuthenticationFailed)
	for _, m := range []sasl.Mechanism{
		plain.Auth{User: "alice", Pass: "alice-secret"}.AsMechanism(),
		scram.Auth{User: "alice", Pass: "alice-secret"}.AsSha256Mechanism(),
		scram.Auth{User: "alice", Pass: "alice-secret"}.AsSha512Mechanism(),
	} {
		assert.NoError(t, g.login(m).Ping(g.ctx), m.Name())
	}

	carol := kadm.UpsertSCRAM{User: g.topic, Mechanism: kadm.ScramSha256, Iterations: 4096, Password: "carol-secret"}
	altered, err := g.root.AlterUserSCRAMs(g.ctx, nil, []kadm.UpsertSCRAM{carol})
	require.NoError(t, err)
	require.NoError(t, altered.Error())
	hers := scram.Auth{User: g.topic, Pass: "carol-secret"}.AsSha256Mechanism()
	assert.NoError(t, g.login(hers).Ping(g.ctx))
	altered, err = g.root.AlterUserSCRAMs(g.ctx, []kadm.DeleteSCRAM{{User: g.topic, Mechanism: kadm.ScramSha256}}, nil)
	require.NoError(t, err)
	require.NoError(t, altered.Error())
	assert.ErrorIs(t, g.login(hers, kgo.RequestRetries(0)).Ping(g.ctx), kerr.SaslAuthenticationFailed)
}

func TestWhoMay(t *testing.T) {
	g := startGuarded(t)
	bob := g.client(kgo.SeedBrokers(g.ssl), kgo.DialTLSConfig(&tls.Config{RootCAs: g.authority, Certificates: []tls.Certificate{g.bob}}), kgo.DefaultProduceTopic(g.topic))
	record := func() error { return bob.ProduceSync(g.ctx, &kgo.Record{Value: []byte("one")}).FirstErr() }
	assert.ErrorIs(t, record(), kerr.TopicAuthorizationFailed)
	g.allow(kadm.NewACLs().Allow("User:CN=bob").AllowHosts("*").Topics(g.topic).Operations(kadm.OpWrite).ResourcePatternType(kadm.ACLPatternLiteral))
	require.NoError(t, record())

	from := kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())
	ordinary := []kgo.Opt{kgo.ConsumerGroup(g.readers + "-ordinary"), kgo.ConsumeTopics(g.topic), from}
	_, err := g.polled(g.alice(ordinary...))
	assert.ErrorIs(t, err, kerr.TopicAuthorizationFailed)
	g.allow(kadm.NewACLs().Allow("User:alice").AllowHosts("*").Topics(g.topic).Operations(kadm.OpRead).ResourcePatternType(kadm.ACLPatternLiteral))
	_, err = g.polled(g.alice(ordinary...))
	assert.ErrorIs(t, err, kerr.GroupAuthorizationFailed)
	g.allow(kadm.NewACLs().Allow("User:alice").AllowHosts("*").Groups(g.readers).Operations(kadm.OpRead).ResourcePatternType(kadm.ACLPatternPrefixed))
	value, err := g.polled(g.alice(ordinary...))
	require.NoError(t, err)
	assert.Equal(t, "one", value)

	(&env{T: t, ctx: g.ctx, bootstrap: g.plain, group: g.readers + "-share"}).setGroup("share.auto.offset.reset", "earliest")
	value, err = g.polled(g.alice(kgo.ShareGroup(g.readers+"-share"), kgo.ConsumeTopics(g.topic)))
	require.NoError(t, err)
	assert.Equal(t, "one", value)

	no := kadm.NewACLs().Deny("User:alice").DenyHosts("*").Topics(g.topic).Operations(kadm.OpRead).ResourcePatternType(kadm.ACLPatternLiteral)
	g.allow(no)
	_, err = g.polled(g.alice(kgo.ConsumerGroup(g.readers+"-denied"), kgo.ConsumeTopics(g.topic), from))
	assert.ErrorIs(t, err, kerr.TopicAuthorizationFailed)
	deleted, err := g.root.DeleteACLs(g.ctx, no)
	require.NoError(t, err)
	require.Len(t, deleted, 1)
	assert.Len(t, deleted[0].Deleted, 1)
}
