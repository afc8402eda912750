package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// Login is how a client says who it is, and whom it trusts.
type Login struct {
	Mechanism    string `json:"sasl_mechanism"`
	User         string `json:"sasl_username"`
	Password     string `json:"sasl_password"`
	TokenSeconds int64  `json:"sasl_token_s"`
	CA           string `json:"tls_ca"`
}

func (l *Login) options() (opts []kgo.Opt) {
	switch l.Mechanism {
	case "PLAIN":
		opts = append(opts, kgo.SASL(plain.Auth{User: l.User, Pass: l.Password}.AsMechanism()))
	case "SCRAM-SHA-256":
		opts = append(opts, kgo.SASL(scram.Auth{User: l.User, Pass: l.Password}.AsSha256Mechanism()))
	case "SCRAM-SHA-512":
		opts = append(opts, kgo.SASL(scram.Auth{User: l.User, Pass: l.Password}.AsSha512Mechanism()))
	case "OAUTHBEARER":
		opts = append(opts, kgo.SASL(oauth.Oauth(func(context.Context) (oauth.Auth, error) { return oauth.Auth{Token: l.token()}, nil })))
	}
	if l.CA != "" {
		pem, err := os.ReadFile(l.CA)
		if err != nil {
			fmt.Fprintln(os.Stderr, "tls_ca:", err)
			os.Exit(2)
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(pem)
		opts = append(opts, kgo.DialTLSConfig(&tls.Config{RootCAs: pool}))
	}
	return opts
}

// token is an unsecured one that lasts from now on.
func (l *Login) token() string {
	part := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	now := time.Now().Unix()
	return part(`{"alg":"none"}`) + "." + part(fmt.Sprintf(`{"sub":%q,"iat":%d,"exp":%d}`, l.User, now, now+l.TokenSeconds)) + "."
}
