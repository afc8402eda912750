// Package sasl is the server's side of the SASL mechanisms that Kafka has: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, and OAUTHBEARER with unsecured tokens. It
// holds no connection and no clock: what a client sends goes in, what it is answered comes out.
package sasl

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"time"
)

// The mechanisms, by the names that clients ask for them with.
const (
	Plain       = "PLAIN"
	SCRAMSHA256 = "SCRAM-SHA-256"
	SCRAMSHA512 = "SCRAM-SHA-512"
	OAuthBearer = "OAUTHBEARER"
)

// Mechanisms are all of them.
var Mechanisms = []string{Plain, SCRAMSHA256, SCRAMSHA512, OAuthBearer}

// Users tells what is known of users.
type Users interface {
	// Password is a user's password of PLAIN; false for a user that has none.
	Password(user string) (string, bool)
	// SCRAM is a user's credential of a SCRAM mechanism; false for a user that has none.
	SCRAM(m SCRAMMechanism, user string) (Credential, bool)
}

// Refusal is why a client is refused. None of what the client has sent as a secret is in it.
type Refusal struct {
	// Public is what the client is told, "" for nothing but that it is refused: so nobody learns which users there are.
	Public string
	// Private is what the broker's log may say.
	Private string
}

func (r *Refusal) Error() string {
	if r.Private != "" {
		return r.Private
	}
	return r.Public
}

// public refuses with a reason that the client may know.
func public(format string, args ...any) *Refusal {
	return &Refusal{Public: fmt.Sprintf(format, args...)}
}

// private refuses with a reason that the client is not told.
func private(format string, args ...any) *Refusal {
	return &Refusal{Private: fmt.Sprintf(format, args...)}
}

// Exchange is one authentication.
type Exchange interface {
	// Step takes what the client has sent and returns what it is answered, which may be empty. It fails with a *Refusal, after which it is not to be
	// called again.
	Step(token []byte, now time.Time) (answer []byte, err error)
	// Complete tells that the client is authenticated.
	Complete() bool
	// User is the name of the user, once the exchange is complete.
	User() string
	// Expires is when what the client has shown loses its validity, the zero time for never.
	Expires() time.Time
}

// New begins an exchange of a mechanism, which is one of Mechanisms.
func New(mechanism string, users Users) Exchange {
	switch mechanism {
	case Plain:
		return &plain{users: users}
	case OAuthBearer:
		return &oauthBearer{}
	}
	m, ok := SCRAMMechanismNamed(mechanism)
	if !ok {
		panic("sasl: unknown mechanism " + mechanism)
	}
	return &scram{mechanism: m, users: users}
}

// equal compares two secrets in a time that depends on neither.
func equal(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

// identity is what every exchange ends with.
type identity struct {
	user     string
	expires  time.Time
	complete bool
}

func (i *identity) Complete() bool     { return i.complete }
func (i *identity) User() string       { return i.user }
func (i *identity) Expires() time.Time { return i.expires }
