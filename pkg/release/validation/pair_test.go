package validation_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"
)

// certificate returns a certificate with its key, both in PEM.
func certificate(t *testing.T, from, to time.Time) (cert, key string) {
	t.Helper()
	return numbered(t, 1, from, to)
}

// numbered is [certificate] with a serial number, which Go makes negative for nobody: its sign is set in the bytes.
func numbered(t *testing.T, serial int64, from, to time.Time) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(max(serial, -serial)), Subject: pkix.Name{CommonName: "web"}, NotBefore: from, NotAfter: to}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	if serial < 0 {
		der = negative(t, der, byte(-serial))
	}
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}))
}

// negative returns a certificate whose serial number of one byte has become negative. Nobody checks the signature.
func negative(t *testing.T, der []byte, serial byte) []byte {
	t.Helper()
	version3 := []byte{0xa0, 3, 2, 1, 2, 2, 1} // Before the serial number.
	at := bytes.Index(der, append(version3, serial))
	if at < 0 {
		t.Fatal("the certificate has another serial number")
	}
	der = bytes.Clone(der)
	der[at+len(version3)] = -serial
	return der
}

func TestPairs(t *testing.T) {
	t.Parallel()
	cert, key := certificate(t, now.Add(-time.Hour), now.Add(25*time.Hour))
	_, otherKey := certificate(t, now, now)
	future, futureKey := certificate(t, now.Add(time.Hour), now.Add(48*time.Hour))
	expired, expiredKey := certificate(t, now.Add(-48*time.Hour), now.Add(-time.Hour))
	negativeNumber, negativeKey := numbered(t, -5, now.Add(-time.Hour), now.Add(25*time.Hour))
	tests := map[string]struct{ cert, key, duration, want string }{
		"a pair":                              {cert, key, "24h", ""},
		"one that expires":                    {cert, key, "26h", "validate[0]: key tls.crt: certificate 1 expires at 2026-01-03T04:04:05Z, and must be valid for 26h0m0s more"},
		"one of the future":                   {future, futureKey, "0s", "validate[0]: key tls.crt: certificate 1 is not valid before 2026-01-02T04:04:05Z"},
		"a chain":                             {cert + "text\n" + future + cert, key, "24h", ""},
		"an expired certificate in the chain": {cert + expired, key, "24h", ""},
		"a negative number in the chain":      {cert + negativeNumber, key, "24h", ""},
		"a negative number of its own":        {negativeNumber, negativeKey, "24h", "validate[0]: key tls.crt: is not the certificate of the key in tls.key"},
		"an expired one before its chain":     {expired + cert, expiredKey, "0s", "validate[0]: key tls.crt: certificate 1 expires at 2026-01-02T02:04:05Z, and must be valid for 0s more"},
		"what is no certificate in the chain": {cert + cert + "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n", key, "0s", "validate[0]: key tls.crt: certificate 3 cannot be read"},
		"days":                                {cert, key, "2d", "validate[0]: key tls.crt: certificate 1 expires at 2026-01-03T04:04:05Z, and must be valid for 48h0m0s more"},
		"the key of another":                  {cert, otherKey, "0s", "validate[0]: key tls.crt: is not the certificate of the key in tls.key"},
		"what is not PEM":                     {"x", key, "0s", "validate[0]: key tls.crt: is not the certificate of the key in tls.key, or not both are PEM"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, isSecret := range []bool{false, true} {
				got := check(t, "{pair: {cert: tls.crt, key: tls.key}, notExpiredFor: "+tc.duration+"}", isSecret, map[string]string{"tls.crt": tc.cert, "tls.key": tc.key})
				if (tc.want == "") != (len(got) == 0) || tc.want != "" && !strings.HasPrefix(got[0], tc.want) {
					t.Errorf("problems = %q, want %q", got, tc.want)
				}
			}
		})
	}
}
