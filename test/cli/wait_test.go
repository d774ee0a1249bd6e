package cli

import (
	"bytes"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
	"github.com/liveconfig-csi/liveconfig/test/kit/network"
)

// TestWaitOutlastsTheAPIServer: the API server goes away while pods are waited for, as it does for an upgrade, and reports in
// the end that there is nothing left to wait for.
func TestWaitOutlastsTheAPIServer(t *testing.T) {
	t.Parallel()
	t.Run("the connection is cut", func(t *testing.T) {
		t.Parallel()
		w := newWaiting(t)
		link := network.New(t, w.c.AdminConfig().Host)
		w.start(link.Kubeconfig, "1m")
		if err := link.Cut(); err != nil {
			t.Fatal(err)
		}
		w.prints("will look again: .*connection refused")
		if err := link.Heal(); err != nil {
			t.Fatal(err)
		}
		w.prints("no pod of it runs yet(?s:.*)no pod of it runs yet")
		w.endsWell()
	})
	for name, status := range map[string]int{"it is overloaded": http.StatusTooManyRequests, "it is shutting down": http.StatusServiceUnavailable} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWaiting(t)
			front := network.NewFront(t, w.c)
			w.start(front.Kubeconfig, "1m")
			front.Set(network.Fault{Status: status})
			w.prints("will look again: ")
			front.Set()
			w.endsWell()
		})
	}
}

// TestWaitEnds where waiting longer is useless, and at its time limit, whatever the API server does.
func TestWaitEnds(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		timeout string
		fault   network.Fault
		want    string
	}{
		"it may not look any more": {"1m", network.Fault{Status: http.StatusForbidden}, "get it: "},
		"nobody answers":           {"10s", network.Fault{Delay: time.Hour}, "timed out after 10s: no pod of it runs yet"},
		"it is away for longer":    {"10s", network.Fault{Status: http.StatusServiceUnavailable}, "timed out after 10s: get it: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWaiting(t)
			front := network.NewFront(t, w.c)
			w.start(front.Kubeconfig, test.timeout)
			test.fault.Of = func(r network.Request) bool { return r.Resource == "deployments" }
			front.Set(test.fault)
			if w.ends(test.want) == nil {
				t.Error("its status is 0")
			}
		})
	}
}

// person is a user. The proxy knows users by their tokens.
const person = "person"

// waiting is the command wait for the pods of a Deployment that never come: no node and no controller is there.
type waiting struct {
	t         *testing.T
	c         *cluster.Cluster
	namespace string
	out       lockedBuffer
	ended     chan error
}

func newWaiting(t *testing.T) *waiting {
	t.Helper()
	c := cluster.ForTest(t)
	w := &waiting{t: t, c: c, namespace: cluster.NewNamespace(t, c), ended: make(chan error, 1)}
	w.admit()
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	if _, err := c.Client().CoreV1().ConfigMaps(w.namespace).Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{"app": "web"}
	inline := &corev1.CSIVolumeSource{Driver: "csi.liveconfig.internal", VolumeAttributes: map[string]string{"configMap": "web"}}
	spec := corev1.PodSpec{
		Containers: []corev1.Container{{Name: "web", Image: "web:1"}},
		Volumes:    []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{CSI: inline}}},
	}
	_, err := c.Client().AppsV1().Deployments(w.namespace).Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// admit creates the user of the command, with all rights in the namespace.
func (w *waiting) admit() {
	w.t.Helper()
	if err := w.c.EnsureServiceAccount(w.t.Context(), w.namespace, person); err != nil {
		w.t.Fatal(err)
	}
	_, err := w.c.Client().RbacV1().RoleBindings(w.namespace).Create(w.t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: person},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: person, Namespace: w.namespace}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
	}, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	watch := authorizationv1.ResourceAttributes{Namespace: w.namespace, Verb: "watch", Resource: "pods"}
	if err := w.c.AwaitAccess(w.t.Context(), cluster.ServiceAccountUser(w.namespace, person), watch); err != nil {
		w.t.Fatal(err)
	}
}

// start runs the command by the way to the API server that lead writes, and returns when it waits.
func (w *waiting) start(lead func(from, to string) error, timeout string) {
	w.t.Helper()
	user, way := filepath.Join(w.t.TempDir(), "user"), filepath.Join(w.t.TempDir(), "way")
	if err := w.c.WriteServiceAccountKubeconfig(w.t.Context(), user, w.namespace, person); err != nil {
		w.t.Fatal(err)
	}
	if err := lead(user, way); err != nil {
		w.t.Fatal(err)
	}
	command := exec.CommandContext(w.t.Context(), program, "wait", "deployment/web", "--for=projected=configmap/web",
		"--timeout="+timeout, "--kubeconfig="+way, "--namespace="+w.namespace)
	command.Stdout, command.Stderr = &w.out, &w.out
	if err := command.Start(); err != nil {
		w.t.Fatal(err)
	}
	go func() { w.ended <- command.Wait() }()
	w.prints("no pod of it runs yet")
}

// prints waits until what the command has printed matches a pattern.
func (w *waiting) prints(pattern string) {
	w.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !regexp.MustCompile(pattern).MatchString(w.out.String()) {
		select {
		case err := <-w.ended:
			w.t.Fatalf("it ended with %v before it printed %s:\n%s", err, pattern, w.out.String())
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("it does not say %s:\n%s", pattern, w.out.String())
		}
	}
}

// ends waits for the command's end, looks at its last output, and returns how it ended.
func (w *waiting) ends(want string) error {
	w.t.Helper()
	select {
	case err := <-w.ended:
		if line := regexp.MustCompile(`(?m)^[IWEF]\d{4} .*`).FindString(w.out.String()); line != "" {
			w.t.Errorf("it shows what a library logs: %s", line)
		}
		lines := strings.Split(strings.TrimSpace(w.out.String()), "\n")
		if !strings.Contains(lines[len(lines)-1], want) {
			w.t.Errorf("it ended with %v, want %q:\n%s", err, want, w.out.String())
		}
		return err
	case <-time.After(time.Minute):
		w.t.Fatalf("it does not end:\n%s", w.out.String())
		return nil
	}
}

// endsWell wants the command to report that there is no more to wait for.
func (w *waiting) endsWell() {
	w.t.Helper()
	_, err := w.c.Client().AppsV1().Deployments(w.namespace).Patch(w.t.Context(), "web", types.MergePatchType,
		[]byte(`{"spec":{"replicas":0}}`), metav1.PatchOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.ends("0 replicas wanted"); err != nil {
		w.t.Errorf("it ends with %v", err)
	}
}

// lockedBuffer is a buffer that is read while a program writes to it.
type lockedBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}
