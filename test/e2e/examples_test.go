package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/machine"
)

// exampleCase says what an example comes to.
type exampleCase struct {
	// app is the value of app.kubernetes.io/name by which its pod is found.
	app string
	// namespaces are those that its manifests name, the pod's first. None: it goes where kubectl's context leads.
	namespaces []string
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
	// prints are what commands print, log what the program says by itself.
	prints map[string]string
	log    []string
}

// TestExamples types what the README of the examples says, and looks into the containers. Programs are stand-ins, see
// importExampleImages.
func TestExamples(t *testing.T) { //nolint:tparallel // It shares the node with tests that stop parts of it.
	s := on(t, machine.Containerd2())
	entries, err := os.ReadDir(filepath.Join(s.Repo(), "examples"))
	if err != nil {
		t.Fatal(err)
	}
	var folders []string
	for _, entry := range entries {
		elsewhere := []string{rolloutExample, envExample, pluginExample} // They have tests of their own.
		if entry.IsDir() && !slices.Contains(elsewhere, entry.Name()) {
			folders = append(folders, entry.Name())
		}
	}
	cases := exampleCases()
	if diff := cmp.Diff(slices.Sorted(maps.Keys(cases)), folders); diff != "" {
		t.Fatalf("the folders of examples are not those with a case (-cases +folders):\n%s", diff)
	}
	s.importExampleImages(t)
	runExamples(t, s, cases)
}

// runExamples lets two of them run at once: the node is small.
func runExamples(t *testing.T, s *site, cases map[string]exampleCase) {
	t.Helper()
	for folder, c := range cases {
		t.Run(folder, func(t *testing.T) {
			t.Parallel()
			e := s.example(t, folder)
			if len(c.namespaces) > 0 {
				e.namespace = c.namespaces[0]
				t.Cleanup(func() { s.removeNamespaces(t, c.namespaces) })
			}
			e.wantAllFilesTyped(t)
			for i, want := range c.after {
				e.step(t)
				pod := e.pod(t, c.app)
				if i == 0 {
					e.wantUsers(t, pod, c)
				}
				e.wantSeen(t, pod, want)
			}
			if len(e.steps) > 0 {
				t.Errorf("nobody looks after these commands of the README:\n%s", strings.Join(e.steps, "\n"))
			}
		})
	}
}

// removeNamespaces removes what an example made outside of its test's own namespace, and waits until it can be made again.
func (s *site) removeNamespaces(t *testing.T, names []string) {
	t.Helper()
	ctx, namespaces := context.Background(), s.Client().CoreV1().Namespaces()
	for _, name := range names {
		s.wantPodsGone(t, name)
		if err := namespaces.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	}
	for _, name := range names {
		eventually(t, goneTimeout, func() error {
			_, err := namespaces.Get(ctx, name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return errors.Join(fmt.Errorf("namespace %s is still there", name), err)
		})
	}
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
		if err != nil {
			t.Fatal(err)
		}
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
