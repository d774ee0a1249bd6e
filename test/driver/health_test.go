package driver

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/docs"
	"github.com/liveconfig-csi/liveconfig/pkg/api/statusz"
	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
	"github.com/liveconfig-csi/liveconfig/test/kit/node"
)

// healthOf returns what the driver answers at a path that is about its health: nothing if it is well.
func healthOf(b *fixture.Fixture, path string) string {
	_, err := b.Fetch(path)
	if err == nil {
		return ""
	}
	return err.Error()
}

// wantReady waits until /readyz and Probe answer that the driver is ready, or that it is not, where /readyz has the reason. Neither
// is ever an error of Probe, nor a reason to restart the driver.
func wantReady(b *fixture.Fixture, why string) {
	b.T.Helper()
	expect.Eventually(b.T, fixture.Soon, func() error {
		response, err := b.Node.Identity().Probe(b.T.Context(), &csi.ProbeRequest{})
		if err != nil {
			return err
		}
		if ready := response.GetReady().GetValue(); ready != (why == "") {
			return fmt.Errorf("Probe says ready: %t", ready)
		}
		return wantLogged(healthOf(b, "/readyz"), why)
	})
	if got := healthOf(b, "/healthz"); got != "" {
		b.T.Errorf("/healthz says %q, want ok", got)
	}
}

func wantLogged(got, want string) error {
	switch {
	case want == "" && got != "":
		return fmt.Errorf("/readyz says %q, want ok", got)
	case want != "" && (!strings.Contains(got, want) || !strings.Contains(got, http.StatusText(http.StatusServiceUnavailable))):
		return fmt.Errorf("/readyz says %q, want 503 and %q", got, want)
	}
	return nil
}

// installCSIDriver makes a CSIDriver object as ours under another name.
// The drivers of the environment may read the object.
func installCSIDriver(b *fixture.Fixture, name string) *storagev1.CSIDriver {
	b.T.Helper()
	objects := b.Cluster.Client().StorageV1().CSIDrivers()
	object, err := objects.Get(b.T.Context(), node.DriverName, metav1.GetOptions{})
	expect.NoError(b.T, err)
	object.ObjectMeta = metav1.ObjectMeta{Name: name}
	roles, bindings := b.Cluster.Client().RbacV1().ClusterRoles(), b.Cluster.Client().RbacV1().ClusterRoleBindings()
	_, roleErr := roles.Create(b.T.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{storagev1.GroupName}, Resources: []string{"csidrivers"}, ResourceNames: []string{name},
		Verbs: []string{"get", "list", "watch"},
	}}}, metav1.CreateOptions{})
	_, bindErr := bindings.Create(b.T.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:serviceaccounts:" + environment.DriverNamespace}},
	}, metav1.CreateOptions{})
	made, err := objects.Create(b.T.Context(), object, metav1.CreateOptions{})
	expect.NoError(b.T, errors.Join(roleErr, bindErr, err))
	return made
}

// TestADriverThatNobodyVouchesForIsNotReady: its CSIDriver object is deleted and made again, which is how the
// registration and the version skew of fault 22 show. What is live is served on all the while.
func TestADriverThatNobodyVouchesForIsNotReady(t *testing.T) {
	t.Parallel()
	b := fixture.NewBare(t)
	installed := installCSIDriver(b, b.Namespace+".csi.test")
	b.Use(environment.Node(t, "--driver-name="+installed.Name, "--http-endpoint="+b.HTTP))
	objects := b.Cluster.Client().StorageV1().CSIDrivers()
	wantReady(b, "")
	pod := publish(b, "web", "red")

	expect.NoError(t, objects.Delete(t.Context(), installed.Name, metav1.DeleteOptions{}))
	wantReady(b, "the CSIDriver object "+installed.Name+" does not exist")
	b.UpdateConfigMap("web", map[string]string{"n": "green"})
	b.WantFile(pod, "n", "green")
	if err := b.TryPublish(t.Context(), pod); err != nil {
		t.Errorf("a repeat = %v, want nil", err)
	}
	b.WantRefusal(b.Pod("late", map[string]string{"configMap": "web"}), codes.FailedPrecondition, "does not exist")
	b.WantNumber(`liveconfig_publishes_refused_total{kind="Installation"}`, 1)

	installed.ResourceVersion = ""
	if _, err := objects.Create(t.Context(), installed, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	wantReady(b, "")
	b.Publish(b.Pod("late", map[string]string{"configMap": "web"}))
}

// TestADriverThatCannotRecordIsNotReady: the state directory can be read and not written (fault 20). What is live is served
// on, and all is well when it can be written again.
func TestADriverThatCannotRecordIsNotReady(t *testing.T) {
	t.Parallel()
	b := fixture.New(t)
	pod := publish(b, "web", "red")
	wantReady(b, "")
	b.WantNumber("liveconfig_state_directory_writable", 1)

	dir := b.Node.StateDir()
	thaw := freeze(t, dir)
	wantReady(b, "the state directory cannot be written to")
	b.WantNumber("liveconfig_state_directory_writable", 0)
	b.UpdateConfigMap("web", map[string]string{"n": "green"})
	b.WantFile(pod, "n", "green")
	if err := b.TryPublish(t.Context(), pod); err != nil {
		t.Errorf("a repeat = %v, want nil", err)
	}
	late := b.Pod("late", map[string]string{"configMap": "web"})
	b.WantRefusal(late, codes.Internal, "read-only file system")
	thaw()
	wantReady(b, "")
	b.Publish(late)
	b.WantFile(late, "n", "green")
}

// freeze makes a directory read-only for everybody, root included, until the returned function is called.
func freeze(t *testing.T, dir string) (thaw func()) {
	t.Helper()
	expect.NoError(t, unix.Mount(dir, dir, "", unix.MS_BIND, ""))
	frozen := true
	thaw = func() {
		if err := unix.Unmount(dir, 0); frozen && err != nil {
			t.Error(err)
		}
		frozen = false
	}
	t.Cleanup(func() {
		if frozen {
			thaw()
		}
	})
	expect.NoError(t, unix.Mount("", dir, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	return thaw
}

// statusOf reads what the driver reports its volumes, and looks for values and tokens in it.
func statusOf(b *fixture.Fixture, query string) statusz.Report {
	b.T.Helper()
	text := b.Get("/statusz" + query)
	if err := environment.Leak([]byte(text)); err != nil {
		b.T.Errorf("/statusz: %v", err)
	}
	report, err := statusz.Read(strings.NewReader(text))
	expect.NoError(b.T, err)
	return report
}

// TestStatusAnswersReadersOnly, and refuses malformed requests.
func TestStatusAnswersReadersOnly(t *testing.T) {
	t.Parallel()
	b := fixture.New(t)
	tests := map[string]struct {
		method, path string
		code         int
	}{
		"all":                     {http.MethodGet, "/statusz", http.StatusOK},
		"a look at the headers":   {http.MethodHead, "/statusz", http.StatusOK},
		"a pod that is not here":  {http.MethodGet, "/statusz?pod=default/none", http.StatusOK},
		"a namespace without any": {http.MethodGet, "/statusz?namespace=none", http.StatusOK},
		"a write":                 {http.MethodPost, "/statusz", http.StatusMethodNotAllowed},
		"a pod without a name":    {http.MethodGet, "/statusz?pod=default", http.StatusBadRequest},
		"a path":                  {http.MethodGet, "/statusz?pod=a/b/c", http.StatusBadRequest},
		"below":                   {http.MethodGet, "/statusz/x", http.StatusNotFound},
	}
	for name, tc := range tests {
		r, err := http.NewRequestWithContext(t.Context(), tc.method, "http://"+b.HTTP+tc.path, http.NoBody)
		expect.NoError(t, err)
		response, err := http.DefaultClient.Do(r)
		expect.NoError(t, err)
		_ = response.Body.Close()
		if response.StatusCode != tc.code {
			t.Errorf("%s: %s %s = %s, want %d", name, tc.method, tc.path, response.Status, tc.code)
		}
		if kind := response.Header.Get("Content-Type"); tc.code == http.StatusOK && kind != "application/json" {
			t.Errorf("%s: the answer is %s, want application/json", name, kind)
		}
	}
}

// TestMetricsOfARealDriverAreTheKnownOnes: the list that alerts and dashboards are held to is what is served. Alerts on what
// the driver cannot know of faults 24 and 30 hang on it.
func TestMetricsOfARealDriverAreTheKnownOnes(t *testing.T) {
	t.Parallel()
	b := fixture.New(t)
	b.CreateConfigMap("web", map[string]string{"color": "red"})
	b.Publish(b.Pod("web", map[string]string{"configMap": "web"}))
	const calls = `csi_plugin_operations_seconds_count{driver_name="csi.liveconfig.internal",grpc_status_code="OK",` +
		`method_name="/csi.v1.Node/NodePublishVolume"}`
	b.WantNumber(calls, 1)
	known := ofLiveconfig(docs.Rows(t, "metrics.md", "the driver's metrics"))
	known = slices.DeleteFunc(known, func(row string) bool { return strings.Contains(row, "manifest_problems") }) // It has none.
	served := ofLiveconfig(docs.Shortened(docs.Metrics(b.Get("/metrics"))))
	if diff := cmp.Diff(known, served); diff != "" {
		t.Errorf("metrics (-known +served):\n%s", diff)
	}
}

// ofLiveconfig returns the name, type and help of each metric that is the project's own.
func ofLiveconfig(rows [][]string) []string {
	var all []string
	for _, row := range rows {
		if strings.HasPrefix(row[0], "`liveconfig_") {
			all = append(all, strings.Join(row[:3], " "))
		}
	}
	return all
}

// TestARestartRepeatsNoEvent: a driver that is restarted while something is wrong (fault 19) finds its Event of the run
// before and makes it new again, with no more rights than to create and patch.
func TestARestartRepeatsNoEvent(t *testing.T) {
	t.Parallel()
	b := fixture.New(t)
	pod := publish(b, "web", "red")
	b.DeleteConfigMap("web")
	b.WantEvent(pod, "SourceMissing", "not found")
	last := only(b, pod, "SourceMissing").LastTimestamp
	for range 2 {
		<-time.After(1100 * time.Millisecond) // Events have whole seconds.
		b.Kill()
		b.Start()
		expect.Eventually(t, fixture.Soon, func() error {
			if e := only(b, pod, "SourceMissing"); !e.LastTimestamp.After(last.Time) {
				return errors.New("the next run has not reported it yet")
			}
			return nil
		})
		last = only(b, pod, "SourceMissing").LastTimestamp
	}
	b.CreateConfigMap("web", map[string]string{"n": "green"})
	b.WantEvent(pod, "Projected", "the files are current again")
}

// only returns the one Event with the reason on the pod.
func only(b *fixture.Fixture, pod *corev1.Pod, reason string) corev1.Event {
	b.T.Helper()
	events := eventsOf(b, pod, reason)
	if len(events) != 1 {
		b.T.Fatalf("%d Events say %s, want one: %v", len(events), reason, events)
	}
	return events[0]
}

// eventsOf returns the Events with the reason on the pod.
func eventsOf(b *fixture.Fixture, pod *corev1.Pod, reason string) []corev1.Event {
	b.T.Helper()
	events, err := b.Cluster.Client().CoreV1().Events(b.Namespace).List(b.T.Context(),
		metav1.ListOptions{FieldSelector: fmt.Sprintf("involvedObject.uid=%s,reason=%s", pod.UID, reason)})
	expect.NoError(b.T, err)
	return events.Items
}

// TestADriverWithoutItsAddressTouchesNothing: if another process listens on its address, a driver ends before it takes over a
// volume, even one with a pending edit.
func TestADriverWithoutItsAddressTouchesNothing(t *testing.T) {
	t.Parallel()
	b := &rig{fixture.New(t)}
	pod := publish(b.Fixture, "web", "red")
	b.Kill()
	before := b.listing()
	other, err := new(net.ListenConfig).Listen(t.Context(), "tcp", b.HTTP)
	expect.NoError(t, err)
	defer other.Close()
	b.UpdateConfigMap("web", map[string]string{"n": "blue"})
	if err := b.Node.StartDriver(t.Context()); err == nil || !strings.Contains(err.Error(), "listen on "+b.HTTP+" for HTTP: ") {
		t.Errorf("StartDriver = %v, want it to say that the address is taken", err)
	}
	b.wantUnchanged(before, "after a start without the address")
	b.WantFile(pod, "n", "red")

	expect.NoError(t, other.Close())
	b.Start()
	b.WantFile(pod, "n", "blue")
}
