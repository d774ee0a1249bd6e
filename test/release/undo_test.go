package release

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	kit "github.com/liveconfig-csi/liveconfig/test/kit/fixture"
)

// watchForMixes looks for pods with different values in two files for a while. The returned function waits until it is over.
func (s *site) watchForMixes(one, two string, lasts time.Duration) (wait func()) {
	ctx, done := s.T.Context(), make(chan struct{})
	pods, mixed := s.pods, make(chan string, 1)
	go func() {
		defer close(done)
		for until := time.Now().Add(lasts); time.Now().Before(until) && ctx.Err() == nil; {
			for _, pod := range pods {
				a, errA := s.value(pod, "..data/"+one)
				b, errB := s.value(pod, "..data/"+two)
				again, errAgain := s.value(pod, "..data/"+one)
				if errA == nil && errB == nil && errAgain == nil && a == again && a != b {
					select {
					case mixed <- fmt.Sprintf("pod %s has %s=%s and %s=%s", pod.Name, one, a, two, b):
					default:
					}
				}
			}
		}
	}()
	return func() {
		s.T.Helper()
		<-done
		select {
		case text := <-mixed:
			s.T.Error(text)
		default:
		}
	}
}

// command runs the plugin and returns what it prints.
func (s *site) command(args ...string) (string, error) {
	s.T.Helper()
	kubeconfig := filepath.Join(s.T.TempDir(), "kubeconfig")
	expect.NoError(s.T, s.Cluster.WriteAdminKubeconfig(kubeconfig))
	out, err := exec.CommandContext(s.T.Context(), environment.Plugin(s.T), append([]string{"--kubeconfig=" + kubeconfig, "-n", s.Namespace}, args...)...).CombinedOutput()
	return string(out), err
}

func (s *site) commandOK(args ...string) {
	s.T.Helper()
	if out, err := s.command(args...); err != nil {
		s.T.Fatalf("%q: %v\n%s", args, err, out)
	}
}

// awaitKept waits until a value of «a» is kept as the stable one.
func (s *site) awaitKept(name, key, value string) {
	s.T.Helper()
	data := map[string][]byte{}
	for key, value := range kit.Marked(map[string]string{key: value}) {
		data[key] = []byte(value)
	}
	s.eventually(func() error {
		m, err := s.ConfigMaps().Get(s.T.Context(), name+release.FormerSuffix, metav1.GetOptions{})
		if err != nil {
			return err
		}
		former, err := release.ParseFormer(m.Annotations[release.FormerAnnotation])
		if newest, _ := former.Newest(); err == nil && newest.Digest != release.Digest(data) {
			err = fmt.Errorf("%v, want that %s=%s is kept", former, key, value)
		}
		return err
	})
}

// TestUndo takes a promoted edit back from all pods, again and again, and it does not come back by itself.
func TestUndo(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.create("web", "{steps: []}", map[string]string{"a": "1"})
	s.replicas(3, web)
	for _, value := range []string{"2", "3"} {
		s.awaitKept("web", "a", fmt.Sprint(value[0]-'1'))
		s.edit("web", map[string]string{"a": value})
		s.wantValues("a", map[string]int{value: 3})
	}
	s.awaitKept("web", "a", "3")
	s.commandOK("release", "undo", "configmap/web", "--reason", "latency is up")
	s.wantValues("a", map[string]int{"2": 3})
	e := s.wantState(release.Reverted, 0)
	if !strings.HasPrefix(e.Reason, "undone by ") || !strings.HasSuffix(e.Reason, ": latency is up") {
		t.Errorf("the reason is %q", e.Reason)
	}
	if out, err := s.command("release", "undo", "configmap/web"); err == nil || !strings.Contains(out, "the edit is taken back already") {
		t.Errorf("to undo it twice = %v: %s", err, out)
	}
	s.awaitKept("web", "a", "2")
	expect.NoError(t, s.ConfigMaps().Delete(t.Context(), "web.stable", metav1.DeleteOptions{}))
	s.kill()
	s.start()
	s.wantState(release.Reverted, 0) // Also of a copy that was made again.
	s.wantValues("a", map[string]int{"2": 3})
	s.edit("web", map[string]string{"a": "2"}) // The owner takes it back too.
	s.wantState("", 0)
	s.commandOK("release", "undo", "configmap/web")
	s.wantValues("a", map[string]int{"1": 3})
	s.edit("web", map[string]string{"a": "4"})
	s.wantValues("a", map[string]int{"4": 3})
	expect.NoError(t, s.ConfigMaps().Delete(t.Context(), "web.former", metav1.DeleteOptions{}))
	s.awaitKept("web", "a", "4")
	if out, err := s.command("release", "undo", "configmap/web"); err == nil || !strings.Contains(out, "no content that was stable before is kept") {
		t.Errorf("to undo what nothing is kept of = %v: %s", err, out)
	}
}

// TestUndoTogether: what was promoted together is taken back together, and no pod has half of it.
func TestUndoTogether(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const annotation = "{group: app, steps: []}"
	s.create("one", annotation, map[string]string{"a": "1"})
	s.create("two", annotation, map[string]string{"b": "1"})
	s.replicas(4, map[string]string{"sources": "[{configMap: {name: one}}, {configMap: {name: two}}]"})
	s.awaitKept("one", "a", "1")
	s.awaitKept("two", "b", "1")
	s.edit("one", map[string]string{"a": "2"})
	s.edit("two", map[string]string{"b": "2"})
	s.wantValues("a", map[string]int{"2": 4})
	s.wantValues("b", map[string]int{"2": 4})
	s.awaitKept("one", "a", "2")
	s.awaitKept("two", "b", "2")
	isMixed := s.watchForMixes("a", "b", 3*time.Second)
	s.commandOK("release", "undo", "configmap/two")
	s.wantValues("a", map[string]int{"1": 4})
	s.wantValues("b", map[string]int{"1": 4})
	isMixed()
	s.commandOK("release", "promote", "configmap/one")
	s.wantValues("a", map[string]int{"2": 4})
	s.wantValues("b", map[string]int{"2": 4})
}
