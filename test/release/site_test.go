package release

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	kit "github.com/liveconfig-csi/liveconfig/test/kit/fixture"
	"github.com/liveconfig-csi/liveconfig/test/kit/process"
)

// soon is how long something may take that takes milliseconds when nothing else runs on the machine.
const soon = kit.Soon

// site is a node with its driver, a namespace, and the controller that works in it.
type site struct {
	*kit.Fixture
	binary, kubeconfig string
	before             []string // The arguments before those of the controller.
	log                string
	process            *process.Process
	pods               []*corev1.Pod
	also               string        // Another namespace in which the controller works; empty for none.
	patience           time.Duration // How long something may take, if that is longer than soon.
}

var installing sync.Mutex // One test applies deploy/controller at a time.

// newSite returns a site with a running controller.
func newSite(t *testing.T) *site {
	t.Helper()
	s := newIdleSite(t, environment.Controller(t))
	s.start()
	return s
}

// newIdleSite returns a site whose controller does not run yet.
func newIdleSite(t *testing.T, program string) *site {
	t.Helper()
	return newIdleSiteOf(t, kit.New(t), program)
}

// newIdleSiteOf returns a site in the namespace and with the node of a fixture.
func newIdleSiteOf(t *testing.T, b *kit.Fixture, program string) *site {
	t.Helper()
	s := &site{Fixture: b, binary: program, log: filepath.Join(t.TempDir(), "controller.log")}
	repo, err := environment.Repo()
	expect.NoError(t, err)
	s.kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	func() {
		installing.Lock()
		defer installing.Unlock()
		_, err = s.Cluster.Apply(t.Context(), filepath.Join(repo, "deploy", "controller"))
		expect.NoError(t, err)
	}()
	expect.NoError(t, s.Cluster.WriteServiceAccountKubeconfig(t.Context(), s.kubeconfig, "liveconfig-system", "liveconfig-controller"))
	t.Cleanup(func() {
		s.stop()
		if t.Failed() {
			t.Logf("the controller's log ends with:\n%s", process.Tail(s.log, 16<<10))
		}
	})
	return s
}

// start starts the controller.
func (s *site) start() {
	s.T.Helper()
	p, err := process.Start(context.WithoutCancel(s.T.Context()), process.Config{Path: s.binary, LogFile: s.log, Args: slices.Concat(s.before, []string{
		"--kubeconfig=" + s.kubeconfig, "--namespaces=" + strings.Trim(s.Namespace+","+s.also, ","), "--leader-elect=false", "--quiet-period=300ms", "-v=4",
	})})
	expect.NoError(s.T, err)
	s.process = p
}

// stop ends the controller cleanly.
func (s *site) stop() {
	s.T.Helper()
	if s.process == nil {
		return
	}
	if err := s.process.Stop(10 * time.Second); err != nil {
		s.T.Errorf("stop the controller: %v", err)
	}
	s.process = nil
}

// kill ends the controller by SIGKILL.
func (s *site) kill() {
	s.T.Helper()
	expect.NoError(s.T, s.process.Kill())
	s.process = nil
}

func (s *site) eventually(check func() error) {
	s.T.Helper()
	expect.Eventually(s.T, max(soon, s.patience), check)
}

// create creates a ConfigMap that is released.
func (s *site) create(name, annotation string, data map[string]string) {
	s.T.Helper()
	_, err := s.ConfigMaps().Create(s.T.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{release.Annotation: annotation}}, Data: kit.Marked(data),
	}, metav1.CreateOptions{})
	expect.NoError(s.T, err)
	s.eventually(func() error {
		_, err := s.ConfigMaps().Get(s.T.Context(), name+release.Suffix, metav1.GetOptions{})
		return err
	})
}

// edit changes the data of a ConfigMap.
func (s *site) edit(name string, data map[string]string) {
	s.T.Helper()
	m, err := s.ConfigMaps().Get(s.T.Context(), name, metav1.GetOptions{})
	expect.NoError(s.T, err)
	m.Data = kit.Marked(data)
	_, err = s.ConfigMaps().Update(s.T.Context(), m, metav1.UpdateOptions{})
	expect.NoError(s.T, err)
}

// run makes a pod that runs on the node and is ready.
func (s *site) run(name string, attributes map[string]string) {
	s.T.Helper()
	s.pods = append(s.pods, s.publish(name, attributes))
}

// publish is run for a pod that does not belong to the site's pods yet.
func (s *site) publish(name string, attributes map[string]string) *corev1.Pod {
	s.T.Helper()
	pods := s.Cluster.Client().CoreV1().Pods(s.Namespace)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			ServiceAccountName: "default", NodeName: "node", Containers: []corev1.Container{{Name: "app", Image: "app"}},
		},
	}
	kit.AddVolume(pod, kit.VolumeName, attributes)
	pod, err := pods.Create(s.T.Context(), pod, metav1.CreateOptions{})
	expect.NoError(s.T, err)
	s.setStatus(name, corev1.ConditionTrue, 0)
	s.T.Cleanup(func() { s.Unpublish(pod) })
	s.eventually(func() error { return s.TryPublish(s.T.Context(), pod) }) // A kubelet tries again, too.
	return pod
}

// replicas makes pods «web-0» and so on.
func (s *site) replicas(count int, attributes map[string]string) {
	s.T.Helper()
	for i := range count {
		s.run(fmt.Sprint("web-", i), attributes)
	}
}

// setStatus writes the status of a pod, as its kubelet would.
func (s *site) setStatus(name string, ready corev1.ConditionStatus, restarts int32) {
	s.T.Helper()
	expect.NoError(s.T, s.writeStatus(s.T.Context(), name, ready, restarts))
}

func (s *site) writeStatus(ctx context.Context, name string, ready corev1.ConditionStatus, restarts int32) error {
	status := fmt.Sprintf(`{"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": %q, "lastTransitionTime": %q}],
		"containerStatuses": [{"name": "app", "image": "app", "imageID": "app", "ready": true, "restartCount": %d}]}}`,
		ready, time.Now().UTC().Format(time.RFC3339), restarts)
	pods := s.Cluster.Client().CoreV1().Pods(s.Namespace)
	_, err := pods.Patch(ctx, name, types.StrategicMergePatchType, []byte(status), metav1.PatchOptions{}, "status")
	return err
}

// values counts the pods by the value of a file.
func (s *site) values(file string) (map[string]int, error) {
	values := map[string]int{}
	for _, pod := range s.pods {
		value, err := s.value(pod, file)
		if err != nil {
			return nil, err
		}
		values[value]++
	}
	return values, nil
}

// value returns the value of a file of a pod, without its mark.
func (s *site) value(pod *corev1.Pod, file string) (string, error) {
	for _, value := range []string{"1", "2", "3", "4", "5"} {
		if s.Holds(pod, file, value) == nil {
			return value, nil
		}
	}
	return "", fmt.Errorf("pod %s has an unknown value in %s", pod.Name, file)
}

// wantValues waits until so many pods have each value.
func (s *site) wantValues(file string, want map[string]int) {
	s.T.Helper()
	s.eventually(func() error {
		got, err := s.values(file)
		if err == nil && !maps.Equal(got, want) {
			err = fmt.Errorf("the pods have the values %v of %s, want %v", got, file, want)
		}
		return err
	})
}

// exposure returns what the stable copy of a ConfigMap has.
func (s *site) exposure(name string) (release.Exposure, error) {
	m, err := s.ConfigMaps().Get(s.T.Context(), name+release.Suffix, metav1.GetOptions{})
	if err != nil {
		return release.Exposure{}, err
	}
	return release.ParseExposure(m.Annotations[release.ExposureAnnotation])
}

// partners returns with which objects the stable copy of a ConfigMap was promoted.
func (s *site) partners(name string) release.Partners {
	s.T.Helper()
	m, err := s.ConfigMaps().Get(s.T.Context(), name+release.Suffix, metav1.GetOptions{})
	expect.NoError(s.T, err)
	return release.ParsePartners(m.Annotations[release.PartnersAnnotation])
}

// wantState waits until the release of «web» is in a state, and returns its exposure.
func (s *site) wantState(state release.State, step int) (e release.Exposure) {
	s.T.Helper()
	s.eventually(func() (err error) {
		e, err = s.exposure("web")
		if err == nil && (e.State != state || e.Step != step) {
			err = fmt.Errorf("the release is %s in step %d (%s), want %s in step %d", e.State, e.Step, e.Reason, state, step)
		}
		return err
	})
	return e
}

// wantEvent waits for an Event on a ConfigMap.
func (s *site) wantEvent(name, reason, text string) {
	s.T.Helper()
	s.eventually(func() error {
		events, err := s.Cluster.Client().CoreV1().Events(s.Namespace).List(s.T.Context(), metav1.ListOptions{
			FieldSelector: "involvedObject.name=" + name + ",reason=" + reason,
		})
		if err != nil {
			return err
		}
		var notes []string
		for _, e := range events.Items {
			notes = append(notes, e.Message)
		}
		if !slices.ContainsFunc(notes, func(note string) bool { return strings.Contains(note, text) }) {
			return fmt.Errorf("%s has the Events %s %q, want one with %q", name, reason, notes, text)
		}
		return nil
	})
}

// shown returns the pods that have a value in the file a.
func (s *site) shown(value string) (pods []*corev1.Pod) {
	for _, pod := range s.pods {
		if s.Holds(pod, "a", value) == nil {
			pods = append(pods, pod)
		}
	}
	return pods
}
