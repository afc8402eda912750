package sasl

import (
	"strings"
	"time"
)

// plain is PLAIN (RFC 4616, PlainSaslServer): one message, authorization id NUL user NUL password.
type plain struct {
	identity
	users Users
}

func (p *plain) Step(token []byte, _ time.Time) ([]byte, error) {
	parts := strings.Split(string(token), "\x00")
	if len(parts) != 3 {
		return nil, public("Invalid SASL/PLAIN response: expected 3 tokens, got %d", len(parts))
	}
	as, user, password := parts[0], parts[1], parts[2]
	switch {
	case user == "":
		return nil, public("Authentication failed: username not specified")
	case password == "":
		return nil, public("Authentication failed: password not specified")
	}
	expected, known := p.users.Password(user)
	if right := equal(password, expected); !known || !right { // an unknown user takes as long as a wrong password
		return nil, &Refusal{Public: "Authentication failed: Invalid username or password"}
	}
	if as != "" && as != user {
		return nil, public("Authentication failed: Client requested an authorization id that is different from username")
	}
	p.user, p.complete = user, true
	return nil, nil
}
