// Package certificate makes certificates for tests: an authority of one's own, and what it issues to brokers and clients. Nobody trusts it who is not told to.
package certificate

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// Certificates are valid at any time that a cluster's clock may show.
var (
	validFrom  = time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC)
	validUntil = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
)

// Authority issues certificates. Its key is in memory alone.
type Authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// NewAuthority makes an authority.
func NewAuthority() (*Authority, error) {
	a := &Authority{}
	template := newTemplate(pkix.Name{CommonName: "kshare test authority"})
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign
	made, err := a.sign(template)
	if err != nil {
		return nil, fmt.Errorf("a certificate authority: %w", err)
	}
	a.certificate, a.key = made.Leaf, made.PrivateKey.(*ecdsa.PrivateKey)
	return a, nil
}

func newTemplate(subject pkix.Name) *x509.Certificate {
	return &x509.Certificate{Subject: subject, NotBefore: validFrom, NotAfter: validUntil}
}

// sign makes a key and a certificate for it, signed by the authority or, while that has no key, by itself.
func (a *Authority) sign(template *x509.Certificate) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return tls.Certificate{}, err
	}
	parent, signer := template, key
	if a.key != nil {
		parent, signer = a.certificate, a.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return tls.Certificate{}, err
	}
	leaf, err := x509.ParseCertificate(der)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, err
}

// ForHosts issues a certificate to a server that is reached by these names and addresses.
func (a *Authority) ForHosts(hosts ...string) (tls.Certificate, error) {
	template := newTemplate(pkix.Name{CommonName: hosts[0]})
	template.KeyUsage, template.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, h)
		}
	}
	made, err := a.sign(template)
	if err != nil {
		return made, fmt.Errorf("a certificate for %v: %w", hosts, err)
	}
	return made, nil
}

// ForClient issues a certificate to a client of a name: with a listener that asks for certificates it is User:CN=name.
func (a *Authority) ForClient(name string) (tls.Certificate, error) {
	template := newTemplate(pkix.Name{CommonName: name})
	template.KeyUsage, template.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	made, err := a.sign(template)
	if err != nil {
		return made, fmt.Errorf("a certificate for client %q: %w", name, err)
	}
	return made, nil
}

// Pool is what trusts the authority.
func (a *Authority) Pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.certificate)
	return p
}

// PEM is the authority's certificate as clients take it: ssl.truststore.certificates of Java's, a CA file of others.
func (a *Authority) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw})
}

// EncodePEM encodes a certificate and its key, as files have them.
func EncodePEM(c tls.Certificate) (certificate, key []byte, err error) {
	for _, der := range c.Certificate {
		certificate = append(certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	der, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		return nil, nil, fmt.Errorf("the key of a certificate: %w", err)
	}
	return certificate, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}
