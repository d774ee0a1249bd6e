// Package kubeletport plays the port of kubelets, as far as port-forwards to the drivers' pods go: the API server connects to it
// as to a real one, and behind it is a driver, or a server that answers like one.
//
// It does not know what is asked through it.
package kubeletport

import (
	"context"
	"fmt"
	"io"
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

	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
)

// prefix begins the names of the drivers' pods. The name of the node follows.
const prefix = "driver-"

// Port is one port for several nodes.
type Port struct {
	c         *cluster.Cluster
	namespace string
	number    int32

	mu      sync.Mutex // Guards the fields below.
	drivers map[string]string
	asked   map[string]int // By node, how many connections to its driver were asked for.
}

// Open opens a port until the test ends. The pods of drivers are in a namespace, which must exist.
func Open(t testing.TB, c *cluster.Cluster, namespace string) *Port {
	t.Helper()
	p := &Port{c: c, namespace: namespace, drivers: map[string]string{}, asked: map[string]int{}}
	server := httptest.NewTLSServer(p)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	_, text, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	p.number = int32(number)
	return p
}

// Add makes a node with a pod of the driver that is Ready, until the test ends. The driver listens at an address.
func (p *Port) Add(t testing.TB, node, address string) {
	t.Helper()
	p.mu.Lock()
	p.drivers[node] = address
	p.mu.Unlock()
	client := p.c.Client().CoreV1()
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		now := metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}
		if err := client.Pods(p.namespace).Delete(ctx, prefix+node, now); err != nil {
			t.Errorf("delete the driver's pod: %v", err)
		}
		if err := client.Nodes().Delete(ctx, node, metav1.DeleteOptions{}); err != nil {
			t.Errorf("delete the node: %v", err)
		}
	})
	at := corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}
	_, err := client.Nodes().Create(t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: node},
		Status: corev1.NodeStatus{
			Addresses:       []corev1.NodeAddress{at},
			DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: p.number}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	pod, err := client.Pods(p.namespace).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:   prefix + node,
			Labels: map[string]string{"app.kubernetes.io/name": "liveconfig", "app.kubernetes.io/component": "driver"},
		},
		Spec: corev1.PodSpec{
			NodeName: node, ServiceAccountName: "liveconfig-driver",
			Containers: []corev1.Container{{Name: "driver", Image: "driver", Args: []string{"--http-endpoint=:" + port}}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	if _, err := client.Pods(p.namespace).UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// Forget returns how many connections each driver was asked for, and counts from zero again.
func (p *Port) Forget() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	asked := p.asked
	p.asked = map[string]int{}
	return asked
}

// ServeHTTP connects a port-forward to /portForward/NAMESPACE/POD with the driver of the pod's node.
func (p *Port) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, node, _ := strings.Cut(r.URL.Path, "/"+prefix)
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
	var both [2]httpstream.Stream
	for i := range both {
		select {
		case both[i] = <-streams:
		case <-connection.CloseChan():
			return
		}
	}
	errs, data := both[0], both[1]
	if errs.Headers().Get(corev1.StreamType) != corev1.StreamTypeError {
		errs, data = data, errs
	}
	if err := p.pipe(node, connection, data); err != nil {
		_, _ = fmt.Fprint(errs, err)
	}
	_, _ = errs.Close(), data.Close() // Who has asked has gone then.
	<-connection.CloseChan()
}

// pipe connects a stream with a driver until either hangs up.
func (p *Port) pipe(node string, connection httpstream.Connection, stream httpstream.Stream) error {
	p.mu.Lock()
	address := p.drivers[node]
	p.asked[node]++
	p.mu.Unlock()
	driver, err := new(net.Dialer).Dial("tcp", address)
	if err != nil {
		return err
	}
	var ends sync.WaitGroup
	over := make(chan struct{})
	ends.Go(func() {
		select {
		case <-connection.CloseChan():
		case <-over:
		}
		_ = driver.Close() // The copies end by that.
	})
	go func() { _, _ = io.Copy(driver, stream) }() // It ends with the connection.
	_, err = io.Copy(stream, driver)
	close(over)
	ends.Wait()
	return err
}
