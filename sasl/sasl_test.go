package sasl_test

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"hash"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"kshare/sasl"
)

var now = time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)

// users are passwords by user.
type users map[string]string

func (u users) Password(user string) (string, bool) { p, ok := u[user]; return p, ok }

func (u users) SCRAM(m sasl.SCRAMMechanism, user string) (sasl.Credential, bool) {
	p, ok := u[user]
	if !ok {
		return sasl.Credential{}, false
	}
	c, err := m.FromPassword(p)
	return c, err == nil
}

var known = users{"alice": "alice-pw", "a,b=c": "pw"}

// refused checks that a step is refused with what the client may know, and that no secret is in what is said of it.
func refused(t *testing.T, err error, public string) {
	t.Helper()
	var r *sasl.Refusal
	require.ErrorAs(t, err, &r)
	assert.Equal(t, public, r.Public)
	for _, secret := range []string{"alice-pw", "wr0ng"} {
		assert.NotContains(t, r.Error(), secret)
	}
	assert.NotEmpty(t, r.Error())
}

func TestPlain(t *testing.T) {
	for token, problem := range map[string]string{
		"\x00alice\x00alice-pw":      "",
		"alice\x00alice\x00alice-pw": "",
		"\x00alice\x00wr0ng":         "Authentication failed: Invalid username or password",
		"\x00nosuch\x00wr0ng":        "Authentication failed: Invalid username or password",
		"bob\x00alice\x00alice-pw":   "Authentication failed: Client requested an authorization id that is different from username",
		"\x00\x00wr0ng":              "Authentication failed: username not specified",
		"\x00alice\x00":              "Authentication failed: password not specified",
		"alice-pw":                   "Invalid SASL/PLAIN response: expected 3 tokens, got 1",
		"\x00alice\x00alice-pw\x00":  "Invalid SASL/PLAIN response: expected 3 tokens, got 4",
	} {
		e := sasl.New(sasl.Plain, known)
		answer, err := e.Step([]byte(token), now)
		if problem != "" {
			refused(t, err, problem)
			assert.False(t, e.Complete())
			continue
		}
		require.NoError(t, err)
		assert.Empty(t, answer)
		assert.True(t, e.Complete())
		assert.Equal(t, "alice", e.User())
		assert.Zero(t, e.Expires())
	}
}

// scramClient is the client's side of SCRAM, written on its own after RFC 5802.
func scramClient(t *testing.T, e sasl.Exchange, f func() hash.Hash, gs2, user, password string, spoil func(string) string) (serverSigned bool, err error) {
	t.Helper()
	bare := "n=" + user + ",r=clientnonce"
	first, err := e.Step([]byte(gs2+bare), now)
	if err != nil {
		return false, err
	}
	fields := map[string]string{}
	for part := range strings.SplitSeq(string(first), ",") {
		fields[part[:1]] = part[2:]
	}
	require.True(t, strings.HasPrefix(fields["r"], "clientnonce"))
	require.Greater(t, len(fields["r"]), len("clientnonce")+20)
	require.Equal(t, "4096", fields["i"])
	salt, err := base64.StdEncoding.DecodeString(fields["s"])
	require.NoError(t, err)
	salted, err := pbkdf2.Key(f, password, salt, 4096, f().Size())
	require.NoError(t, err)
	mac := func(key []byte, text string) []byte {
		h := hmac.New(f, key)
		h.Write([]byte(text))
		return h.Sum(nil)
	}
	clientKey := mac(salted, "Client Key")
	stored := f()
	stored.Write(clientKey)
	without := "c=" + base64.StdEncoding.EncodeToString([]byte(gs2)) + ",r=" + fields["r"]
	signed := bare + "," + string(first) + "," + without
	proof := mac(stored.Sum(nil), signed)
	for i := range proof {
		proof[i] ^= clientKey[i]
	}
	final, err := e.Step([]byte(spoil(without+",p="+base64.StdEncoding.EncodeToString(proof))), now)
	if err != nil {
		return false, err
	}
	return string(final) == "v="+base64.StdEncoding.EncodeToString(mac(mac(salted, "Server Key"), signed)), nil
}

func TestSCRAM(t *testing.T) {
	same := func(s string) string { return s }
	for name, f := range map[string]func() hash.Hash{sasl.SCRAMSHA256: sha256.New, sasl.SCRAMSHA512: sha512.New} {
		t.Run(name, func(t *testing.T) {
			for user, escaped := range map[string]string{"alice": "alice", "a,b=c": "a=2Cb=3Dc"} {
				e := sasl.New(name, known)
				signed, err := scramClient(t, e, f, "n,,", escaped, known[user], same)
				require.NoError(t, err)
				assert.True(t, signed, "the server proves that it knows the user")
				assert.True(t, e.Complete())
				assert.Equal(t, user, e.User())
			}
			const other = "Authentication failed: Client requested an authorization id that is different from username"
			for what, c := range map[string]struct {
				gs2, user, password, public string
				spoil                       func(string) string
			}{
				"wrong password":  {"n,,", "alice", "wr0ng", "", same},
				"unknown user":    {"n,,", "nosuch", "wr0ng", "", same},
				"another user":    {"n,a=bob,", "alice", "alice-pw", other, same},
				"malformed":       {"x,,", "alice", "alice-pw", "", same},
				"malformed final": {"n,,", "alice", "alice-pw", "", func(string) string { return "garbage" }},
				"another nonce":   {"n,,", "alice", "alice-pw", "", func(s string) string { return strings.Replace(s, "r=", "r=x", 1) }},
				"an empty proof":  {"n,,", "alice", "alice-pw", "", func(s string) string { return s[:strings.Index(s, ",p=")+3] }},
				"another channel": {"n,,", "alice", "alice-pw", "", func(s string) string { return "c=AAAA" + s[6:] }},
				"the same twice":  {"n,,", "alice", "alice-pw", "", func(s string) string { return s + s }},
			} {
				e := sasl.New(name, known)
				_, err := scramClient(t, e, f, c.gs2, c.user, c.password, c.spoil)
				refused(t, err, c.public)
				assert.False(t, e.Complete(), what)
			}
		})
	}
	_, ok := sasl.SCRAMMechanismNamed("PLAIN")
	assert.False(t, ok)
}

// token makes an unsecured token.
func token(header, claims string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + "."
}

func initial(as, token string) []byte {
	return []byte("n," + as + ",\x01auth=Bearer " + token + "\x01\x01")
}

func TestOAuthBearer(t *testing.T) {
	const none = `{"alg":"none"}`
	good := token(none, `{"sub":"alice","iat":1795996800,"exp":4102444800}`)
	e := sasl.New(sasl.OAuthBearer, known)
	answer, err := e.Step(initial("", good), now)
	require.NoError(t, err)
	assert.Empty(t, answer)
	assert.True(t, e.Complete())
	assert.Equal(t, "alice", e.User())
	assert.Equal(t, time.Unix(4102444800, 0), e.Expires())

	_, err = sasl.New(sasl.OAuthBearer, known).Step(initial("a=bob", good), now)
	refused(t, err, "Authentication failed: Client requested an authorization id (bob) that is different from the token's principal name (alice)")
	for _, malformed := range []string{"garbage", "\x01", "", "n,,\x01\x01", "n,,\x01auth=Basic x\x01\x01"} {
		_, err = sasl.New(sasl.OAuthBearer, known).Step([]byte(malformed), now)
		refused(t, err, "")
	}
	for what, bad := range map[string]string{
		"no token": "nosuch", "no JSON": token("x", "y"), "signed": good + "c2lnbmVk", "another algorithm": token(`{"alg":"HS256"}`, `{"sub":"alice","exp":4102444800}`),
		"expired": token(none, `{"sub":"alice","exp":1}`), "no expiry": token(none, `{"sub":"alice"}`), "no subject": token(none, `{"exp":4102444800}`),
		"expires now": token(none, `{"sub":"alice","exp":1796083200}`), "not yet": token(none, `{"sub":"alice","iat":1796083201,"exp":4102444800}`),
	} {
		e := sasl.New(sasl.OAuthBearer, known)
		answer, err := e.Step(initial("", bad), now)
		require.NoError(t, err, what)
		assert.Equal(t, `{"status":"invalid_token"}`, string(answer), what)
		assert.False(t, e.Complete(), what)
		_, err = e.Step([]byte{1}, now)
		refused(t, err, `{"status":"invalid_token"}`)
	}
}

func TestPlainUsers(t *testing.T) {
	for text, expected := range map[string]users{
		`org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="alice-pw" user_bob="b \"o=b;";`: {"alice": "alice-pw", "bob": `b "o=b;`},
		"org.apache.kafka.common.security.plain.PlainLoginModule required\n\tusername=admin user_admin=x ;":           {"admin": "x"},
		`org.apache.kafka.common.security.scram.ScramLoginModule required user_alice="alice-pw";`:                     {},
	} {
		got, err := sasl.PlainUsers(text)
		require.NoError(t, err)
		assert.Equal(t, map[string]string(expected), got)
	}
	for _, text := range []string{"", `org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="alice-pw"`, `x required user_alice="alice-pw;`} {
		_, err := sasl.PlainUsers(text)
		require.ErrorContains(t, err, "sasl.jaas.config")
		assert.NotContains(t, err.Error(), "alice-pw")
	}
}
