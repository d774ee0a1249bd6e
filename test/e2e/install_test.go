package e2e_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/realnode"
)

// uninstall is what deploy/README.md has people type.
const uninstall = `helm uninstall liveconfig --namespace liveconfig-system
kubectl delete namespace liveconfig-system`

// TestUninstallAndInstallByKustomize takes the driver away by the words of deploy/README.md, installs it by its other way,
// and ends where it began.
func TestUninstallAndInstallByKustomize(t *testing.T) {
	s := on(t, realnode.Containerd2())
	s.wantWords(t, "deploy/README.md", strings.Split(uninstall, "\n")...)
	s.run(t, s.Repo(), uninstall)
	s.wantNoDriver(t)

	install, err := s.CodeAfter("deploy/README.md", "With kustomize, by a folder of your own beside the checkout `liveconfig`:")
	expect.NoError(t, err)
	checkout := filepath.Join(t.TempDir(), "liveconfig")
	expect.NoError(t, os.CopyFS(filepath.Join(checkout, "deploy"), os.DirFS(filepath.Join(s.Repo(), "deploy"))))
	s.run(t, checkout, install)
	t.Run("a volume", func(t *testing.T) {
		namespace := s.namespace(t)
		s.putConfigMap(t, namespace, "web", map[string]string{"key": "old"})
		pod := s.start(t, boxPod(namespace, "web", map[string]string{"configMap": "web"}))
		s.putConfigMap(t, namespace, "web", map[string]string{"key": "new"})
		s.wantFile(t, pod, "", mountPath+"/key", "new")
	})
	s.wantWords(t, "deploy/README.md", "kubectl delete -k ../my-cluster")
	s.run(t, checkout, "kubectl delete -k ../my-cluster")
	s.wantNoDriver(t)
	expect.NoError(t, s.Install(t.Context()))
}

// TestPodThatIsDeletedWithoutADriver stays, with what kubectl prints by docs/troubleshooting.md, and goes when a
// driver runs again.
func TestPodThatIsDeletedWithoutADriver(t *testing.T) {
	s := on(t, realnode.Containerd2())
	namespace := s.namespace(t)
	s.putConfigMap(t, namespace, "web", map[string]string{"key": "value"})
	pod := s.start(t, boxPod(namespace, "web", map[string]string{"configMap": "web"}))
	s.run(t, s.Repo(), uninstall)
	s.run(t, s.Repo(), "kubectl delete pod --wait=false --namespace "+namespace+" "+pod.Name)
	status := func() (string, error) {
		line, err := s.Kubectl(t.Context(), "get", "pods", "--no-headers", "--ignore-not-found", "--namespace", namespace)
		if fields := strings.Fields(line); len(fields) > 2 {
			return fields[2], err
		}
		return "", err
	}
	expect.Eventually(t, goneTimeout, func() error {
		got, err := status()
		if got != "Completed" && got != "Error" {
			return errors.Join(err, fmt.Errorf("the pod shows %q, want Completed or Error", got))
		}
		return err
	})
	expect.NoError(t, s.Install(t.Context()))
	expect.Eventually(t, goneTimeout, func() error {
		got, err := status()
		if got != "" {
			return fmt.Errorf("the pod still shows %s", got)
		}
		return err
	})
}

// run runs a script in a folder.
func (s *site) run(t testing.TB, folder, script string) {
	t.Helper()
	if output, err := s.ShellIn(t.Context(), folder, script); err != nil {
		t.Fatal(err)
	} else if testing.Verbose() {
		t.Log(output)
	}
}

// wantWords checks that a page of this repository has what the test is about to do.
func (s *site) wantWords(t testing.TB, page string, words ...string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.Repo(), page))
	expect.NoError(t, err)
	for _, w := range words {
		if !strings.Contains(string(text), w) {
			t.Errorf("%s does not say %q", page, w)
		}
	}
}

// wantNoDriver waits until nothing of the driver's is left in the cluster, and on the node only empty directories.
func (s *site) wantNoDriver(t testing.TB) {
	t.Helper()
	expect.Eventually(t, goneTimeout, func() error {
		kinds := "csidrivers,clusterroles,clusterrolebindings,priorityclasses,namespaces"
		names, err := s.Kubectl(t.Context(), "get", kinds, "--output=name")
		if err != nil {
			return err
		}
		if strings.Contains(names, "liveconfig") {
			return fmt.Errorf("objects are left:\n%s", names)
		}
		node, err := s.Client().StorageV1().CSINodes().Get(t.Context(), realnode.NodeName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(node.Spec.Drivers) > 0 {
			return fmt.Errorf("the kubelet still knows %s", node.Spec.Drivers[0].Name)
		}
		return s.wantNoFiles()
	})
}

func (s *site) wantNoFiles() error {
	for _, dir := range []string{
		"var/lib/kubelet/plugins/csi.liveconfig.internal", "var/lib/kubelet/plugins_registry", "run/csi.liveconfig.internal/volumes",
	} {
		entries, err := os.ReadDir(filepath.Join(s.Root(), dir))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if len(entries) > 0 {
			return fmt.Errorf("the node still has %s in %s", entries[0].Name(), dir)
		}
	}
	return nil
}
