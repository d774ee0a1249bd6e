package release

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	crand "crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/release"
	releases "github.com/liveconfig-csi/liveconfig/pkg/release/controller"
	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/soak"
)

// controllerMemory is what the controller has, with the processes that it starts. The chart gives it more.
const controllerMemory = 128 << 20

// TestInvalidEdits: none of many edits that break a rule reaches a pod, and the controller takes no more memory than its
// container has.
func TestInvalidEdits(t *testing.T) {
	s := newIdleSite(t, environment.AsShipped(t, "liveconfig-controller"))
	s.limit()
	s.start()
	const annotation = `
steps: [100%]
validate:
  - {key: app.json, schemaFrom: {key: schema.json}}
  - {key: app.yaml, cel: "self.max <= 10"}
  - {key: app.toml}
  - {key: app.ini}
  - {key: app.properties}
  - {pair: {cert: tls.crt, key: tls.key}, notExpiredFor: 24h}
`
	cert, key := certificate(t, 48*time.Hour)
	otherCert, _ := certificate(t, 48*time.Hour)
	shortCert, shortKey := certificate(t, 23*time.Hour)
	valid := map[string]string{
		"schema.json": `{"properties": {"max": {"type": "integer", "maximum": 10}}, "additionalProperties": false}`,
		"app.json":    `{"max": 1}`, "app.yaml": "max: 1", "app.toml": "max = 1", "app.ini": "max = 1", "app.properties": "max = 1",
		"tls.crt": cert, "tls.key": key, "a": environment.Marked("1"),
	}
	m, err := s.ConfigMaps().Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: map[string]string{release.Annotation: annotation}}, Data: valid,
	}, metav1.CreateOptions{})
	expect.NoError(t, err)
	s.wantState("", 0)
	s.replicas(2, web)
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	number := func() int { return 11 + random.IntN(1<<30) }
	spoil := []func(map[string]string){
		func(d map[string]string) { d["app.json"] = fmt.Sprintf(`{"max": %d}`, number()) },
		func(d map[string]string) { d["app.json"] = fmt.Sprintf(`{"max": %d`, number()) },
		func(d map[string]string) {
			d["schema.json"] = fmt.Sprintf(`{"properties": {"max": {"maximum": -%d}}}`, number())
		},
		func(d map[string]string) { d["schema.json"] = fmt.Sprintf(`{"properties": %d}`, number()) },
		func(d map[string]string) { d["app.yaml"] = fmt.Sprintf("max: %d", number()) },
		func(d map[string]string) { d["app.yaml"] = fmt.Sprintf("max: [%d", number()) },
		func(d map[string]string) { d["app.yaml"] = fmt.Sprintf("min: %d", number()) },
		func(d map[string]string) { d["app.toml"] = fmt.Sprintf("max = \n%d", number()) },
		func(d map[string]string) { d["app.ini"] = fmt.Sprintf("[max%d", number()) },
		func(d map[string]string) { d["app.properties"] = fmt.Sprintf(`max = \uz%d`, number()) },
		func(d map[string]string) { d["tls.crt"] = otherCert },
		func(d map[string]string) { d["tls.crt"], d["tls.key"] = shortCert, shortKey },
		func(d map[string]string) { d["tls.key"] = key[:random.IntN(len(key)*9/10)] },
		func(d map[string]string) { d["tls.crt"] = fmt.Sprint(number()) },
		func(d map[string]string) {
			delete(d, []string{"app.json", "schema.json", "app.yaml", "app.toml", "app.ini", "app.properties", "tls.crt", "tls.key"}[random.IntN(8)])
		},
	}
	edits := soak.Rounds(200, 2000)
	for i := range edits {
		m.Data = maps.Clone(valid)
		m.Data["a"] = environment.Marked("2")
		kind := i
		if i%10 == 0 { // Each kind is one that the controller has the time to look at.
			kind = i / 10
		}
		spoil[kind%len(spoil)](m.Data)
		m, err = s.ConfigMaps().Update(t.Context(), m, metav1.UpdateOptions{})
		expect.NoError(t, err)
		if i%10 != 0 {
			continue // The next edit comes before anybody has looked at this one, or while they do.
		}
		s.wantRefusal(m)
		for _, pod := range s.pods {
			if err := s.Holds(pod, "a", "1"); err != nil {
				t.Fatalf("seed %d, after %d edits: %v", seed, i+1, err)
			}
		}
	}
	s.wantEvent("web", releases.ReasonRefused, "No pod gets the edit: configmap/web: validate[")
	m.Data = valid
	m.Data["a"] = environment.Marked("3")
	_, err = s.ConfigMaps().Update(t.Context(), m, metav1.UpdateOptions{})
	expect.NoError(t, err)
	s.wantState(release.Progressing, 1)
	s.wantValues("a", map[string]int{"3": 2})
}

// limit runs the controller in a small container, unless this user may not make one.
func (s *site) limit() {
	s.T.Helper()
	limit := min(controllerMemory, environment.ChartMemory(s.T, environment.ControllerContainer))
	launcher := environment.Contained(s.T, limit)
	if launcher == nil {
		return
	}
	s.before = slices.Concat(launcher[1:], []string{s.binary})
	s.binary = launcher[0]
	s.T.Cleanup(s.stop)
}

// wantRefusal waits until the controller has refused what a ConfigMap has now.
func (s *site) wantRefusal(m *corev1.ConfigMap) {
	s.T.Helper()
	digest := digestOf(m.Data)
	s.eventually(func() error {
		e, err := s.exposure(m.Name)
		if err == nil && (e.State != release.Refused || e.Digest != digest) {
			err = fmt.Errorf("the release is %s (%s), want that this edit is refused", e.State, e.Reason)
		}
		return err
	})
}

// certificate returns a certificate with its key, in PEM.
func certificate(t *testing.T, validFor time.Duration) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), crand.Reader)
	expect.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(validFor)}
	der, err := x509.CreateCertificate(crand.Reader, template, template, private.Public(), private)
	expect.NoError(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	expect.NoError(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}))
}
