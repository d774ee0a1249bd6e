package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/realnode"
)

const driverNamespace = "liveconfig-system"

// TestPodsOutliveTheirNode does to the node what happens to nodes. Running pods never lose a file, pods that start do so when
// the driver is back, deleted ones go, and no volume is ever mounted twice.
func TestPodsOutliveTheirNode(t *testing.T) {
	s := on(t, realnode.Containerd2())
	st := s.steadyPods(t)

	t.Run("the driver's pod is deleted", func(t *testing.T) {
		before := s.driverPod(t)
		expect.NoError(t, s.Client().CoreV1().Pods(driverNamespace).Delete(t.Context(), before, metav1.DeleteOptions{}))
		s.awaitDriverAfter(t, before)
		st.goOn(t)
	})
	t.Run("the driver is killed", func(t *testing.T) {
		s.killDriver(t)
		st.edit(t)
		st.goOn(t)
		s.driverPod(t)
	})
	t.Run("the driver is upgraded", func(t *testing.T) { st.upgrade(t) })
	t.Run("the driver is away while pods start and stop", func(t *testing.T) { st.withoutDriver(t) })
	t.Run("the kubelet is killed", func(t *testing.T) {
		expect.NoError(t, s.KillKubelet())
		st.edit(t)
		expect.NoError(t, s.StartKubelet(t.Context()))
		st.goOn(t)
	})
	t.Run("containerd is killed", func(t *testing.T) {
		expect.NoError(t, s.KillRuntime())
		st.edit(t)
		expect.NoError(t, s.StartRuntime(t.Context()))
		st.goOn(t)
	})
	t.Run("the node is rebooted", func(t *testing.T) { st.reboot(t) })
}

// TestPodThatMeetsAHungDriver gets the Event that docs/troubleshooting.md quotes, and starts when the driver goes on.
func TestPodThatMeetsAHungDriver(t *testing.T) {
	s := on(t, realnode.Containerd2())
	namespace := s.namespace(t)
	s.putConfigMap(t, namespace, "web", map[string]string{"key": "value"})
	s.driverPod(t)
	driver := s.driverProcess(t)
	if driver == 0 {
		t.Fatal("there is no driver to stop, or there are several")
	}
	expect.NoError(t, unix.Kill(driver, unix.SIGSTOP))
	t.Cleanup(func() { _ = unix.Kill(driver, unix.SIGCONT) }) // It fails if the kubelet has replaced the process.
	pod := s.create(t, boxPod(namespace, "web", map[string]string{"configMap": "web"}))
	for _, text := range []string{
		"kubernetes.io/csi: mounter.SetUpAt failed to determine if the node service has VOLUME_MOUNT_GROUP capability",
		"error reading server preface",
	} {
		s.wantWords(t, "docs/troubleshooting.md", text)
		s.wantEvent(t, pod, "FailedMount", text)
	}
	_ = unix.Kill(driver, unix.SIGCONT)
	s.awaitReady(t, pod)
}

// awaitDriverAfter waits until a pod of the driver is ready that is another one than before.
func (s *site) awaitDriverAfter(t testing.TB, before string) {
	t.Helper()
	expect.Eventually(t, startTimeout, func() error {
		pods, err := s.Client().CoreV1().Pods(driverNamespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, pod := range pods.Items {
			if pod.Name != before {
				return ready(&pod)
			}
		}
		return fmt.Errorf("there is no other pod of the driver than %s", before)
	})
}

// upgrade does the steps of deploy/README.md, with another version of the image.
func (st *steady) upgrade(t *testing.T) {
	t.Helper()
	const version = "0.1.1"
	before := st.driverPod(t)
	expect.NoError(t, st.ImportDriver(t.Context(), "registry.example.com/liveconfig:"+version))
	upgrade, err := st.CodeAfter("deploy/README.md", "## Upgrade")
	expect.NoError(t, err)
	upgrade = strings.ReplaceAll(upgrade, "image.tag=NEW", "image.tag="+version)
	if _, err := st.Shell(t.Context(), upgrade); err != nil {
		t.Fatal(err)
	}
	st.awaitDriverAfter(t, before)
	pod, err := st.Client().CoreV1().Pods(driverNamespace).Get(t.Context(), st.driverPod(t), metav1.GetOptions{})
	expect.NoError(t, err)
	if got, want := pod.Spec.Containers[0].Image, "registry.example.com/liveconfig:"+version; got != want {
		t.Errorf("the driver's image is %s, want %s", got, want)
	}
	st.goOn(t)
}

// withoutDriver takes the driver off the node, starts one pod, deletes another, and brings the driver back.
func (st *steady) withoutDriver(t *testing.T) {
	t.Helper()
	leaving := st.start(t, boxPod(st.namespace, "leaving", map[string]string{"configMap": "content"}))
	st.scheduleDriver(t, `{"liveconfig.test/nowhere": "yes"}`)
	expect.Eventually(t, goneTimeout, func() error {
		pids, err := st.Processes("liveconfig-driver")
		if err == nil && len(pids) > 0 {
			err = fmt.Errorf("the driver still runs")
		}
		return err
	})
	arriving := st.create(t, boxPod(st.namespace, "arriving", map[string]string{"configMap": "content"}))
	st.wantEvent(t, arriving, "FailedMount", "csi.liveconfig.internal")
	expect.NoError(t, st.Client().CoreV1().Pods(st.namespace).Delete(t.Context(), leaving.Name, metav1.DeleteOptions{}))
	st.checkWithoutDriver(t)
	st.scheduleDriver(t, `{"liveconfig.test/nowhere": null}`)
	arriving = st.awaitReady(t, arriving)
	st.delete(t, leaving)
	st.wantNothingOf(t, leaving)
	st.wantOneMount(t, arriving)
	st.goOn(t)
	st.delete(t, arriving)
}

// checkWithoutDriver is check without the driver's records, for while the driver is away.
func (st *steady) checkWithoutDriver(t testing.TB) {
	t.Helper()
	for _, pod := range st.pods {
		st.wantHeld(t, pod)
		st.wantOneMount(t, pod)
	}
}

// scheduleDriver changes on which nodes the driver runs.
func (s *site) scheduleDriver(t testing.TB, selector string) {
	t.Helper()
	patch := `{"spec": {"template": {"spec": {"nodeSelector": ` + selector + `}}}}`
	_, err := s.Client().AppsV1().DaemonSets(driverNamespace).Patch(t.Context(),
		"liveconfig-driver", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	expect.NoError(t, err)
}

// reboot pulls the node's plug. Containers start again, so what they have logged so far is looked at before.
func (st *steady) reboot(t *testing.T) {
	t.Helper()
	st.check(t)
	gone := st.start(t, boxPod(st.namespace, "gone", map[string]string{"configMap": "content"}))
	restarts := map[string]int32{}
	for _, pod := range st.pods {
		restarts[pod.Name] = pod.Status.ContainerStatuses[0].RestartCount
	}
	expect.NoError(t, st.PowerOff())
	st.edit(t)
	expect.NoError(t, st.Client().CoreV1().Pods(st.namespace).Delete(t.Context(), gone.Name, metav1.DeleteOptions{}))
	expect.NoError(t, st.PowerOn(t.Context()))
	for i, pod := range st.pods {
		st.pods[i] = st.awaitRestart(t, pod, restarts[pod.Name])
	}
	st.delete(t, gone)
	st.wantNothingOf(t, gone)
	st.goOn(t)
}

// awaitRestart waits until a pod is ready with a container that started later.
func (s *site) awaitRestart(t testing.TB, pod *corev1.Pod, restarts int32) *corev1.Pod {
	t.Helper()
	var got *corev1.Pod
	expect.Eventually(t, startTimeout, func() (err error) {
		if got, err = s.Client().CoreV1().Pods(pod.Namespace).Get(t.Context(), pod.Name, metav1.GetOptions{}); err != nil {
			return err
		}
		if n := got.Status.ContainerStatuses[0].RestartCount; n <= restarts {
			return fmt.Errorf("pod %s has restarted %d times, want more", pod.Name, n)
		}
		return ready(got)
	})
	return got
}
