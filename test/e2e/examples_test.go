package e2e_test

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/page"
	"github.com/liveconfig-csi/liveconfig/test/kit/realnode"
)

// exampleCase is the result of an example.
type exampleCase struct {
	// app is the value of app.kubernetes.io/name by which its pod is found.
	app string
	// namespace is where the pod is if a manifest names one. Empty: where kubectl's context leads.
	namespace string
	// user is what the container runs as.
	user string
	// secret are files that no other user may read.
	secret []string
	// after is what the container has after each step of the README.
	after []look
}

// look is what is seen in a container.
type look struct {
	// files are contents by path; those in gone do not exist.
	files map[string]string
	gone  []string
	// secrets are the Secrets whose keys of the files' names are what files have, by path.
	secrets map[string]string
	// owners are uid:gid and mode by path.
	owners map[string]string
	// prints are what commands print, log what the program logs by itself.
	prints map[string]string
	log    []string
}

// TestExamples types the page of the examples from its top to its end in one namespace, as a reader does who cleans up only
// when everything has been tried. After each step it looks into the containers. Programs are stand-ins, see importExampleImages.
func TestExamples(t *testing.T) {
	s := on(t, realnode.Containerd2())
	s.wantSectionForEachFolder(t)
	s.importExampleImages(t)
	s.withController(t)
	namespace, plugin, cases := s.namespace(t), filepath.Dir(environment.Plugin(t)), exampleCases()
	var all []*example
	for _, folder := range page.Sections(s.examplesPage(t)) {
		e := s.example(t, folder, cmp.Or(cases[folder].namespace, namespace))
		all = append(all, e)
		t.Run(folder, func(t *testing.T) {
			switch folder {
			case releaseExample, rolloutExample, pluginExample:
				e.walkThrough(t, plugin)
			case reloadExample:
				e.goThrough(t, cases[folder])
				e.wantReasonOfRefusal(t)
			case envExample: // It has a separate test.
				for len(e.steps) > 0 {
					e.step(t)
				}
			default:
				e.goThrough(t, cases[folder])
			}
		})
	}
	t.Run("clean up", func(t *testing.T) { s.cleanUp(t, namespace, all, cases) })
}

// wantSectionForEachFolder checks that the page, the folders and the cases are about the same examples.
func (s *site) wantSectionForEachFolder(t *testing.T) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(s.Repo(), "examples"))
	expect.NoError(t, err)
	var folders []string
	for _, entry := range entries {
		if entry.IsDir() {
			folders = append(folders, entry.Name())
		}
	}
	sections := slices.Sorted(slices.Values(page.Sections(s.examplesPage(t))))
	if diff := gocmp.Diff(folders, sections); diff != "" {
		t.Errorf("sections of %s (-folders +sections):\n%s", examplesPage, diff)
	}
	known := slices.AppendSeq([]string{releaseExample, rolloutExample, pluginExample, envExample}, maps.Keys(exampleCases()))
	if diff := gocmp.Diff(folders, slices.Sorted(slices.Values(known))); diff != "" {
		t.Errorf("examples that the tests know (-folders +known):\n%s", diff)
	}
}

// goThrough types each step, and looks at its effect.
func (e *example) goThrough(t *testing.T, c exampleCase) {
	t.Helper()
	e.wantAllFilesTyped(t)
	for i, want := range c.after {
		e.step(t)
		pod := e.pod(t, c.app)
		if i == 0 {
			e.wantUsers(t, pod, c)
		}
		e.wantSeen(t, pod, want)
	}
	e.wantAllTyped(t)
}

// cleanUp checks that examples are as their last steps left them, whatever came after them. Then it types the last commands of
// all sections, and wants nothing of the examples to be left.
func (s *site) cleanUp(t *testing.T, namespace string, all []*example, cases map[string]exampleCase) {
	t.Helper()
	for _, e := range all {
		if c := cases[e.folder]; c.app != "" && len(e.steps) == 0 { // A single subtest does not type the others.
			e.wantSeen(t, e.pod(t, c.app), c.after[len(c.after)-1])
		}
	}
	for _, e := range all {
		t.Log(e.typeIn(t, e.cleanUp))
		if e.namespace != namespace {
			e.wantNoNamespace(t, e.namespace)
		}
	}
	const kinds = "pods,deployments,configmaps,secrets,serviceaccounts,roles,rolebindings"
	const want = "configmap/kube-root-ca.crt\nserviceaccount/default\n" // Kubernetes' own.
	expect.Eventually(t, goneTimeout, func() error {
		got, err := s.Kubectl(t.Context(), "--namespace="+namespace, "get", kinds, "--output=name")
		if err == nil && got != want {
			err = fmt.Errorf("after the clean-up there are\n%swant\n%s", got, want)
		}
		return err
	})
}

// wantUsers checks who the container is, and what another user may not do.
func (e *example) wantUsers(t *testing.T, pod *corev1.Pod, c exampleCase) {
	t.Helper()
	if got := strings.TrimSpace(e.exec(t, pod, "id", "-u")); got != c.user {
		t.Errorf("the container runs as user %s, want %s", got, c.user)
	}
	if len(c.secret) == 0 {
		return
	}
	e.addStranger(t, pod)
	for _, path := range c.secret {
		e.exec(t, pod, "cat", path)
		e.wantRefused(t, pod, stranger, "Permission denied", "cat", path)
	}
}

// wantSeen waits until a container has all that is wanted.
func (e *example) wantSeen(t *testing.T, pod *corev1.Pod, want look) {
	t.Helper()
	for path, content := range want.files {
		e.wantFile(t, pod, "", path, content)
	}
	for _, path := range want.gone {
		e.wantOutput(t, pod, "", "gone\n", "sh", "-c", "[ -e "+path+" ] || echo gone")
	}
	for path, name := range want.secrets {
		secret, err := e.Client().CoreV1().Secrets(e.namespace).Get(t.Context(), name, metav1.GetOptions{})
		expect.NoError(t, err)
		e.wantFile(t, pod, "", path, string(secret.Data[filepath.Base(path)]))
	}
	for path, owner := range want.owners {
		e.wantOutput(t, pod, "", owner+"\n", "stat", "-L", "-c", "%u:%g %a", path)
	}
	for command, output := range want.prints {
		e.wantOutput(t, pod, "", output, "sh", "-c", command)
	}
	for _, text := range want.log {
		e.wantLog(t, pod, text)
	}
	e.wantOneMount(t, pod)
}
