package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/page"
	"github.com/liveconfig-csi/liveconfig/test/kit/realnode"
)

// examplesPage is the page whose commands are typed.
const examplesPage = "examples/README.md"

// example is a folder of examples, on its way through the commands that its section of the page has.
type example struct {
	*site

	folder    string
	namespace string   // Where its pod is.
	dir       string   // Where commands run, with the context's namespace in a kubeconfig.
	steps     []string // The section's commands that are left, without the last.
	cleanUp   string   // The last commands of the section.
	shown     []string // The output in the section.
}

func (s *site) examplesPage(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.Repo(), examplesPage))
	expect.NoError(t, err)
	return string(text)
}

// example prepares a folder to be gone through in a namespace.
func (s *site) example(t *testing.T, folder, namespace string) *example {
	t.Helper()
	section := page.Section(s.examplesPage(t), folder)
	steps := page.Commands(section)
	last := len(steps) - 1
	if last < 1 {
		t.Fatalf("the section %s of %s has the commands %q, want some, and then one that cleans up", folder, examplesPage, steps)
	}
	e := &example{
		site: s, folder: folder, namespace: namespace, dir: t.TempDir(),
		steps: steps[:last], cleanUp: steps[last], shown: page.Shown(section),
	}
	expect.NoError(t, s.WriteAdminKubeconfig(filepath.Join(e.dir, "kubeconfig")))
	// The commands are for the root of the checkout, where they must not leave files.
	expect.NoError(t, os.Symlink(filepath.Join(s.Repo(), "examples"), filepath.Join(e.dir, "examples")))
	e.typeIn(t, "kubectl config set-context --current --namespace="+e.namespace)
	return e
}

// step types the next block of commands.
func (e *example) step(t *testing.T) {
	t.Helper()
	if len(e.steps) == 0 {
		t.Fatalf("the section %q of the README of the examples has no further commands", e.folder)
	}
	t.Log(e.typeIn(t, e.steps[0]))
	e.steps = e.steps[1:]
}

func (e *example) typeIn(t *testing.T, commands string) string {
	t.Helper()
	script := fmt.Sprintf("cd %q\nexport KUBECONFIG=$PWD/kubeconfig\n%s", e.dir, commands)
	out, err := e.Shell(t.Context(), script)
	expect.NoError(t, err)
	return out
}

// wantAllTyped checks that no commands of the section are left but those that clean up.
func (e *example) wantAllTyped(t *testing.T) {
	t.Helper()
	if len(e.steps) > 0 {
		t.Errorf("nobody looks after these commands of %s:\n%s", examplesPage, strings.Join(e.steps, "\n"))
	}
}

// wantAllFilesTyped checks that no file of the folder is forgotten by the commands.
func (e *example) wantAllFilesTyped(t *testing.T) {
	t.Helper()
	typed := strings.Fields(strings.Join(e.steps, "\n"))
	files, err := filepath.Glob(filepath.Join(e.Repo(), "examples", e.folder, "*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("the files of example %s: %q, %v", e.folder, files, err)
	}
	folder := "examples/" + e.folder + "/"
	for _, file := range files {
		if path := folder + filepath.Base(file); !slices.Contains(typed, folder) && !slices.Contains(typed, path) {
			t.Errorf("no command of the README applies %s", path)
		}
	}
}

// pod waits until there is one pod of an app, and it is ready.
func (e *example) pod(t *testing.T, app string) *corev1.Pod {
	t.Helper()
	var pod *corev1.Pod
	expect.Eventually(t, startTimeout, func() error {
		selector := metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=" + app}
		pods, err := e.Client().CoreV1().Pods(e.namespace).List(t.Context(), selector)
		if err != nil {
			return err
		}
		pods.Items = slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
		if len(pods.Items) != 1 {
			return fmt.Errorf("there are %d pods of %s in %s, want 1", len(pods.Items), app, e.namespace)
		}
		pod = &pods.Items[0]
		return ready(pod)
	})
	return pod
}

// wantLog waits until a pod's log has a text.
func (s *site) wantLog(t *testing.T, pod *corev1.Pod, text string) {
	t.Helper()
	expect.Eventually(t, changeTimeout, func() error {
		logs, err := s.Client().CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{}).DoRaw(t.Context())
		if err == nil && !strings.Contains(string(logs), text) {
			err = fmt.Errorf("the log of %s does not say %q:\n%s", pod.Name, text, logs)
		}
		return err
	})
}

// wantOutput waits until a command in a container prints something.
func (s *site) wantOutput(t *testing.T, pod *corev1.Pod, container, want string, command ...string) {
	t.Helper()
	expect.Eventually(t, changeTimeout, func() error {
		got, err := s.Exec(t.Context(), pod, container, command...)
		if err == nil && got != want {
			err = fmt.Errorf("%q in container %q of %s prints %q, want %q", command, container, pod.Name, got, want)
		}
		return err
	})
}

// wantRefused checks that a command in a container fails and prints why.
func (s *site) wantRefused(t *testing.T, pod *corev1.Pod, container, why string, command ...string) {
	t.Helper()
	out, err := s.Exec(t.Context(), pod, container, command...)
	if err == nil || !strings.Contains(err.Error(), why) {
		t.Errorf("%q in container %q of %s printed %q and ended with %v, want %q", command, container, pod.Name, out, err, why)
	}
}

// A user that nothing in the tests' pods belongs to, and the container that runs as it.
const (
	strangerUser = 4242
	stranger     = "stranger"
)

// addStranger adds a container of another user, with the mounts of the pod's first one, to a pod that runs.
func (s *site) addStranger(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	pods := s.Client().CoreV1().Pods(pod.Namespace)
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error { // With the kubelet, which writes the status.
		pod, err := pods.Get(t.Context(), pod.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		pod.Spec.EphemeralContainers = append(pod.Spec.EphemeralContainers, corev1.EphemeralContainer{
			EphemeralContainerCommon: corev1.EphemeralContainerCommon{
				Name: stranger, Image: realnode.BoxImage, Command: []string{"box", "pause"},
				VolumeMounts:    pod.Spec.Containers[0].VolumeMounts,
				SecurityContext: &corev1.SecurityContext{RunAsUser: new(int64(strangerUser)), RunAsGroup: new(int64(strangerUser))},
			},
		})
		_, err = pods.UpdateEphemeralContainers(t.Context(), pod.Name, pod, metav1.UpdateOptions{})
		return err
	})
	expect.NoError(t, err)
	expect.Eventually(t, startTimeout, func() error {
		got, err := pods.Get(t.Context(), pod.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range got.Status.EphemeralContainerStatuses {
			if c.Name == stranger && c.State.Running != nil {
				return nil
			}
		}
		return fmt.Errorf("the container %s of %s does not run: %v", stranger, pod.Name, got.Status.EphemeralContainerStatuses)
	})
	s.wantOutput(t, pod, stranger, fmt.Sprintln(strangerUser), "id", "-u")
}
