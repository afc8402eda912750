package sasl

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"hash"
	"regexp"
	"strings"
	"sync"
	"time"
)

// SCRAMMechanism is a mechanism of SCRAM, by its code in AlterUserScramCredentials (ScramMechanism.java).
type SCRAMMechanism int8

// The mechanisms of SCRAM.
const (
	SCRAM256 SCRAMMechanism = 1
	SCRAM512 SCRAMMechanism = 2
)

// SCRAMMechanisms are all of them.
var SCRAMMechanisms = []SCRAMMechanism{SCRAM256, SCRAM512}

// MinIterations and MaxIterations bound the iterations of a credential, both inclusive (ScramMechanism.java).
const (
	MinIterations = 4096
	MaxIterations = 16384
)

// SCRAMMechanismNamed is the mechanism with a name.
func SCRAMMechanismNamed(name string) (SCRAMMechanism, bool) {
	for _, m := range SCRAMMechanisms {
		if m.String() == name {
			return m, true
		}
	}
	return 0, false
}

func (m SCRAMMechanism) String() string {
	switch m {
	case SCRAM256:
		return SCRAMSHA256
	case SCRAM512:
		return SCRAMSHA512
	}
	return fmt.Sprintf("SCRAM mechanism %d", int8(m))
}

func (m SCRAMMechanism) hash() hash.Hash {
	if m == SCRAM512 {
		return sha512.New()
	}
	return sha256.New()
}

func (m SCRAMMechanism) hmac(key []byte, text string) []byte {
	h := hmac.New(m.hash, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

func (m SCRAMMechanism) sum(b []byte) []byte {
	h := m.hash()
	h.Write(b)
	return h.Sum(nil)
}

// Credential is what a broker keeps of a user's password: neither it nor what a client proves itself with can be had from it.
type Credential struct {
	Salt, StoredKey, ServerKey []byte
	Iterations                 int32
}

// FromSalted makes the credential of a salted password, as AlterUserScramCredentials brings it.
func (m SCRAMMechanism) FromSalted(salt, salted []byte, iterations int32) Credential {
	return Credential{Salt: salt, StoredKey: m.sum(m.hmac(salted, "Client Key")), ServerKey: m.hmac(salted, "Server Key"), Iterations: iterations}
}

// FromPassword makes the credential of a password, with a random salt and the fewest iterations that there may be.
func (m SCRAMMechanism) FromPassword(password string) (Credential, error) {
	salt := []byte(rand.Text())
	salted, err := pbkdf2.Key(m.hash, password, salt, MinIterations, m.hash().Size())
	if err != nil {
		return Credential{}, fmt.Errorf("%s: %w", m, err)
	}
	return m.FromSalted(salt, salted, MinIterations), nil
}

// scram is SCRAM (RFC 5802, ScramSaslServer): two messages of the client, two of the server.
type scram struct {
	identity
	mechanism  SCRAMMechanism
	users      Users
	credential Credential
	nonce      string // the client's and the server's
	messages   string // first messages of both sides, which the proof signs
}

// Messages of a client (ScramMessages.java). A name has =2C and =3D for comma and equals sign.
var scramFormats = sync.OnceValue(func() (f struct{ first, final *regexp.Regexp }) {
	const name, value, printable, base64 = `(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+`, `[\x01-\x2b\x2d-\x3c\x3e-\x7f]+`, `[\x21-\x2b\x2d-\x7e]+`, `(?:[a-zA-Z0-9/+]{4})*(?:[a-zA-Z0-9/+]{3}=|[a-zA-Z0-9/+]{2}==)?`
	const extensions = `(?:,[A-Za-z]+=` + value + `)*`
	f.first = regexp.MustCompile(`^n,(?:a=(` + name + `))?,((?:m=` + value + `,)?n=(` + name + `),r=(` + printable + `)` + extensions + `)$`)
	f.final = regexp.MustCompile(`^(c=` + base64 + `,r=(` + printable + `)` + extensions + `),p=(` + base64 + `)$`)
	return f
})

func (s *scram) Step(token []byte, _ time.Time) ([]byte, error) {
	if s.nonce == "" {
		return s.first(string(token))
	}
	return s.final(string(token))
}

func (s *scram) first(message string) ([]byte, error) {
	m := scramFormats().first.FindStringSubmatch(message)
	if m == nil {
		return nil, private("%s: the client's first message is malformed", s.mechanism)
	}
	unescape := strings.NewReplacer("=2C", ",", "=3D", "=")
	as, bare := unescape.Replace(m[1]), m[2]
	s.user = unescape.Replace(m[3])
	var known bool
	if s.credential, known = s.users.SCRAM(s.mechanism, s.user); !known {
		return nil, private("%s: the user has no such credential", s.mechanism)
	}
	if as != "" && as != s.user {
		return nil, public("Authentication failed: Client requested an authorization id that is different from username")
	}
	s.nonce = m[4] + rand.Text()
	answer := fmt.Sprintf("r=%s,s=%s,i=%d", s.nonce, base64.StdEncoding.EncodeToString(s.credential.Salt), s.credential.Iterations)
	s.messages = bare + "," + answer
	return []byte(answer), nil
}

func (s *scram) final(message string) ([]byte, error) {
	m := scramFormats().final.FindStringSubmatch(message)
	if m == nil {
		return nil, private("%s: the client's final message is malformed", s.mechanism)
	}
	if m[2] != s.nonce {
		return nil, private("%s: the client's nonce is not the one that it was given", s.mechanism)
	}
	proof, err := base64.StdEncoding.DecodeString(m[3])
	signed := s.messages + "," + m[1]
	key := s.mechanism.hmac(s.credential.StoredKey, signed)
	if err != nil || len(proof) != len(key) {
		return nil, private("%s: the client's proof has the wrong length", s.mechanism)
	}
	subtle.XORBytes(key, key, proof)
	if subtle.ConstantTimeCompare(s.mechanism.sum(key), s.credential.StoredKey) != 1 {
		return nil, private("%s: wrong password", s.mechanism)
	}
	s.complete = true
	return []byte("v=" + base64.StdEncoding.EncodeToString(s.mechanism.hmac(s.credential.ServerKey, signed))), nil
}
