package e2e_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
	"github.com/liveconfig-csi/liveconfig/test/kit/realnode"
)

// outage is how long the API server is away: longer than a node may be silent before it counts as lost.
const outage = 2 * time.Minute

// registerTimeout is how long a kubelet may take that was refused by the API server: it waits ever longer, up to two
// minutes.
const registerTimeout = 3 * time.Minute

func TestTheAPIServerIsAwayForMinutes(t *testing.T) {
	s := on(t, realnode.Containerd2())
	st := s.steadyPods(t)
	expect.NoError(t, s.StopAPIServer())
	over := time.After(outage)
	// A driver that starts meanwhile knows the volumes from its records alone, and stays although the kubelet cannot
	// register it.
	before := s.driverProcess(t)
	s.killDriver(t)
	var after int
	expect.Eventually(t, startTimeout, func() error {
		if after = s.driverProcess(t); after == 0 || after == before {
			return errors.New("no other driver runs")
		}
		return nil
	})
	st.readOnTheNode(t, over)
	if now := s.driverProcess(t); now != after {
		t.Errorf("the driver that started in the outage was process %d, and at its end it is %d", after, now)
	}
	expect.NoError(t, s.StartAPIServer(t.Context()))
	st.goOn(t)
	s.driverPodWithin(t, registerTimeout)
}

// driverProcess returns the process ID of the driver, or 0 while there is none.
func (s *site) driverProcess(t testing.TB) int {
	t.Helper()
	pids, err := s.Processes("liveconfig-driver")
	expect.NoError(t, err)
	if len(pids) != 1 {
		return 0
	}
	return pids[0]
}

// readOnTheNode reads the files of all volumes until it is over. Nobody can ask the pods meanwhile.
func (st *steady) readOnTheNode(t *testing.T, over <-chan time.Time) {
	t.Helper()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		for _, pod := range st.pods {
			st.wantOnTheNode(t, pod)
		}
		select {
		case <-over:
			return
		case <-ticker.C:
		}
	}
}

func TestTheAPIServersCertificateIsRotated(t *testing.T) {
	s := on(t, realnode.Containerd2())
	st := s.steadyPods(t)
	before := s.servedCertificate(t)
	expect.NoError(t, s.RotateCertificate())
	expect.Eventually(t, 2*time.Minute, func() error {
		if s.servedCertificate(t) == before {
			return errors.New("the API server still serves its old certificate")
		}
		return nil
	})
	// Connections that are open never look at certificates again.
	expect.NoError(t, errors.Join(s.Link().Cut(), s.Link().Heal()))
	st.goOn(t)
}

// servedCertificate returns the serial number of the certificate by which pods know the API server.
func (s *site) servedCertificate(t testing.TB) string {
	t.Helper()
	// Whether the certificate is good is for the driver to decide.
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}
	conn, err := dialer.DialContext(t.Context(), "tcp", net.JoinHostPort(cluster.ServiceIP, "443"))
	expect.NoError(t, err)
	defer func() { _ = conn.Close() }()
	secure, ok := conn.(*tls.Conn)
	if !ok {
		t.Fatalf("a %T is not a TLS connection", conn)
	}
	return secure.ConnectionState().PeerCertificates[0].SerialNumber.String()
}

func TestTheKeyOfServiceAccountsIsRotated(t *testing.T) {
	s := on(t, realnode.Containerd2())
	st := s.steadyPods(t)
	s.putSecret(t, st.namespace, "token", "one")
	old := s.start(t, boxPod(st.namespace, "old", map[string]string{"secret": "token"}))
	expect.NoError(t, s.RotateTokenKey(t.Context()))
	st.goOn(t)
	young := s.start(t, boxPod(st.namespace, "new", map[string]string{"secret": "token"}))
	s.putSecret(t, st.namespace, "token", "two")
	for _, pod := range []*corev1.Pod{old, young} {
		s.wantFile(t, pod, "", mountPath+"/value", "two")
	}
}

// putSecret makes a Secret that the namespace's default service account may read, or gives one that exists another value.
func (s *site) putSecret(t testing.TB, namespace, name, value string) {
	t.Helper()
	secrets := s.Client().CoreV1().Secrets(namespace)
	object := fixture.Secret(name, map[string]string{"value": value})
	_, err := secrets.Update(t.Context(), object, metav1.UpdateOptions{})
	if !apierrors.IsNotFound(err) {
		expect.NoError(t, err)
		return
	}
	_, err = secrets.Create(t.Context(), object, metav1.CreateOptions{})
	expect.NoError(t, err)
	grant := fmt.Sprintf(`kubectl -n %[1]s create role read-%[2]s --verb=get,list,watch --resource=secrets --resource-name=%[2]s
kubectl -n %[1]s create rolebinding read-%[2]s --role=read-%[2]s --serviceaccount=%[1]s:default`, namespace, name)
	if _, err := s.Shell(context.WithoutCancel(t.Context()), grant); err != nil {
		t.Fatal(err)
	}
}
