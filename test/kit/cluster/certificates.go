package cluster

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"time"

	"k8s.io/client-go/util/keyutil"
)

// CAFile is the certificate of the authority that clients and servers of the cluster trust.
func (c *Cluster) CAFile() string { return c.path("ca.crt") }

// TokenKeyFile is the key that signs the tokens of service accounts.
func (c *Cluster) TokenKeyFile() string { return c.path("token.key") }

// RotateCertificate gives the API server another serving certificate of the same authority. It notices by itself, soon.
func (c *Cluster) RotateCertificate() error {
	pair, err := c.ca.server(time.Now())
	if err != nil {
		return err
	}
	// The server passes over the pair while the two do not fit.
	if err := replaceFile(c.path("server.crt"), pair.cert); err != nil {
		return fmt.Errorf("replace the serving certificate: %w", err)
	}
	if err := replaceFile(c.path("server.key"), pair.key); err != nil {
		return fmt.Errorf("replace the serving key: %w", err)
	}
	return nil
}

// RotateTokenKey makes the API server sign tokens with another key, and restarts it for that. Tokens that the old key
// signed stay good.
func (c *Cluster) RotateTokenKey(ctx context.Context) error {
	key, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		return fmt.Errorf("generate the key of tokens: %w", err)
	}
	old, err := os.ReadFile(c.path("token.keys"))
	if err != nil {
		return fmt.Errorf("read the keys of tokens: %w", err)
	}
	if err := replaceFile(c.path("token.keys"), append(key, old...)); err != nil {
		return fmt.Errorf("replace the keys of tokens: %w", err)
	}
	if err := replaceFile(c.TokenKeyFile(), key); err != nil {
		return fmt.Errorf("replace the key of tokens: %w", err)
	}
	if err := c.StopAPIServer(); err != nil {
		return err
	}
	return c.StartAPIServer(ctx)
}

// ServingCertificate makes a certificate by which clients of the cluster take its holder on loopback for the API server.
func (c *Cluster) ServingCertificate() (tls.Certificate, error) {
	pair, err := c.ca.server(time.Now())
	if err != nil {
		return tls.Certificate{}, err
	}
	certificate, err := tls.X509KeyPair(pair.cert, pair.key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("read a serving certificate: %w", err)
	}
	return certificate, nil
}
