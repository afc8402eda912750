package replay

import (
	"bytes"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"hash"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// logins are the messages of SCRAM on each connection. A server makes up half of a nonce, and what the client says next depends on it: the player computes it anew,
// and looks whether the server answers what only one can that knows the user.
type logins map[string]*login

type login struct {
	hash        func() hash.Hash
	bare, first string // the first messages of client and server
	signature   string // of the server, as it is to be
}

// scramFields are the fields of a message of SCRAM by their letters.
func scramFields(message string) map[string]string {
	fields := map[string]string{}
	for part := range strings.SplitSeq(message, ",") {
		if name, value, ok := strings.Cut(part, "="); ok {
			fields[name] = value
		}
	}
	return fields
}

// rewrite returns a step's request with the last message of SCRAM computed for our server's nonce.
func (l logins) rewrite(st *Step, script *Script, request []byte) ([]byte, error) {
	password, ok := script.passwords[st.Name]
	if !ok {
		return request, nil
	}
	x := l[st.Conn]
	if x == nil || x.first == "" {
		return nil, fmt.Errorf("step %s: there is no first message of SCRAM before it", st)
	}
	req, head, err := decodeRequest(st)
	if err != nil {
		return nil, err
	}
	q, ok := req.(*kmsg.SASLAuthenticateRequest)
	if !ok {
		return nil, fmt.Errorf("step %s is no SaslAuthenticate", st)
	}
	fields := scramFields(x.first)
	salt, err := base64.StdEncoding.DecodeString(fields["s"])
	if err != nil {
		return nil, fmt.Errorf("step %s: salt %q: %w", st, fields["s"], err)
	}
	iterations, err := strconv.Atoi(fields["i"])
	if err != nil {
		return nil, fmt.Errorf("step %s: iterations %q: %w", st, fields["i"], err)
	}
	salted, err := pbkdf2.Key(x.hash, password, salt, iterations, x.hash().Size())
	if err != nil {
		return nil, fmt.Errorf("step %s: %w", st, err)
	}
	key := x.mac(salted, "Client Key")
	stored := x.hash()
	stored.Write(key)
	without := "c=biws,r=" + fields["r"]
	signed := x.bare + "," + x.first + "," + without
	proof := x.mac(stored.Sum(nil), signed)
	for i := range proof {
		proof[i] ^= key[i]
	}
	x.signature = "v=" + base64.StdEncoding.EncodeToString(x.mac(x.mac(salted, "Server Key"), signed))
	q.SASLAuthBytes = []byte(without + ",p=" + base64.StdEncoding.EncodeToString(proof))
	return q.AppendTo(bytes.Clone(st.Request[:head])), nil
}

func (x *login) mac(key []byte, text string) []byte {
	h := hmac.New(x.hash, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

// note looks at a step that may be one of SCRAM: what makes up the nonce and the signature is no difference where they are right.
func (l logins) note(r *Played) {
	st := r.Step
	if st.Raw || len(st.Answers) != 1 || len(r.Answers) != 1 {
		return
	}
	req, _, err := decodeRequest(&Step{Key: st.Key, Version: st.Version, Request: r.Request})
	if err != nil {
		return
	}
	switch q := req.(type) {
	case *kmsg.SASLHandshakeRequest:
		l[st.Conn] = map[string]*login{"SCRAM-SHA-256": {hash: sha256.New}, "SCRAM-SHA-512": {hash: sha512.New}}[q.Mechanism]
	case *kmsg.SASLAuthenticateRequest:
		if x := l[st.Conn]; x != nil {
			x.note(r, string(q.SASLAuthBytes))
		}
	}
}

func (x *login) note(r *Played, token string) {
	recorded, ours := authBytes(r.Step, r.Step.Answers[0]), authBytes(r.Step, r.Answers[0])
	right := false
	if x.first == "" {
		x.bare, x.first = strings.TrimPrefix(token, "n,,"), ours
		nonce, a, b := scramFields(token)["r"], scramFields(recorded), scramFields(ours)
		right = len(b["r"]) > len(nonce)+20 && strings.HasPrefix(b["r"], nonce) && a["s"] == b["s"] && a["i"] == b["i"]
	} else {
		right = len(ours) == len(recorded) && ours == x.signature
	}
	if !right {
		return
	}
	kept := r.Diffs[:0]
	for _, d := range r.Diffs {
		if d.Field != "SASLAuthBytes" {
			kept = append(kept, d)
		}
	}
	r.Diffs = kept
}

// authBytes are the bytes of the mechanism in an answer.
func authBytes(st *Step, frame []byte) string {
	a, err := decodeAnswer(st.Key, st.Version, frame)
	if err != nil {
		return ""
	}
	p, ok := a.body.(*kmsg.SASLAuthenticateResponse)
	if !ok {
		return ""
	}
	return string(p.SASLAuthBytes)
}

// login logs a user in on a connection, unrecorded.
func (p *player) login(conn, user string) error {
	handshake := kmsg.NewPtrSASLHandshakeRequest()
	handshake.Version, handshake.Mechanism = 1, "PLAIN"
	authenticate := kmsg.NewPtrSASLAuthenticateRequest()
	authenticate.Version, authenticate.SASLAuthBytes = 2, []byte("\x00"+user)
	for _, q := range []kmsg.Request{handshake, authenticate} {
		if _, err := p.ask(conn, q); err != nil {
			return fmt.Errorf("logging in on %s: %w", conn, err)
		}
	}
	return nil
}
