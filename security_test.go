package kshare_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"kshare"
	"kshare/acl"
	"kshare/requestlog"
)

// samSalted is the salted password of sam.
var samSalted = []byte{0xf3, 0x31, 0xe2, 0xa8, 0x33, 0x40, 0x6b, 0x4c, 0xc4, 0xeb, 0xd7, 0x96, 0xfb, 0x85, 0x0d, 0xc2, 0xca, 0xac, 0xc7, 0x78, 0xdd, 0x8a, 0x98, 0xe9, 0xab, 0xd2, 0xd8, 0xaa, 0xfb, 0x3f, 0xe1, 0x5a}

// authorized has a cluster use the authorizer.
var authorized = kshare.WithConfig("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer")

// inSecureBubble runs a test against a cluster in a bubble.
func inSecureBubble(t *testing.T, f func(t *testing.T, c *kshare.Cluster), opts ...kshare.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c, err := kshare.Start(append([]kshare.Option{kshare.WithInMemoryNetwork(), kshare.WithTopic("orders", 1)}, opts...)...)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, c.Close()) })
		f(t, c)
	})
}

// as makes a client of a listener that logs in with some mechanism.
func as(t *testing.T, c *kshare.Cluster, listener string, m sasl.Mechanism, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	opts = append([]kgo.Opt{kgo.SeedBrokers(c.ListenerAddrs(listener)...), kgo.Dialer(c.Dial), kgo.DefaultProduceTopic("orders"), kgo.RequestRetries(0), kgo.RetryTimeout(time.Second)}, opts...)
	if m != nil {
		opts = append(opts, kgo.SASL(m))
	}
	client, err := kgo.NewClient(opts...)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

// unsecured is an unsecured token of a user.
func unsecured(user string, expires time.Time) string {
	encode := func(v any) string {
		b, _ := json.Marshal(v)
		return base64.RawURLEncoding.EncodeToString(b)
	}
	return encode(map[string]string{"alg": "none"}) + "." + encode(map[string]any{"sub": user, "exp": expires.Unix()}) + "."
}

func login(mechanism, user, password string) sasl.Mechanism {
	switch mechanism {
	case "PLAIN":
		return plain.Auth{User: user, Pass: password}.AsMechanism()
	case "SCRAM-SHA-256":
		return scram.Auth{User: user, Pass: password}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return scram.Auth{User: user, Pass: password}.AsSha512Mechanism()
	}
	return oauth.Auth{Token: unsecured(user, time.Now().Add(time.Hour))}.AsMechanism()
}

// Real clients log in by every mechanism, write and read; those with a wrong password are refused after the delay that Kafka has.
func TestLogins(t *testing.T) {
	inSecureBubble(t, func(t *testing.T, c *kshare.Cluster) {
		for i, mechanism := range []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"} {
			client := as(t, c, "SASL_PLAINTEXT", login(mechanism, "alice", "alice-pw"), kgo.ConsumeTopics("orders"))
			require.NoError(t, client.ProduceSync(context.Background(), &kgo.Record{Value: []byte(mechanism)}).FirstErr())
			for read := 0; read <= i; {
				read += client.PollFetches(context.Background()).NumRecords()
			}
			if mechanism == "OAUTHBEARER" {
				continue
			}
			for _, wrong := range []sasl.Mechanism{login(mechanism, "alice", "wrong"), login(mechanism, "nosuch", "alice-pw")} {
				began := time.Now()
				err := as(t, c, "SASL_PLAINTEXT", wrong).Ping(context.Background())
				require.ErrorIs(t, err, kerr.SaslAuthenticationFailed, mechanism)
				assert.Equal(t, 100*time.Millisecond, time.Since(began), "connection.failed.authentication.delay.ms")
			}
		}
		require.Error(t, as(t, c, "SASL_PLAINTEXT", nil).Ping(context.Background()), "without a login")
	}, kshare.WithListener("SASL_PLAINTEXT://127.0.0.1:0"), kshare.WithSASLUser("alice", "alice-pw"),
		kshare.WithConfig("sasl.enabled.mechanisms", "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER"))
}

// Credentials of SCRAM are made, described and deleted with Kafka's requests, and outlive a restart.
func TestSCRAMCredentials(t *testing.T) {
	memory := kshare.NewMemory()
	opts := []kshare.Option{kshare.WithMemory(memory), kshare.WithListen("127.0.0.1:0"), kshare.WithListener("SASL_PLAINTEXT://127.0.0.1:0")}
	inSecureBubble(t, func(t *testing.T, c *kshare.Cluster) {
		q := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
		u := kmsg.NewAlterUserSCRAMCredentialsRequestUpsertion()
		u.Name, u.Mechanism, u.Iterations, u.Salt = "sam", 1, 4096, []byte("salt")
		// PBKDF2-HMAC-SHA-256 of "sam-pw", "salt" and 4096 iterations, computed elsewhere.
		u.SaltedPassword = samSalted
		q.Upsertions = append(q.Upsertions, u)
		p, err := as(t, c, "PLAINTEXT", nil).Request(context.Background(), q)
		require.NoError(t, err)
		require.Zero(t, p.(*kmsg.AlterUserSCRAMCredentialsResponse).Results[0].ErrorCode)
		require.NoError(t, as(t, c, "SASL_PLAINTEXT", login("SCRAM-SHA-256", "sam", "sam-pw")).Ping(context.Background()))
		require.Error(t, as(t, c, "SASL_PLAINTEXT", login("SCRAM-SHA-512", "sam", "sam-pw")).Ping(context.Background()))
	}, opts...)
	inSecureBubble(t, func(t *testing.T, c *kshare.Cluster) {
		require.NoError(t, as(t, c, "SASL_PLAINTEXT", login("SCRAM-SHA-256", "sam", "sam-pw")).Ping(context.Background()))
		q := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
		q.Deletions = []kmsg.AlterUserSCRAMCredentialsRequestDeletion{{Name: "sam", Mechanism: 1}}
		_, err := as(t, c, "PLAINTEXT", nil).Request(context.Background(), q)
		require.NoError(t, err)
		require.ErrorIs(t, as(t, c, "SASL_PLAINTEXT", login("SCRAM-SHA-256", "sam", "sam-pw")).Ping(context.Background()), kerr.SaslAuthenticationFailed)
	}, opts...)
}

// A client authenticates anew before its session ends (KIP-368), and one that does not is cut off.
func TestReauthentication(t *testing.T) {
	inSecureBubble(t, func(t *testing.T, c *kshare.Cluster) {
		client := as(t, c, "SASL_PLAINTEXT", login("PLAIN", "alice", "alice-pw"))
		for range 10 {
			require.NoError(t, client.Ping(context.Background()))
			time.Sleep(2 * time.Second)
		}
		requests, err := c.Requests(requestlog.Query{API: "SaslAuthenticate"})
		require.NoError(t, err)
		require.Greater(t, len(requests), 2)
		connections := map[uint64]int{}
		for _, r := range requests {
			connections[r.Connection]++
		}
		assert.Less(t, len(connections), len(requests), "it authenticates anew on the same connection")

		conn, err := c.Dial(context.Background(), "tcp", c.ListenerAddrs("SASL_PLAINTEXT")[0])
		require.NoError(t, err)
		defer conn.Close()
		s := &raw{t: t, conn: conn}
		h := kmsg.NewPtrSASLHandshakeRequest()
		h.Version, h.Mechanism = 1, "PLAIN"
		s.ask(h)
		a := kmsg.NewPtrSASLAuthenticateRequest()
		a.Version, a.SASLAuthBytes = 2, []byte("\x00alice\x00alice-pw")
		require.EqualValues(t, 5000, s.ask(a).(*kmsg.SASLAuthenticateResponse).SessionLifetimeMillis)
		time.Sleep(5*time.Second - time.Millisecond)
		require.NotNil(t, s.ask(kmsg.NewPtrMetadataRequest()))
		time.Sleep(time.Millisecond)
		require.Nil(t, s.ask(kmsg.NewPtrMetadataRequest()), "the connection is closed")
	}, kshare.WithListener("SASL_PLAINTEXT://127.0.0.1:0"), kshare.WithSASLUser("alice", "alice-pw"), kshare.WithConfig("connections.max.reauth.ms", "5000"), kshare.WithRequestLog(1000))
}

// raw is a connection whose client does as it is told.
type raw struct {
	t    *testing.T
	conn net.Conn
	n    int32
}

// ask returns the answer to a request, nil where the connection is closed instead.
func (s *raw) ask(q kmsg.Request) kmsg.Response {
	s.t.Helper()
	s.n++
	_, err := s.conn.Write(kmsg.NewRequestFormatter().AppendRequest(nil, q, s.n))
	if err != nil {
		return nil
	}
	p, err := readAnswer(s.conn, q)
	if err != nil {
		return nil
	}
	return p
}

func readAnswer(conn net.Conn, q kmsg.Request) (kmsg.Response, error) {
	head := make([]byte, 4)
	if _, err := readFull(conn, head); err != nil {
		return nil, err
	}
	body := make([]byte, int(head[0])<<24|int(head[1])<<16|int(head[2])<<8|int(head[3]))
	if _, err := readFull(conn, body); err != nil {
		return nil, err
	}
	body = body[4:]
	if q.IsFlexible() {
		body = body[1:]
	}
	p := q.ResponseKind()
	return p, p.ReadFrom(body)
}

func readFull(conn net.Conn, b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		var m int
		m, err = conn.Read(b[n:])
		n += m
	}
	if n == len(b) {
		return n, nil
	}
	return n, err
}

// Over TLS clients trust the authority that the cluster has made itself; with SASL inside, and with certificates of their own.
func TestTLS(t *testing.T) {
	inSecureBubble(t, func(t *testing.T, c *kshare.Cluster) {
		require.NotNil(t, c.Authority())
		over := func(certificates ...tls.Certificate) kgo.Opt {
			return kgo.Dialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
				nc, err := c.Dial(ctx, network, addr)
				if err != nil {
					return nil, err
				}
				return tls.Client(nc, &tls.Config{RootCAs: c.Authority().Pool(), ServerName: "127.0.0.1", Certificates: certificates}), nil
			})
		}
		secret := as(t, c, "SASL_SSL", login("SCRAM-SHA-512", "alice", "alice-pw"), over())
		require.NoError(t, secret.ProduceSync(context.Background(), &kgo.Record{Value: bytes.Repeat([]byte("v"), 100_000)}).FirstErr())
		require.Error(t, as(t, c, "SASL_SSL", login("SCRAM-SHA-512", "alice", "alice-pw")).Ping(context.Background()), "without TLS")

		forBob, err := c.Authority().ForClient("bob")
		require.NoError(t, err)
		bob := as(t, c, "SSL", nil, over(forBob))
		require.NoError(t, bob.Ping(context.Background()))
		require.Error(t, as(t, c, "SSL", nil, over()).Ping(context.Background()), "without a certificate")
		_, err = bob.Request(context.Background(), kmsg.NewPtrListGroupsRequest())
		require.NoError(t, err)
		err = bob.ProduceSync(context.Background(), &kgo.Record{Value: []byte("v")}).FirstErr()
		require.ErrorIs(t, err, kerr.TopicAuthorizationFailed, "bob has no rights")
		require.NoError(t, c.AddRules(kshare.Rule{Type: acl.Topic, Name: "orders", Pattern: acl.Literal, Principal: "User:CN=bob", Host: "*", Operation: acl.All, Permission: acl.Allow},
			kshare.Rule{Type: acl.Cluster, Name: acl.ClusterName, Pattern: acl.Literal, Principal: "User:CN=bob", Host: "*", Operation: acl.IdempotentWrite, Permission: acl.Allow}))
		bob.PurgeTopicsFromClient("orders")
		require.NoError(t, as(t, c, "SSL", nil, over(forBob)).ProduceSync(context.Background(), &kgo.Record{Value: []byte("v")}).FirstErr())
	}, kshare.WithListener("SASL_SSL://127.0.0.1:0"), kshare.WithListener("SSL://127.0.0.1:0"), kshare.WithSASLUser("alice", "alice-pw"), authorized,
		kshare.WithConfig("super.users", "User:alice"), kshare.WithConfig("listener.name.ssl.ssl.client.auth", "required"))
}

// Every listener of every node has an address of its own, and who asks on one is told of that one.
func TestListeners(t *testing.T) {
	inSecureBubble(t, func(t *testing.T, c *kshare.Cluster) {
		assert.Equal(t, []string{"INTERNAL", "EXTERNAL"}, c.ListenerNames())
		assert.Equal(t, c.ListenerAddrs("INTERNAL"), c.Addrs())
		assert.Equal(t, []string{"kafka.test:19092", "kafka.test:19093"}, c.ListenerAddrs("EXTERNAL"))
		assert.Nil(t, c.ListenerAddrs("NOSUCH"))
		for _, name := range c.ListenerNames() {
			dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
				return c.Dial(ctx, network, strings.NewReplacer("kafka.test:19092", "127.0.0.1:7000", "kafka.test:19093", "127.0.0.1:7001").Replace(addr))
			}
			m := sasl.Mechanism(nil)
			if name == "EXTERNAL" {
				m = login("PLAIN", "alice", "alice-pw")
			}
			client := as(t, c, name, m, kgo.Dialer(dial))
			p, err := client.Request(context.Background(), kmsg.NewPtrMetadataRequest())
			require.NoError(t, err)
			var addrs []string
			for _, b := range p.(*kmsg.MetadataResponse).Brokers {
				addrs = append(addrs, fmt.Sprintf("%s:%d", b.Host, b.Port))
			}
			assert.Equal(t, c.ListenerAddrs(name), addrs)
			require.NoError(t, client.ProduceSync(context.Background(), &kgo.Record{Value: []byte("v")}).FirstErr())
		}
		require.NoError(t, c.Reset(), "addresses stay")
		assert.Equal(t, []string{"kafka.test:19092", "kafka.test:19093"}, c.ListenerAddrs("EXTERNAL"))
	}, kshare.WithBrokers(2), kshare.WithListener("INTERNAL://127.0.0.1:0"), kshare.WithListener("EXTERNAL://127.0.0.1:7000"), kshare.WithAdvertise("EXTERNAL://kafka.test:19092"),
		kshare.WithConfig("listener.security.protocol.map", "INTERNAL:PLAINTEXT,EXTERNAL:SASL_PLAINTEXT"), kshare.WithSASLUser("alice", "alice-pw"))
}

// What cannot work is refused at the start, with what is wrong.
func TestSecurityMistakes(t *testing.T) {
	for _, c := range []struct {
		says string
		opts []kshare.Option
	}{
		{"NAME://host:port", []kshare.Option{kshare.WithListener("127.0.0.1:9092")}},
		{"its name is no security protocol", []kshare.Option{kshare.WithListener("EXTERNAL://127.0.0.1:0")}},
		{"there are SASL users and no listener for them", []kshare.Option{kshare.WithSASLUser("alice", "alice-pw")}},
		{"a user has a name and a password", []kshare.Option{kshare.WithSASLUser("alice", "")}},
		{`there is no "GSSAPI" here`, []kshare.Option{kshare.WithListener("SASL_PLAINTEXT://127.0.0.1:0"), kshare.WithConfig("sasl.enabled.mechanisms", "GSSAPI")}},
		{"there is one authorizer", []kshare.Option{kshare.WithConfig("authorizer.class.name", "com.example.Mine")}},
		{"is not type:name", []kshare.Option{authorized, kshare.WithConfig("super.users", "alice")}},
		{"allow.everyone.if.no.acl.found", []kshare.Option{authorized, kshare.WithConfig("allow.everyone.if.no.acl.found", "perhaps")}},
		{"ends with a semicolon", []kshare.Option{kshare.WithListener("SASL_PLAINTEXT://127.0.0.1:0"), kshare.WithConfig("sasl.jaas.config", `x required user_alice="alice-pw"`)}},
		{"set ssl.keystore.type=PEM", []kshare.Option{kshare.WithListener("SSL://127.0.0.1:0"), kshare.WithConfig("ssl.keystore.location", "keystore.jks")}},
	} {
		cluster, err := kshare.Start(append(c.opts, kshare.WithInMemoryNetwork())...)
		if err == nil {
			cluster.Close()
		}
		require.ErrorContains(t, err, c.says)
		assert.NotContains(t, err.Error(), "alice-pw")
	}
}

// locked is a buffer for the log of a cluster.
type locked struct {
	mu sync.Mutex
	bytes.Buffer
}

func (l *locked) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.Write(b)
}

// No secret is in the log, or among the requests that are remembered.
func TestSecretsStaySecret(t *testing.T) {
	var log, recording locked
	inSecureBubble(t, func(t *testing.T, c *kshare.Cluster) {
		for _, mechanism := range []string{"PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"} {
			for _, password := range []string{"pass-right", "pass-wrong"} {
				_ = as(t, c, "SASL_PLAINTEXT", login(mechanism, "alice", password)).Ping(context.Background())
			}
		}
		q := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
		u := kmsg.NewAlterUserSCRAMCredentialsRequestUpsertion()
		u.Name, u.Mechanism, u.Iterations, u.Salt, u.SaltedPassword = "sam", 1, 4096, []byte("pass-salt"), []byte("pass-salted")
		q.Upsertions = append(q.Upsertions, u)
		client := as(t, c, "SASL_PLAINTEXT", login("PLAIN", "alice", "pass-right"))
		_, err := client.Request(context.Background(), q)
		require.NoError(t, err)
		alter := kmsg.NewPtrIncrementalAlterConfigsRequest()
		r := kmsg.NewIncrementalAlterConfigsRequestResource()
		r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeBroker, "1"
		key := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		key.Name, key.Value = "listener.name.x.ssl.keystore.password", kmsg.StringPtr("pass-keystore")
		r.Configs = append(r.Configs, key)
		alter.Resources = append(alter.Resources, r)
		_, err = client.Request(context.Background(), alter)
		require.NoError(t, err)

		requests, err := c.Requests(requestlog.Query{})
		require.NoError(t, err)
		text, err := json.Marshal(requests)
		require.NoError(t, err)
		assert.Contains(t, string(text), "SaslAuthenticate")
		assert.Contains(t, string(text), "AlterUserScramCredentials")
		require.Contains(t, recording.String(), fmt.Sprintf("%x", "listener.name.x.ssl"), "frames are recorded in hexadecimal")
		for _, shown := range []string{string(text), log.String(), recording.String()} {
			assert.NotContains(t, shown, "pass-")
			assert.NotContains(t, shown, fmt.Sprintf("%x", "pass-"))
			assert.NotContains(t, shown, fmt.Sprintf("%x", "r="), "neither nonces")
		}
		assert.Contains(t, log.String(), "could not be authenticated")
	}, kshare.WithListener("SASL_PLAINTEXT://127.0.0.1:0"), kshare.WithSASLUser("alice", "pass-right"), kshare.WithRequestLog(1000), kshare.WithJudge(), kshare.WithJudgeRecording(&recording),
		kshare.WithConfig("sasl.enabled.mechanisms", "PLAIN,SCRAM-SHA-256,OAUTHBEARER"),
		kshare.WithLogger(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))))
}

// Connections that do not go on leave nothing behind, and what is not authenticated cannot make the broker take much memory.
func TestHalfOpenHandshakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := kshare.Start(kshare.WithInMemoryNetwork(), kshare.WithListener("SASL_PLAINTEXT://127.0.0.1:0"), kshare.WithListener("SASL_SSL://127.0.0.1:0"),
			kshare.WithSASLUser("alice", "alice-pw"))
		require.NoError(t, err)
		var conns []net.Conn
		dial := func(listener string, b ...byte) net.Conn {
			conn, err := c.Dial(context.Background(), "tcp", c.ListenerAddrs(listener)[0])
			require.NoError(t, err)
			if len(b) > 0 {
				_, err = conn.Write(b)
				require.NoError(t, err)
			}
			conns = append(conns, conn)
			return conn
		}
		for range 20 {
			dial("SASL_PLAINTEXT")
			dial("SASL_PLAINTEXT", 0, 0, 1)
			dial("SASL_SSL")
			dial("SASL_SSL", 22, 3, 1)
		}
		large := dial("SASL_PLAINTEXT", 0, 8, 0, 1) // one byte more than sasl.server.max.receive.size
		began := time.Now()
		_, err = large.Read(make([]byte, 1))
		require.Error(t, err)
		assert.Equal(t, 100*time.Millisecond, time.Since(began))

		refused := dial("SASL_PLAINTEXT")
		s := &raw{t: t, conn: refused}
		h := kmsg.NewPtrSASLHandshakeRequest()
		h.Version, h.Mechanism = 1, "PLAIN"
		s.ask(h)
		a := kmsg.NewPtrSASLAuthenticateRequest()
		a.Version, a.SASLAuthBytes = 2, []byte("\x00alice\x00wrong")
		_, err = refused.Write(kmsg.NewRequestFormatter().AppendRequest(nil, a, 2))
		require.NoError(t, err)
		require.NoError(t, c.Close(), "also while an answer is held back")
		for _, conn := range conns {
			conn.Close()
		}
	})
}
