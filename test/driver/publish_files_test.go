package driver

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
)

// TestASubPathAfterAnUpdate (fault 9): a container that mounts one file of the volume is started again after an update. The
// mount of the first start has what it had, the one of the second start finds the file, as it is now.
func TestASubPathAfterAnUpdate(t *testing.T) {
	t.Parallel()
	b := fixture.New(t)
	b.CreateConfigMap("web", map[string]string{"n": "1"})
	for _, policy := range []string{"Atomic", "Replace", "InPlace"} {
		pod := b.Pod("web-"+strings.ToLower(policy), map[string]string{"configMap": "web", "updatePolicy": policy})
		b.UpdateConfigMap("web", map[string]string{"n": "1"})
		b.Publish(pod)
		b.WantFile(pod, "n", "1")
		first := startWithSubPath(t, b.Path(pod, "n"))
		for _, n := range []string{"2", "3"} {
			b.UpdateConfigMap("web", map[string]string{"n": n})
			b.WantFile(pod, "n", n)
			again := startWithSubPath(t, b.Path(pod, "n"))
			wantText(t, policy+", started again", again, n)
		}
		want := "1"
		if policy == "InPlace" {
			want = "3"
		}
		wantText(t, policy+", not started again", first, want)
	}
}

// startWithSubPath mounts a file by itself, as the kubelet does for a container that starts.
func startWithSubPath(t testing.TB, file string) string {
	t.Helper()
	target := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(target, nil, 0o600))
	if err := unix.Mount(file, target, "", unix.MS_BIND, ""); err != nil {
		t.Fatalf("a container with a subPath cannot start: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(target, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return target
}

func wantText(t testing.TB, what, file, want string) {
	t.Helper()
	if got, err := os.ReadFile(file); environment.Unmarked(string(got)) != want || err != nil {
		t.Errorf("%s: the file holds %q, %v, want %q", what, got, err, want)
	}
}

// TestNamesThatComeAndGo (fault 7, rule 48): an object that is emptied, names that differ in nothing but their case, and names that
// look as if they were the driver's own. Nothing of an earlier state is left.
func TestNamesThatComeAndGo(t *testing.T) {
	t.Parallel()
	b := fixture.New(t)
	b.CreateConfigMap("web", map[string]string{"Name": "1"})
	long := strings.Repeat("x", 253)
	for _, policy := range []string{"Atomic", "Replace", "InPlace"} {
		pod := b.Pod("web-"+strings.ToLower(policy), map[string]string{"configMap": "web", "updatePolicy": policy})
		b.Publish(pod)
		for _, data := range []map[string]string{
			{"name": "2"}, {}, {"NAME": "3", "Name": "4", "name": "5"}, {"name": "6"}, {long: "7", ".hidden": "8", "a..b": "9"}, {"Name": "1"},
		} {
			b.UpdateConfigMap("web", data)
			environment.Eventually(t, fixture.Soon, func() error { return holdsOnly(b.Path(pod, "."), data) })
		}
	}
}
