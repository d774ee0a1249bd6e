package cluster

import (
	"crypto/tls"
	"fmt"
	"time"
)

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
