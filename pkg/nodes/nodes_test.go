package nodes_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"github.com/liveconfig-csi/liveconfig/pkg/api/statusz"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/server"
	"github.com/liveconfig-csi/liveconfig/pkg/nodes"
)

// cluster is an API server with pods of the driver. The test defines its answers. It forwards ports
// by SPDY alone, as old ones do.
type cluster struct {
	pods []corev1.Pod
	// statusz is what the driver answers, and address where it listens. Empty: nothing listens.
	statusz http.HandlerFunc
	address string
	// denied are the requests that get 403, by what their paths end in.
	denied string
	// hangs is true if port-forwards are never answered.
	hangs chan struct{}
	lists atomic.Int32
}

func (c *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	isList := strings.HasSuffix(r.URL.Path, "/pods")
	switch {
	case c.denied != "" && strings.HasSuffix(r.URL.Path, c.denied):
		refuse(w, apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("you may not "+r.Method)))
	case isList:
		c.list(w, r)
	case strings.HasSuffix(r.URL.Path, "/driver-0/portforward"):
		refuse(w, apierrors.NewNotFound(corev1.Resource("pods"), "driver-0"))
	case strings.HasSuffix(r.URL.Path, "/driver-2/portforward"):
		refuse(w, apierrors.NewNotFound(corev1.Resource("pods"), "node-1")) // The API server speaks of the node so.
	case r.Method != http.MethodPost:
		http.Error(w, "no WebSockets here", http.StatusBadRequest)
	case c.hangs != nil:
		<-c.hangs
	default:
		c.forward(w, r)
	}
}

func refuse(w http.ResponseWriter, err *apierrors.StatusError) {
	answer := err.Status()
	answer.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(answer.Code))
	_ = json.NewEncoder(w).Encode(answer)
}

func (c *cluster) list(w http.ResponseWriter, r *http.Request) {
	c.lists.Add(1)
	list := corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}}
	const want = "app.kubernetes.io/name=liveconfig,app.kubernetes.io/component=driver"
	if r.URL.Path == "/api/v1/namespaces/system/pods" && r.FormValue("labelSelector") == want {
		for _, pod := range c.pods {
			if selected := r.FormValue("fieldSelector"); selected == "" || selected == "spec.nodeName="+pod.Spec.NodeName {
				list.Items = append(list.Items, pod)
			}
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(list)
}

// forward does what a kubelet does with a port-forward: it connects the stream of data with the
// port.
func (c *cluster) forward(w http.ResponseWriter, r *http.Request) {
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
	defer func() { _ = connection.Close() }()
	errs, data := <-streams, <-streams
	if errs.Headers().Get(corev1.StreamType) != corev1.StreamTypeError {
		errs, data = data, errs
	}
	if port := data.Headers().Get(corev1.PortHeader); port != "9809" {
		_, _ = fmt.Fprintf(errs, "nothing listens on port %s", port)
	} else if err := pipe(r, data, c.address); err != nil {
		_, _ = fmt.Fprint(errs, err)
	}
	_, _ = errs.Close(), data.Close()
	<-connection.CloseChan()
}

func pipe(r *http.Request, stream httpstream.Stream, address string) error {
	c, err := new(net.Dialer).DialContext(r.Context(), "tcp", address)
	if err != nil {
		return err
	}
	go func() { _, _ = io.Copy(c, stream) }()
	_, err = io.Copy(stream, c)
	return errors.Join(err, c.Close())
}

// start runs the cluster and the driver.
func (c *cluster) start(t *testing.T) *nodes.Drivers {
	t.Helper()
	return c.startWithin(t, nodes.Limits{Report: 1 << 20, AtOnce: 16})
}

func (c *cluster) startWithin(t *testing.T, limits nodes.Limits) *nodes.Drivers {
	t.Helper()
	if c.statusz != nil {
		mux := http.NewServeMux()
		mux.Handle("GET /statusz", server.Local(c.statusz))
		driver := httptest.NewServer(mux)
		t.Cleanup(driver.Close)
		c.address = driver.Listener.Addr().String()
	}
	api := httptest.NewServer(c)
	t.Cleanup(api.Close)
	if c.hangs != nil {
		t.Cleanup(func() { close(c.hangs) }) // Before the server waits for its requests.
	}
	config := &rest.Config{Host: api.URL}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return nodes.NewWithin(config, client, "system", limits)
}

// driverPod is one that is ready on node-1.
func driverPod() corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "driver-1"},
		Spec: corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{
			{Name: "sidecar", Args: []string{"--http-endpoint-of-another=:1"}},
			{Name: "driver", Args: []string{"-v=2", "--http-endpoint=:9809"}},
		}},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
}

// serveReport answers with a report of node-1.
func serveReport(w http.ResponseWriter, _ *http.Request) {
	_ = statusz.Write(w, statusz.Report{SchemaVersion: statusz.SchemaVersion, Node: "node-1", Volumes: []statusz.Volume{{ID: "v"}}})
}

func askNode(t *testing.T, drivers *nodes.Drivers) nodes.Answer {
	t.Helper()
	return drivers.Reports(t.Context(), []string{"node-1"})["node-1"]
}

func TestReport(t *testing.T) {
	t.Parallel()
	named, twice, going := driverPod(), driverPod(), driverPod()
	named.Spec.Containers = []corev1.Container{{Name: "driver", Ports: []corev1.ContainerPort{{Name: "other", ContainerPort: 1}, {Name: "http", ContainerPort: 9809}}}}
	twice.Spec.Containers[1].Args = []string{"--http-endpoint=:1", "-http-endpoint", "10.0.0.1:9809"}
	going.Name, going.DeletionTimestamp = "driver-0", new(metav1.Now())
	tests := map[string][]corev1.Pod{
		"the flag has the port":          {driverPod()},
		"the last flag counts":           {twice},
		"a port with the name has it":    {named},
		"a pod that goes is passed over": {going, driverPod()},
		"in whatever order they come":    {driverPod(), going},
	}
	for name, pods := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &cluster{pods: pods, statusz: serveReport}
			drivers := c.start(t)
			for range 2 {
				got := askNode(t, drivers)
				if got.Err != nil || got.Report.Node != "node-1" || len(got.Report.Volumes) != 1 {
					t.Fatalf("the answer is %v, %v, want the report of the node", got.Report, got.Err)
				}
			}
			if got := c.lists.Load(); got != 1 {
				t.Errorf("pods were listed %d times, want once", got)
			}
		})
	}
}

func TestUnavailable(t *testing.T) {
	t.Parallel()
	unready, silent, gone, nowhere, elsewhere := driverPod(), driverPod(), driverPod(), driverPod(), driverPod()
	unready.Status.Conditions = nil
	silent.Spec.Containers = nil
	gone.Name, nowhere.Name = "driver-0", "driver-2"
	elsewhere.Spec.Containers[1].Args = []string{"--http-endpoint=:1"}
	answer := func(text string, code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(code)
			_, _ = io.WriteString(w, text)
		}
	}
	const listing = "; see kubectl -n system get pods -o wide --field-selector spec.nodeName=node-1"
	tests := map[string]struct {
		cluster *cluster
		want    string
		// isForbidden is true if another attempt is useless.
		isForbidden bool
	}{
		"no pod": {
			cluster: &cluster{},
			want:    "no pod of it runs on the node in namespace system; use --driver-namespace if it is in another" + listing,
		},
		"a pod that is not ready": {
			cluster: &cluster{pods: []corev1.Pod{unready}},
			want:    "its pod driver-1 does not run; see kubectl -n system describe pod driver-1",
		},
		"a pod that serves nothing": {
			cluster: &cluster{pods: []corev1.Pod{silent}},
			want:    "its pod driver-1 serves no HTTP: it is run without --http-endpoint; see kubectl -n system get pod driver-1 -o yaml",
		},
		"a pod that is gone": {
			cluster: &cluster{pods: []corev1.Pod{gone}},
			want:    "its pod driver-0 is gone: pods \"driver-0\" not found" + listing,
		},
		"a node that is gone": {
			cluster: &cluster{pods: []corev1.Pod{nowhere}},
			want: "its pod driver-2 did not answer as it should: pods \"node-1\" not found; " +
				"see kubectl -n system logs driver-2 -c driver",
		},
		"pods may not be listed": {
			cluster:     &cluster{denied: "/pods"},
			want:        "you may not look for its pod, which takes the verb list on pods in namespace system; see kubectl -n system auth can-i list pods",
			isForbidden: true,
		},
		"ports may not be forwarded": {
			cluster: &cluster{pods: []corev1.Pod{driverPod()}, denied: "/portforward"},
			want: "you may not port-forward to its pod, which takes the verb create on pods/portforward in namespace system; " +
				"see kubectl -n system auth can-i create pods/portforward",
			isForbidden: true,
		},
		"a port that nothing listens on": {
			cluster: &cluster{pods: []corev1.Pod{elsewhere}, statusz: serveReport},
			want: "its pod driver-1 did not answer as it should: the node cannot forward the port: nothing listens on port 1; " +
				"see kubectl -n system logs driver-1 -c driver",
		},
		"an older driver": {
			cluster: &cluster{pods: []corev1.Pod{driverPod()}, statusz: answer("404 page not found", http.StatusNotFound)},
			want:    "its pod driver-1 did not answer as it should: /statusz answers 404 Not Found; see kubectl -n system logs driver-1 -c driver",
		},
		"a newer driver": {
			cluster: &cluster{pods: []corev1.Pod{driverPod()}, statusz: answer(`{"schemaVersion": 99, "node": "node-1"}`, http.StatusOK)},
			want: "it is newer than this plugin: update the plugin: the driver of node \"node-1\" reports its status in schema 99, " +
				"and 1 is known here: use a newer version; see kubectl liveconfig version",
		},
		"no report": {
			cluster: &cluster{pods: []corev1.Pod{driverPod()}, statusz: answer("{", http.StatusOK)},
			want: "its pod driver-1 did not answer as it should: decode the status of a node: unexpected EOF; " +
				"see kubectl -n system logs driver-1 -c driver",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := askNode(t, tc.cluster.start(t)).Err
			if got == nil {
				t.Fatal("there is a report, want that the driver is not available")
			}
			if want := "the driver of node node-1 cannot be asked: " + tc.want; got.Error() != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			if got.Forbidden != tc.isForbidden {
				t.Errorf("Forbidden = %t, want %t", got.Forbidden, tc.isForbidden)
			}
		})
	}
}

// TestAPodWhoseReadinessIsFalse asks a running driver whose node was silent for a while: its pod
// is ready again only half a minute later.
func TestAPodWhoseReadinessIsFalse(t *testing.T) {
	t.Parallel()
	pod := driverPod()
	pod.Status.Phase, pod.Status.Conditions = corev1.PodRunning, nil
	drivers := (&cluster{pods: []corev1.Pod{pod}, statusz: http.HandlerFunc(serveReport)}).start(t)
	if err := askNode(t, drivers).Err; err != nil {
		t.Errorf("the answer is %v, want the running pod to be asked", err)
	}
}

// TestANodeThatHangs: the others are asked all the same, and it ends with the context.
func TestANodeThatHangs(t *testing.T) {
	t.Parallel()
	hanging := &cluster{pods: []corev1.Pod{driverPod()}, hangs: make(chan struct{})}
	drivers := hanging.start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
	defer cancel()
	answers := drivers.Reports(ctx, []string{"node-1", "node-2"})
	if got := answers["node-1"].Err; got == nil || !errors.Is(got, ctx.Err()) {
		t.Errorf("the node that hangs: %v, want that its time is up", got)
	}
	if got := answers["node-2"].Err; got == nil || !strings.HasPrefix(got.Why, "no pod of it runs on the node") {
		t.Errorf("the other node: %v, want that no driver is there", got)
	}
}

// TestManyNodes: the pods of many drivers are in one list, and only those that are not ready are looked for again. The nodes
// that cannot be asked are together where the reason is the same but for names.
func TestManyNodes(t *testing.T) {
	t.Parallel()
	c := &cluster{statusz: serveReport}
	var names []string
	for i := range 20 {
		pod := driverPod()
		pod.Name, pod.Spec.NodeName = fmt.Sprintf("driver-%02d", i+10), fmt.Sprintf("node-%02d", i+10)
		if i < 3 {
			pod.Status.Conditions = nil
		}
		c.pods, names = append(c.pods, pod), append(names, pod.Spec.NodeName)
	}
	answers := c.start(t).Reports(t.Context(), append(names, "node-98", "node-99"))
	if got, want := c.lists.Load(), int32(1+3+2); got != want {
		t.Errorf("pods were listed %d times, want %d: once for all, and for each that is not ready", got, want)
	}
	want := []nodes.Unasked{{
		Nodes: []string{"node-10", "node-11", "node-12"},
		Why:   "its pod driver-10 does not run", Type: "kubectl -n system describe pod driver-10",
	}, {
		Nodes: []string{"node-98", "node-99"},
		Why:   "no pod of it runs on the node in namespace system; use --driver-namespace if it is in another",
		Type:  "kubectl -n system get pods -o wide --field-selector spec.nodeName=node-98",
	}}
	if diff := cmp.Diff(want, nodes.UnaskedIn(answers)); diff != "" {
		t.Errorf("UnaskedIn (-want +got):\n%s", diff)
	}
	if got := len(answers); got != 22 {
		t.Errorf("%d nodes have an answer, want all 22", got)
	}
}

// TestAPodThatCameAfter: a pod that does not answer is looked for again.
func TestAPodThatCameAfter(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	broken.Store(true)
	c := &cluster{pods: []corev1.Pod{driverPod()}, statusz: func(w http.ResponseWriter, r *http.Request) {
		if broken.Load() {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		serveReport(w, r)
	}}
	drivers := c.start(t)
	if askNode(t, drivers).Err == nil {
		t.Error("a driver that fails has a report")
	}
	broken.Store(false)
	if err := askNode(t, drivers).Err; err != nil {
		t.Errorf("the answer is %v, want a report", err)
	}
	if got := c.lists.Load(); got != 2 {
		t.Errorf("pods were listed %d times, want again after the failure", got)
	}
}

// TestReportsOfANamespace have nothing of other namespaces, so what is in those cannot make them too large.
func TestReportsOfANamespace(t *testing.T) {
	t.Parallel()
	const most = 64 << 10
	report := func(w http.ResponseWriter, r *http.Request) {
		volumes := []statusz.Volume{{ID: r.URL.Query().Get("namespace")}}
		if r.URL.Query().Get("namespace") != "small" {
			volumes = append(volumes, statusz.Volume{ID: strings.Repeat("x", most)})
		}
		_ = statusz.Write(w, statusz.Report{SchemaVersion: statusz.SchemaVersion, Node: "node-1", Volumes: volumes})
	}
	c := &cluster{pods: []corev1.Pod{driverPod()}, statusz: http.HandlerFunc(report)}
	drivers := c.startWithin(t, nodes.Limits{Report: most, AtOnce: 1})
	answer := drivers.ReportsOf(t.Context(), []string{"node-1"}, "small")["node-1"]
	if answer.Err != nil || len(answer.Report.Volumes) != 1 || answer.Report.Volumes[0].ID != "small" {
		t.Errorf("the answer is %+v, want the volume of the namespace", answer)
	}
	answer = drivers.ReportsOf(t.Context(), []string{"node-1"}, "large")["node-1"]
	if answer.Err == nil || !strings.Contains(answer.Err.Error(), "the status has more than 65536 bytes") {
		t.Errorf("the answer is %v, want that the report is too large", answer.Err)
	}
}
