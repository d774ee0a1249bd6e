package validation

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"time"
)

// pair checks a certificate with its key. The certificates after the first one are the chain, of
// which clients choose: it may have a root that has expired, and one that Go does not read.
func (k *checker) pair() {
	cert, hasCert := k.get(k.rule.Pair.Cert)
	key, hasKey := k.get(k.rule.Pair.Key)
	if !hasCert || !hasKey {
		return
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		k.problem(k.rule.Pair.Cert, 0, "is not the certificate of the key in %s, or not both are PEM%s", k.rule.Pair.Key,
			k.detail(err))
		return
	}
	k.period(pair.Leaf)
	for i, der := range pair.Certificate[1:] {
		if err := looksLikeCertificate(der); err != nil {
			const first = 2
			k.problem(k.rule.Pair.Cert, 0, "certificate %d cannot be read%s", i+first, k.detail(err))
		}
	}
}

// period checks that the certificate of the key is valid now, and for long enough.
func (k *checker) period(c *x509.Certificate) {
	switch {
	case k.content.Now.Before(c.NotBefore):
		k.problem(k.rule.Pair.Cert, 0, "certificate 1 is not valid before %s", c.NotBefore.UTC().Format(time.RFC3339))
	case c.NotAfter.Before(k.content.Now.Add(k.rule.NotExpiredFor)):
		k.problem(k.rule.Pair.Cert, 0, "certificate 1 expires at %s, and must be valid for %s more",
			c.NotAfter.UTC().Format(time.RFC3339), k.rule.NotExpiredFor)
	}
}

// looksLikeCertificate reads the three parts of a certificate, and not what is in the first one.
func looksLikeCertificate(der []byte) error {
	var parts struct {
		Signed    asn1.RawValue
		Algorithm pkix.AlgorithmIdentifier
		Signature asn1.BitString
	}
	rest, err := asn1.Unmarshal(der, &parts)
	switch {
	case err != nil:
		return err
	case len(rest) > 0:
		return asn1.SyntaxError{Msg: "there is more after it"}
	}
	return nil
}
