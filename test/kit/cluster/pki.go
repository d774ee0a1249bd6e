package cluster

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"net"
	"time"

	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// certificateLifetime is that of servers and clients: longer than any test run and short enough that a forgotten kubeconfig opens nothing.
const certificateLifetime = 24 * time.Hour

// authority signs the certificates of one cluster. Its key is never written to disk.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
	// pem is the certificate as kubeconfigs and the API server want it.
	pem []byte
}

// keyPair is a certificate and its private key, both PEM.
type keyPair struct {
	cert, key []byte
}

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generate the key of the certificate authority: %w", err)
	}
	cert, err := certutil.NewSelfSignedCACert(certutil.Config{CommonName: "liveconfig-test-cluster"}, key)
	if err != nil {
		return nil, fmt.Errorf("sign the certificate of the authority: %w", err)
	}
	return &authority{cert: cert, key: key, pem: encodePEM(cert.Raw)}, nil
}

// server makes the API server's serving certificate. Pods know the server by the address of its service.
func (a *authority) server(now time.Time) (keyPair, error) {
	template := newTemplate(now, pkix.Name{CommonName: "kube-apiserver"})
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.ParseIP(ServiceIP)}
	template.DNSNames = []string{"localhost", "kubernetes", "kubernetes.default.svc"}
	return a.issue(template)
}

// client makes a certificate by which the API server knows its holder as the user in the groups.
func (a *authority) client(now time.Time, user string, groups ...string) (keyPair, error) {
	template := newTemplate(now, pkix.Name{CommonName: user, Organization: groups})
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.issue(template)
}

func (a *authority) issue(template *x509.Certificate) (keyPair, error) {
	subject := template.Subject.CommonName
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return keyPair{}, fmt.Errorf("generate the key of %s: %w", subject, err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return keyPair{}, fmt.Errorf("sign the certificate of %s: %w", subject, err)
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return keyPair{}, fmt.Errorf("encode the key of %s: %w", subject, err)
	}
	return keyPair{cert: encodePEM(der), key: keyPEM}, nil
}

// newTemplate dates a certificate one minute back: the clocks of its two ends are the same, but not read at once.
func newTemplate(now time.Time, subject pkix.Name) *x509.Certificate {
	return &x509.Certificate{
		Subject:   subject,
		NotBefore: now.Add(-time.Minute),
		NotAfter:  now.Add(certificateLifetime),
		KeyUsage:  x509.KeyUsageDigitalSignature,
	}
}

func encodePEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: certutil.CertificateBlockType, Bytes: der})
}
