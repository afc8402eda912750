package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"kshare"
	"kshare/certificate"
)

// tlsFlags are the flags of listeners with TLS.
type tlsFlags struct {
	certificate, key, clientCA string
	out                        string
	clients                    []string
}

func (f *tlsFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.certificate, "tls-cert", "", "`file` with the certificate that listeners with TLS show, in PEM; without it there is one made for localhost and what is advertised")
	flags.StringVar(&f.key, "tls-key", "", "`file` with the key of --tls-cert, in PEM")
	flags.StringVar(&f.clientCA, "tls-client-ca", "", "`file` with the certificates of who vouches for clients, in PEM; clients of SSL listeners must show a certificate then")
	flags.StringVar(&f.out, "tls-out", "", "`directory` to write ca.pem to, the certificate that clients are to trust, where there is no --tls-cert")
	flags.StringArrayVar(&f.clients, "tls-client", nil, "`name` of a client that --tls-out gets a certificate for, NAME.pem and NAME.key; its principal is User:CN=NAME; may be repeated")
}

// options are the options that the flags make.
func (f *tlsFlags) options() (opts []kshare.Option, err error) {
	switch {
	case (f.certificate == "") != (f.key == ""):
		return nil, errors.New("--tls-cert and --tls-key go together")
	case f.certificate != "" && f.out != "":
		return nil, errors.New("--tls-out is of a certificate that is made: leave out --tls-cert")
	case len(f.clients) > 0 && f.out == "":
		return nil, errors.New("--tls-client: where to is its certificate to go? add --tls-out")
	case f.certificate != "":
		pair, err := tls.LoadX509KeyPair(f.certificate, f.key)
		if err != nil {
			return nil, fmt.Errorf("--tls-cert, --tls-key: %w", err)
		}
		opts = append(opts, kshare.WithCertificate(pair))
	}
	if f.clientCA != "" {
		b, err := os.ReadFile(f.clientCA)
		if err != nil {
			return nil, fmt.Errorf("--tls-client-ca: %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(b) {
			return nil, fmt.Errorf("--tls-client-ca: %s has no certificate in PEM", f.clientCA)
		}
		opts = append(opts, kshare.WithClientCAs(pool))
	}
	return opts, nil
}

// write writes what clients need to trust a certificate that was made, and to be trusted.
func (f *tlsFlags) write(a *certificate.Authority) error {
	if f.out == "" {
		return nil
	}
	if a == nil {
		return errors.New("--tls-out: no listener has TLS, or its certificate is configured; add --listener SSL://host:port or SASL_SSL://host:port")
	}
	if err := os.MkdirAll(f.out, 0o755); err != nil {
		return fmt.Errorf("--tls-out: %w", err)
	}
	files := map[string][]byte{"ca.pem": a.PEM()}
	for _, name := range f.clients {
		if name == "" || name != filepath.Base(name) || name == "ca" {
			return fmt.Errorf("--tls-client %q: the name is also that of a file", name)
		}
		made, err := a.ForClient(name)
		if err != nil {
			return err
		}
		if files[name+".pem"], files[name+".key"], err = certificate.EncodePEM(made); err != nil {
			return err
		}
	}
	for name, content := range files {
		mode := os.FileMode(0o644)
		if strings.HasSuffix(name, ".key") {
			mode = 0o600
		}
		if err := os.WriteFile(filepath.Join(f.out, name), content, mode); err != nil {
			return fmt.Errorf("--tls-out: %w", err)
		}
	}
	return nil
}

// securityOptions are the options for listeners and whom they let in.
func (f *serveFlags) securityOptions() (opts []kshare.Option, err error) {
	if f.plain {
		opts = append(opts, kshare.WithListen(f.listen...))
	}
	for _, l := range f.listeners {
		opts = append(opts, kshare.WithListener(l))
	}
	for _, u := range f.saslUsers {
		name, password, ok := strings.Cut(u, ":")
		if !ok || name == "" || password == "" {
			return nil, errors.New("--sasl-user is name:password; one of them is not") // which is not said, for it may be a password
		}
		opts = append(opts, kshare.WithSASLUser(name, password))
	}
	switch {
	case f.authorizer:
		opts = append(opts, kshare.WithAuthorizer(f.superUsers...))
	case len(f.superUsers) > 0:
		return nil, errors.New("--super-user is of the authorizer: add --authorizer")
	}
	tls, err := f.tls.options()
	return append(opts, tls...), err
}

// listenerLines say where the listeners are.
func (f *serveFlags) listenerLines(c *kshare.Cluster) (lines string) {
	if len(f.listeners) == 0 {
		return ""
	}
	for _, name := range c.ListenerNames() {
		lines += "LISTENER " + name + " " + strings.Join(c.ListenerAddrs(name), ",") + "\n"
	}
	return lines
}
