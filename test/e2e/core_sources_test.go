package e2e_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
)

// ignoreGone forgives what was removed between two looks.
func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// notIn fails when a file has a text.
func notIn(path, text string) error {
	data, err := os.ReadFile(path)
	if err == nil && strings.Contains(string(data), text) {
		err = fmt.Errorf("%s has %s", path, text)
	}
	return err
}

// eventNote waits for an Event on a pod that has a text, and returns what follows the text.
func (c core) eventNote(t *testing.T, pod *corev1.Pod, reason, text string) string {
	t.Helper()
	var after string
	expect.Eventually(t, startTimeout, func() error {
		selector := "involvedObject.uid=" + string(pod.UID) + ",reason=" + reason
		events, err := c.Client().CoreV1().Events(c.ns).List(t.Context(), metav1.ListOptions{FieldSelector: selector})
		if err != nil {
			return err
		}
		for _, e := range events.Items {
			var found bool
			if _, after, found = strings.Cut(e.Message, text); found {
				return nil
			}
		}
		return fmt.Errorf("no Event %s on pod %s has %q", reason, pod.Name, text)
	})
	return after
}

func (c core) deniedSecret() func() {
	t := c.t
	secrets := c.Client().CoreV1().Secrets(c.ns)
	secret := fixture.Secret("secret", map[string]string{"file": "one"})
	if _, err := secrets.Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "reader"}}
	if _, err := c.Client().CoreV1().ServiceAccounts(c.ns).Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod := boxPod(c.ns, "secret", map[string]string{"secret": "secret", "defaultMode": "0400"})
	pod.Spec.ServiceAccountName = "reader"
	pod = c.create(t, pod)
	return func() {
		grant := filepath.Join(t.TempDir(), "grant.yaml")
		if err := os.WriteFile(grant, []byte(c.eventNote(t, pod, "FailedMount", "to allow it, apply:\n")), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Kubectl(t.Context(), "apply", "-f", grant); err != nil {
			t.Fatal(err)
		}
		pod := c.awaitReady(t, pod)
		c.wantFile(t, pod, "", corePath, "one")
		c.wantOwner(t, pod, "", "0:0 400")
		secret.StringData["file"] = "two"
		if _, err := secrets.Update(t.Context(), secret, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		c.wantFile(t, pod, "", corePath, "two")
		c.wantOwner(t, pod, "", "0:0 400")
		c.wantOneMount(t, pod)
	}
}
