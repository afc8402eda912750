package kshare

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"kshare/acl"
	"kshare/broker"
	"kshare/certificate"
	"kshare/config"
	"kshare/sasl"
)

// securityOptions are what listeners need to know whom they speak to.
type securityOptions struct {
	users        map[string]string // passwords
	credentials  map[string]map[sasl.SCRAMMechanism]sasl.Credential
	certificates []tls.Certificate
	clientCAs    *x509.CertPool
	authority    *certificate.Authority // of certificates that the cluster has made itself, nil for none
	own          []tls.Certificate
}

// WithSASLUser makes a user known who can log in with a password on every listener with SASL, by PLAIN and, where no credentials are stored for the
// user, by SCRAM-SHA-256 and SCRAM-SHA-512. Its principal is User:name.
func WithSASLUser(name, password string) Option {
	return func(o *options) error {
		if name == "" || password == "" {
			return fmt.Errorf("SASL user %q: a user has a name and a password", name)
		}
		if o.security.users == nil {
			o.security.users = map[string]string{}
		}
		o.security.users[name] = password
		return nil
	}
}

// WithAuthorizer has a cluster ask who may do what, as Kafka's StandardAuthorizer does (authorizer.class.name): nobody may do anything but super users, given
// as in User:alice, until rules say so. A client of a listener that does not ask who it is is User:ANONYMOUS.
func WithAuthorizer(superUsers ...string) Option {
	return WithProperties(
		config.Property{Key: "authorizer.class.name", Value: "org.apache.kafka.metadata.authorizer.StandardAuthorizer", Origin: "option"},
		config.Property{Key: "super.users", Value: strings.Join(superUsers, ";"), Origin: "option"})
}

// WithCertificate sets the certificate that listeners with TLS show. Without one, and without the configurations ssl.keystore.* of type PEM, the cluster makes an authority and a
// certificate of its own for localhost, loopback addresses and what is advertised; Authority is whom clients are to trust then.
func WithCertificate(c tls.Certificate) Option {
	return func(o *options) error { o.security.certificates = append(o.security.certificates, c); return nil }
}

// WithClientCAs sets who vouches for clients on listeners with TLS: a client that shows a certificate is User: and its subject. Whether it must show one says
// ssl.client.auth (none, requested or required); it is required where that is not set.
func WithClientCAs(pool *x509.CertPool) Option {
	return func(o *options) error { o.security.clientCAs = pool; return nil }
}

// Authority is the authority behind the certificate that the cluster has made itself; nil where it has not.
func (c *Cluster) Authority() *certificate.Authority { return c.options.security.authority }

// Rule is a rule of the cluster's authorizer.
type Rule = acl.Binding

// AddRules makes rules of the authorizer, as CreateAcls does. It is an error if the cluster has none (authorizer.class.name) or a rule is none that Kafka would
// take.
func (c *Cluster) AddRules(rules ...Rule) error {
	return failed("add rules", c.broker().AddRules(rules...))
}

// RemoveRules removes rules of the authorizer if they are there. It is an error if the cluster has none.
func (c *Cluster) RemoveRules(rules ...Rule) error {
	return failed("remove rules", c.broker().RemoveRules(rules...))
}

// InspectRules returns the rules of the authorizer in the order in which they were made.
func (c *Cluster) InspectRules() []Rule { return c.broker().InspectRules() }

// The security protocols of listeners, and what each of them has.
var protocols = map[string]struct{ tls, sasl bool }{
	plaintext: {}, "SSL": {tls: true}, "SASL_PLAINTEXT": {sasl: true}, "SASL_SSL": {tls: true, sasl: true},
}

// secure finds out what the listeners are like.
func (o *options) secure(static *config.Static) error {
	if len(o.listeners) == 0 {
		o.listener(plaintext)
	}
	mapped, err := protocolMap(static)
	if err != nil {
		return err
	}
	o.broker.Listeners = nil
	loginless := true
	for _, l := range o.listeners {
		if err := l.check(o.broker.Nodes); err != nil {
			return err
		}
		name := mapped[l.name]
		if name == "" {
			name = l.name
		}
		p, ok := protocols[name]
		if !ok {
			return fmt.Errorf("listener %s: its name is no security protocol and listener.security.protocol.map does not say which it has; there are %s", l.name,
				strings.Join(slices.Sorted(maps.Keys(protocols)), ", "))
		}
		made := broker.Listener{Name: l.name}
		if p.tls {
			if made.TLS, err = o.tlsConfig(static, l.name); err != nil {
				return fmt.Errorf("listener %s: %w", l.name, err)
			}
		}
		if p.sasl {
			if err := o.saslListener(static, &made); err != nil {
				return fmt.Errorf("listener %s: %w", l.name, err)
			}
			loginless = false
		}
		o.broker.Listeners = append(o.broker.Listeners, made)
	}
	if loginless && len(o.security.users) > 0 {
		return errors.New("there are SASL users and no listener for them: add SASL_PLAINTEXT or SASL_SSL")
	}
	o.broker.Credentials, err = o.security.scramCredentials()
	return err
}

// scramCredentials are the credentials of the users, which are made once: that takes some milliseconds each.
func (s *securityOptions) scramCredentials() (map[string]map[sasl.SCRAMMechanism]sasl.Credential, error) {
	if s.credentials != nil || len(s.users) == 0 {
		return s.credentials, nil
	}
	s.credentials = map[string]map[sasl.SCRAMMechanism]sasl.Credential{}
	for user, password := range s.users {
		s.credentials[user] = map[sasl.SCRAMMechanism]sasl.Credential{}
		for _, m := range sasl.SCRAMMechanisms {
			var err error
			if s.credentials[user][m], err = m.FromPassword(password); err != nil {
				return nil, fmt.Errorf("the credential of user %s: %w", user, err)
			}
		}
	}
	return s.credentials, nil
}

// protocolMap are the security protocols of listeners that listener.security.protocol.map names.
func protocolMap(static *config.Static) (map[string]string, error) {
	mapped := map[string]string{}
	if _, set := static.Get("listener.security.protocol.map"); !set {
		return mapped, nil
	}
	text, _ := static.Values().Text("listener.security.protocol.map")
	for entry := range strings.SplitSeq(text, ",") {
		name, protocol, ok := strings.Cut(strings.TrimSpace(entry), ":")
		if !ok {
			return nil, fmt.Errorf("listener.security.protocol.map: %q is not NAME:PROTOCOL", entry)
		}
		mapped[strings.ToUpper(name)] = strings.ToUpper(protocol)
	}
	return mapped, nil
}

// listenerValue is a configuration of a listener: with its prefix, or for all of them.
func listenerValue(static *config.Static, listener, key string) (value string, set bool) {
	if value, set = static.Get("listener.name." + strings.ToLower(listener) + "." + key); set {
		return value, true
	}
	return static.Get(key)
}

// defaultMechanisms are enabled where sasl.enabled.mechanisms is not set. Whom a token of OAUTHBEARER names nobody can be sure of, so it is to be asked for.
var defaultMechanisms = []string{sasl.Plain, sasl.SCRAMSHA256, sasl.SCRAMSHA512}

// saslListener finds out how clients of a listener say who they are.
func (o *options) saslListener(static *config.Static, l *broker.Listener) error {
	l.SASL = defaultMechanisms
	if text, set := listenerValue(static, l.Name, "sasl.enabled.mechanisms"); set {
		l.SASL = []string{}
		for m := range strings.SplitSeq(text, ",") {
			l.SASL = append(l.SASL, strings.TrimSpace(m))
		}
	}
	for _, m := range l.SASL {
		if !slices.Contains(sasl.Mechanisms, m) {
			return fmt.Errorf("sasl.enabled.mechanisms: there is no %q here, there are %s", m, strings.Join(sasl.Mechanisms, ", "))
		}
	}
	l.Passwords = maps.Clone(o.security.users)
	if l.Passwords == nil {
		l.Passwords = map[string]string{}
	}
	for _, key := range []string{"plain.sasl.jaas.config", "sasl.jaas.config"} {
		text, set := static.Get("listener.name." + strings.ToLower(l.Name) + "." + key)
		if !set {
			text, set = static.Get(key)
		}
		if !set {
			continue
		}
		users, err := sasl.PlainUsers(text)
		if err != nil {
			return err
		}
		maps.Copy(l.Passwords, users)
		break
	}
	l.MaxReauth = map[string]time.Duration{}
	for _, m := range l.SASL {
		most := static.Values().Duration("connections.max.reauth.ms")
		for _, key := range []string{"connections.max.reauth.ms", strings.ToLower(m) + ".connections.max.reauth.ms"} {
			if text, set := static.Get("listener.name." + strings.ToLower(l.Name) + "." + key); set {
				ms, err := time.ParseDuration(text + "ms")
				if err != nil {
					return fmt.Errorf("%s: %q is no number of milliseconds", key, text)
				}
				most = ms
			}
		}
		l.MaxReauth[m] = most
	}
	return nil
}

// tlsConfig makes the TLS configuration of a listener.
func (o *options) tlsConfig(static *config.Static, listener string) (*tls.Config, error) {
	get := func(key string) string { value, _ := listenerValue(static, listener, key); return value }
	t := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: o.security.certificates, ClientCAs: o.security.clientCAs}
	if rules := get("ssl.principal.mapping.rules"); rules != "" && rules != "DEFAULT" {
		return nil, errors.New("ssl.principal.mapping.rules: there is DEFAULT alone")
	}
	chain, key, err := keyStore(get)
	switch {
	case err != nil:
		return nil, err
	case chain != nil:
		pair, err := tls.X509KeyPair(chain, key)
		if err != nil {
			return nil, fmt.Errorf("ssl.keystore: %w", err)
		}
		t.Certificates = []tls.Certificate{pair}
	case len(t.Certificates) == 0:
		if t.Certificates, err = o.ownCertificates(); err != nil {
			return nil, err
		}
	}
	if trusted, err := trustStore(get); err != nil {
		return nil, err
	} else if trusted != nil {
		t.ClientCAs = trusted
	}
	auth := get("ssl.client.auth")
	if auth == "" {
		if auth = "none"; o.security.clientCAs != nil {
			auth = "required"
		}
	}
	switch auth {
	case "required":
		t.ClientAuth = tls.RequireAndVerifyClientCert
	case "requested":
		t.ClientAuth = tls.VerifyClientCertIfGiven
	}
	if t.ClientAuth != tls.NoClientCert && t.ClientCAs == nil {
		if o.security.authority == nil {
			return nil, fmt.Errorf("ssl.client.auth=%s: nobody vouches for clients; set ssl.truststore.* of type PEM", auth)
		}
		t.ClientCAs = o.security.authority.Pool()
	}
	return t, nil
}

// ownCertificates are those that the cluster has made itself. They stay the same while the process lives.
func (o *options) ownCertificates() ([]tls.Certificate, error) {
	if o.security.own != nil {
		return o.security.own, nil
	}
	authority, err := certificate.NewAuthority()
	if err != nil {
		return nil, err
	}
	hosts := []string{"localhost", loopback, "::1"}
	for _, l := range o.listeners {
		for _, addr := range slices.Concat(l.listen, l.advertise) {
			host, _, err := net.SplitHostPort(addr)
			if err != nil {
				host = addr
			}
			if host != "" && !slices.Contains(hosts, host) {
				hosts = append(hosts, host)
			}
		}
	}
	made, err := authority.ForHosts(hosts...)
	if err != nil {
		return nil, err
	}
	o.security.authority, o.security.own = authority, []tls.Certificate{made}
	return o.security.own, nil
}

// keyStore is a certificate and its key, in PEM, out of ssl.keystore.*; nil where there is none.
func keyStore(get func(key string) string) (chain, key []byte, err error) {
	if text := get("ssl.keystore.certificate.chain"); text != "" {
		return []byte(text), []byte(get("ssl.keystore.key")), nil
	}
	b, err := pemFile(get, "ssl.keystore")
	return b, b, err // the file has both
}

// trustStore is who vouches for clients, out of ssl.truststore.*; nil where there is none.
func trustStore(get func(key string) string) (*x509.CertPool, error) {
	b := []byte(get("ssl.truststore.certificates"))
	if len(b) == 0 {
		var err error
		if b, err = pemFile(get, "ssl.truststore"); b == nil || err != nil {
			return nil, err
		}
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(b) {
		return nil, errors.New("ssl.truststore: it has no certificate in PEM")
	}
	return pool, nil
}

// pemFile is the file of a store of type PEM; nil where there is none.
func pemFile(get func(key string) string, store string) ([]byte, error) {
	location := get(store + ".location")
	if location == "" {
		return nil, nil
	}
	if get(store+".type") != "PEM" {
		return nil, fmt.Errorf("%s.location: stores of type PEM can be read alone; set %s.type=PEM", store, store)
	}
	b, err := os.ReadFile(location)
	if err != nil {
		return nil, fmt.Errorf("%s.location: %w", store, err)
	}
	return b, nil
}
