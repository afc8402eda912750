package sasl

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"regexp"
	"strings"
	"sync"
	"time"
)

// oauthBearer is OAUTHBEARER (RFC 7628, OAuthBearerSaslServer) with the validator that Apache Kafka has where none is configured: a token is a JSON Web
// Token without a signature. Anybody can make one, so it is for tests alone.
type oauthBearer struct {
	identity
	refused string // what the client was told of its last token, "" for nothing
}

// The one answer to a token that is no good. The client confirms it with the byte 1, and is refused then.
const invalidToken = `{"status":"invalid_token"}`

var bearerFormats = sync.OnceValue(func() (f struct{ initial, auth *regexp.Regexp }) {
	const name, pairs = `(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+`, `(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*`
	f.initial = regexp.MustCompile(`^n,(?:a=(` + name + `))?,\x01(` + pairs + `)\x01$`)
	f.auth = regexp.MustCompile(`^(\w+) +([-_~+/.a-zA-Z0-9]+=*)$`)
	return f
})

func (o *oauthBearer) Step(token []byte, now time.Time) ([]byte, error) {
	if o.refused != "" && string(token) == "\x01" {
		return nil, &Refusal{Public: o.refused}
	}
	o.refused = ""
	m := bearerFormats().initial.FindStringSubmatch(string(token))
	if m == nil {
		return nil, private("%s: the client's first message is malformed", OAuthBearer)
	}
	var auth []string
	for pair := range strings.SplitSeq(m[2], "\x01") {
		if value, ok := strings.CutPrefix(pair, "auth="); ok {
			auth = bearerFormats().auth.FindStringSubmatch(value)
		}
	}
	if auth == nil || !strings.EqualFold(auth[1], "bearer") {
		return nil, private("%s: the client's first message has no bearer token", OAuthBearer)
	}
	user, expires, ok := readToken(auth[2], now)
	if !ok {
		o.refused = invalidToken
		return []byte(invalidToken), nil
	}
	if as := strings.NewReplacer("=2C", ",", "=3D", "=").Replace(m[1]); as != "" && as != user {
		return nil, public("Authentication failed: Client requested an authorization id (%s) that is different from the token's principal name (%s)", as, user)
	}
	o.user, o.expires, o.complete = user, expires, true
	return nil, nil
}

// readToken reads an unsecured token: whom it is of, and until when it is valid. It is false for one that is no such token or not valid now
// (OAuthBearerUnsecuredValidatorCallbackHandler).
func readToken(token string, now time.Time) (user string, expires time.Time, ok bool) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 || parts[2] != "" {
		return "", time.Time{}, false
	}
	var header struct {
		Algorithm string `json:"alg"`
	}
	var claims struct {
		Subject string   `json:"sub"`
		Issued  *float64 `json:"iat"`
		Expires *float64 `json:"exp"`
	}
	for i, into := range []any{&header, &claims} {
		b, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[i], "="))
		if err != nil || json.Unmarshal(b, into) != nil {
			return "", time.Time{}, false
		}
	}
	if header.Algorithm != "none" || strings.TrimSpace(claims.Subject) == "" || claims.Expires == nil {
		return "", time.Time{}, false
	}
	seconds := func(s float64) time.Time { return time.UnixMilli(int64(math.Round(min(max(s, -1e11), 1e11) * 1000))) }
	if expires = seconds(*claims.Expires); !now.Before(expires) {
		return "", time.Time{}, false
	}
	if claims.Issued != nil && (now.Before(seconds(*claims.Issued)) || !seconds(*claims.Issued).Before(expires)) {
		return "", time.Time{}, false
	}
	return claims.Subject, expires, true
}
