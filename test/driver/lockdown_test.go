package driver

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
)

// keeps are the capabilities that SECURITY.md says the driver keeps.
const keeps = 1<<unix.CAP_SYS_ADMIN | 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER | 1<<unix.CAP_FSETID

// TestTheProcessIsLockedDown looks at every thread of the driver as it ships, before and after it has done all of its
// work: no capability but those it keeps, no new privileges, and a filter of its system calls.
func TestTheProcessIsLockedDown(t *testing.T) {
	t.Parallel()
	b := &rig{fixture.BareWithout(t)}
	b.Node = environment.NodeAsShippedWithout(t, b.Manifests, "--http-endpoint="+b.HTTP)
	b.wantLockedDown()
	executable := b.executable()

	b.CreateConfigMap("web", map[string]string{"color": "red"})
	pods := b.ownedPods()
	for pod := range pods {
		b.Publish(pod)
	}
	for _, color := range []string{"green", "blue"} {
		b.UpdateConfigMap("web", map[string]string{"color": color, color: "1"})
		for pod, want := range pods {
			b.WantFile(pod, "color", color)
			b.WantFile(pod, color, "1")
			if got := b.owners(pod, ".", "color"); got != want {
				t.Errorf("after the update to %s, %s has %s, want %s", color, pod.Name, got, want)
			}
		}
	}
	for pod := range pods {
		b.Unpublish(pod)
		b.WantNoFile(pod, ".")
	}
	b.wantLockedDown()
	if now := b.executable(); now != executable {
		t.Errorf("the driver's program was %s and is %s", executable, now)
	}
}

// ownedPods returns pods whose volumes belong to somebody, and what owners says of each. In an ordinary user's namespace
// there is nobody but root.
func (b *rig) ownedPods() map[*corev1.Pod]string {
	b.T.Helper()
	ids, err := os.ReadFile("/proc/self/uid_map")
	must(b.T, err)
	uid, gid := 0, int64(0)
	if strings.Contains(string(ids), "4294967295") {
		uid, gid = 1000, 2000
	}
	pods := map[*corev1.Pod]string{}
	for _, policy := range []string{"Atomic", "Replace", "InPlace"} {
		attributes := map[string]string{"configMap": "web", "updatePolicy": policy, "defaultMode": "0400"}
		ofGroup := b.Pod("group-"+strings.ToLower(policy), attributes)
		ofUser := b.Pod("user-"+strings.ToLower(policy), maps.Clone(attributes))
		ofUser.Spec.Volumes[0].CSI.VolumeAttributes["defaultUser"] = strconv.Itoa(uid)
		for _, pod := range []*corev1.Pod{ofGroup, ofUser} {
			pod.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: &gid}
		}
		pods[ofGroup] = fmt.Sprintf("0:%d 42755, 0:%d 100440", gid, gid)
		pods[ofUser] = fmt.Sprintf("%d:%d 40755, %d:%d 100400", uid, gid, uid, gid)
	}
	return pods
}

// owners returns owner, group, kind and mode of names in the pod's volume.
func (b *rig) owners(pod *corev1.Pod, names ...string) string {
	b.T.Helper()
	var all []string
	for _, name := range names {
		var st unix.Stat_t
		must(b.T, unix.Stat(b.Path(pod, name), &st))
		all = append(all, fmt.Sprintf("%d:%d %o", st.Uid, st.Gid, st.Mode))
	}
	return strings.Join(all, ", ")
}

// executable returns which file the driver's process runs.
func (b *rig) executable() string {
	b.T.Helper()
	path, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", b.Node.PID()))
	if err != nil || filepath.Base(path) != "liveconfig-driver" {
		b.T.Fatalf("the driver's process runs %q, %v", path, err)
	}
	return path
}

// wantLockedDown checks every thread of the driver.
func (b *rig) wantLockedDown() {
	b.T.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", b.Node.PID()))
	must(b.T, err)
	seen := 0
	for _, task := range tasks {
		text, err := os.ReadFile(task)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ESRCH): // The thread has ended.
			continue
		case err != nil:
			b.T.Fatal(err)
		}
		seen++
		if err := lockedDown(string(text)); err != nil {
			b.T.Errorf("%s: %v", task, err)
		}
	}
	if seen < 3 {
		b.T.Errorf("%d threads were looked at, want at least 3", seen)
	}
}

// lockedDown says what a thread can do that it should not, by its status.
func lockedDown(status string) error {
	var wrong []error
	for name, want := range map[string]uint64{
		"CapInh": 0, "CapPrm": keeps, "CapEff": keeps, "CapBnd": keeps, "CapAmb": 0, "NoNewPrivs": 1, "Seccomp": 2,
	} {
		_, rest, _ := strings.Cut(status, "\n"+name+":")
		value, _, _ := strings.Cut(rest, "\n")
		got, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
		if err != nil || got != want {
			wrong = append(wrong, fmt.Errorf("%s is %q, want %x", name, strings.TrimSpace(value), want))
		}
	}
	return errors.Join(wrong...)
}
