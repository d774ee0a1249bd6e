package driver

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
	"github.com/liveconfig-csi/liveconfig/test/kit/node"
)

// says returns what the driver answers at a path that is about its health: nothing if it is well.
func says(b *fixture.Fixture, path string) string {
	_, err := b.Fetch(path)
	if err == nil {
		return ""
	}
	return err.Error()
}

// wantReady waits until /readyz and Probe answer that the driver is ready, or that it is not, where /readyz says why. Neither
// is ever an error of Probe, nor a reason to restart the driver.
func wantReady(b *fixture.Fixture, why string) {
	b.T.Helper()
	environment.Eventually(b.T, fixture.Soon, func() error {
		response, err := b.Node.Identity().Probe(b.T.Context(), &csi.ProbeRequest{})
		if err != nil {
			return err
		}
		if ready := response.GetReady().GetValue(); ready != (why == "") {
			return fmt.Errorf("Probe says ready: %t", ready)
		}
		return wantSaid(says(b, "/readyz"), why)
	})
	if got := says(b, "/healthz"); got != "" {
		b.T.Errorf("/healthz says %q, want ok", got)
	}
}

func wantSaid(got, want string) error {
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
	must(b.T, err)
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
	must(b.T, errors.Join(roleErr, bindErr, err))
	return made
}

// TestADriverThatNobodyVouchesForIsNotReady: its CSIDriver object is deleted, made again, changed and put right, which is
// how the registration and the version skew of fault 22 show. What is live is served on all the while.
func TestADriverThatNobodyVouchesForIsNotReady(t *testing.T) {
	t.Parallel()
	b := fixture.NewBare(t)
	installed := installCSIDriver(b, b.Namespace+".csi.test")
	b.Use(environment.Node(t, "--driver-name="+installed.Name, "--http-endpoint="+b.HTTP))
	objects := b.Cluster.Client().StorageV1().CSIDrivers()
	wantReady(b, "")
	pod := publish(b, "web", "red")

	must(t, objects.Delete(t.Context(), installed.Name, metav1.DeleteOptions{}))
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
	vouch := func(text string) {
		t.Helper()
		patch := []byte(`{"spec": {"podInfoOnMount": ` + text + `}}`)
		if _, err := objects.Patch(t.Context(), installed.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	vouch("false")
	wantReady(b, "does not have podInfoOnMount: true")
	late := b.Pod("late", map[string]string{"configMap": "web"})
	b.WantRefusal(late, codes.FailedPrecondition,
		"podInfoOnMount: true; run: kubectl patch csidriver "+installed.Name)
	b.WantNothing(late, "a publish that nobody vouches for")
	b.UpdateConfigMap("web", map[string]string{"n": "blue"})
	b.WantFile(pod, "n", "blue")
	vouch("true")
	wantReady(b, "")
	b.Publish(late)
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
	must(t, unix.Mount(dir, dir, "", unix.MS_BIND, ""))
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
	must(t, unix.Mount("", dir, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	return thaw
}
