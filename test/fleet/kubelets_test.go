package fleet

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"github.com/liveconfig-csi/liveconfig/pkg/api/statusz"
	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
)

// kubelets play the kubelets of several nodes in one server, as far as port-forwards to the drivers' pods go. Behind each
// port is a driver that answers /statusz.
type kubelets struct {
	c    *cluster.Cluster
	port int32

	mu      sync.Mutex // Guards what follows.
	reports map[string]statusz.Report
	asked   map[string]int // By node, how often.
}

// driverNamespace is where the drivers' pods are.
const driverNamespace = "liveconfig-system"

func newKubelets(t *testing.T, c *cluster.Cluster) *kubelets {
	t.Helper()
	k := &kubelets{c: c, reports: map[string]statusz.Report{}, asked: map[string]int{}}
	server := httptest.NewTLSServer(k)
	t.Cleanup(server.Close)
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.ParseInt(port, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	k.port = int32(number)
	if err := c.CreateNamespace(t.Context(), driverNamespace); err != nil {
		t.Fatal(err)
	}
	return k
}

// add makes a node with a driver's pod that is ready.
func (k *kubelets) add(t *testing.T, node string) {
	t.Helper()
	address := corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}
	endpoints := corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: k.port}}
	_, err := k.c.Client().CoreV1().Nodes().Create(t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: node},
		Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{address}, DaemonEndpoints: endpoints},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{"app.kubernetes.io/name": "liveconfig", "app.kubernetes.io/component": "driver"}
	container := corev1.Container{Name: "driver", Image: "driver", Args: []string{"--http-endpoint=:9809"}}
	pod, err := k.c.Client().CoreV1().Pods(driverNamespace).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "driver-" + node, Labels: labels},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{container}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	if _, err := k.c.Client().CoreV1().Pods(driverNamespace).UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// set defines what the driver of a node answers. A node without a report refuses connections to the port.
func (k *kubelets) set(report statusz.Report) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.reports[report.Node] = report
}

// forget returns how often the nodes were asked, and counts from zero again.
func (k *kubelets) forget() map[string]int {
	k.mu.Lock()
	defer k.mu.Unlock()
	asked := k.asked
	k.asked = map[string]int{}
	return asked
}

// ServeHTTP connects a port-forward to /portForward/NAMESPACE/POD with the driver of the pod's node.
func (k *kubelets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, node, _ := strings.Cut(r.URL.Path, "/driver-")
	node, _, _ = strings.Cut(node, "/")
	if _, err := httpstream.Handshake(r, w, []string{portforward.PortForwardProtocolV1Name}); err != nil {
		return
	}
	streams := make(chan httpstream.Stream, 2)
	connection := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, _ <-chan struct{}) error {
		streams <- s
		return nil
	})
	if connection == nil {
		return
	}
	defer connection.Close()
	errs, data := <-streams, <-streams
	if errs.Headers().Get(corev1.StreamType) != corev1.StreamTypeError {
		errs, data = data, errs
	}
	k.answer(node, errs, data)
	_, _ = errs.Close(), data.Close() // The plugin has gone then.
	<-connection.CloseChan()
}

func (k *kubelets) answer(node string, errs, data httpstream.Stream) {
	k.mu.Lock()
	report, found := k.reports[node]
	k.asked[node]++
	k.mu.Unlock()
	if !found {
		_, _ = fmt.Fprintf(errs, "connect to port %s: connection refused", data.Headers().Get(corev1.PortHeader))
		return
	}
	_, _ = fmt.Fprint(data, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
	_ = statusz.Write(data, report)
}
