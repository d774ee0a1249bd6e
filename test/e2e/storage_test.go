package e2e_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/realnode"
	"github.com/liveconfig-csi/liveconfig/test/kit/soak"
)

// TestStorageSuite runs Kubernetes' own tests of inline CSI volumes. Which do not apply, and why, stands in inline.yaml beside
// the program.
func TestStorageSuite(t *testing.T) {
	on(t, realnode.Containerd2()).runStorageSuite(t, "inline", "")
}

// slow are the tests of Kubernetes that watch for five minutes that a pod does not start.
const slow = `\[Slow\]`

// TestVolumeSuite runs Kubernetes' own tests of volumes of ConfigMaps and Secrets, as they are, while the driver's policy makes
// all these volumes the driver's. Volumes.yaml beside the program lists them. With LIVECONFIG_SOAK it runs the slow ones too, and
// before that all others without the policy.
func TestVolumeSuite(t *testing.T) {
	s := on(t, realnode.Containerd2())
	isLong := soak.Rounds(0, 1) == 1
	if isLong {
		s.runSideBySide(t, "control")
	}
	// Kubernetes' tests know of no Role, and the driver reads Secrets.
	const change = "helm upgrade liveconfig deploy/chart --wait --namespace " + driverNamespace + " --reset-then-reuse-values --set "
	t.Cleanup(func() {
		if _, err := s.Shell(context.Background(), change+"admission.volumes=false,identity.secrets=pod"); err != nil {
			t.Error(err)
		}
	})
	s.run(t, s.Repo(), change+"admission.volumes=true,identity.secrets=driver")
	s.runSideBySide(t, "volumes")
	if isLong {
		s.runSlowTests(t)
	}
}

// groups of Kubernetes' tests, by what their names begin with. A test waits most of its time for the kubelet.
var groups = []string{"Projected", "ConfigMap", "(Secrets|Subpath)"}

// runSideBySide runs the quick tests of a suite, each group in a process.
func (s *site) runSideBySide(t *testing.T, suite string) {
	t.Helper()
	s.importImages(t, suite)
	var running sync.WaitGroup
	for i, group := range groups {
		running.Go(func() {
			summary, err := s.storageSuite(t.Context(), suite, fmt.Sprintf(`--only='^\[sig-storage\] %s ' --but='%s' --junit=%q`,
				group, slow, filepath.Join(s.LogDir(), fmt.Sprintf("storage-e2e-%s-%d.xml", suite, i))))
			if err != nil {
				t.Error(err)
			}
			t.Log(summary)
		})
	}
	running.Wait()
}

// slowTest finds the slow tests in the list.
var slowTest = regexp.MustCompile(`(?m)^  - name: "(.*` + slow + `.*)"$`)

// runSlowTests runs the slow tests at once, each in a process.
func (s *site) runSlowTests(t *testing.T) {
	t.Helper()
	list, err := os.ReadFile(filepath.Join(s.Repo(), "test/tools/kubernetes/storage-e2e/volumes.yaml"))
	expect.NoError(t, err)
	found := slowTest.FindAllSubmatch(list, -1)
	if len(found) < 5 {
		t.Errorf("the list has %d slow tests, want more", len(found))
	}
	var running sync.WaitGroup
	for _, name := range found {
		running.Go(func() {
			if _, err := s.storageSuite(t.Context(), "volumes", "--only='^"+regexp.QuoteMeta(string(name[1]))+"$'"); err != nil {
				t.Error(err)
			}
		})
	}
	running.Wait()
}

func (s *site) runStorageSuite(t *testing.T, suite, choice string) {
	t.Helper()
	s.importImages(t, suite)
	summary, err := s.storageSuite(t.Context(), suite, fmt.Sprintf("%s --junit=%q", choice, filepath.Join(s.LogDir(), "storage-e2e-"+suite+".xml")))
	expect.NoError(t, err)
	t.Log(summary)
}

// importImages puts the images of a suite's pods onto the node.
func (s *site) importImages(t *testing.T, suite string) {
	t.Helper()
	images, err := s.Shell(t.Context(), "storage-e2e --suite="+suite+" --images")
	expect.NoError(t, err)
	for ref := range strings.FieldsSeq(images) {
		image := realnode.FakeImage{Ref: ref, Cmd: []string{"/bin/sh"}}
		if strings.Contains(ref, "/agnhost:") {
			image.Binary, image.Entrypoint, image.Cmd = filepath.Join(s.Repo(), "bin/k8s/agnhost"), []string{"/agnhost"}, []string{"pause"}
		}
		expect.NoError(t, s.ImportStandIns(t.Context(), image))
	}
}

// storageSuite runs tests for longer than other scripts may take.
func (s *site) storageSuite(ctx context.Context, suite, choice string) (summary string, err error) {
	env, err := s.Environ()
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, 25*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", fmt.Sprintf(`storage-e2e --suite=%s --kubeconfig="$KUBECONFIG" %s`, suite, choice))
	cmd.Env = env
	output, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", cmd, err, output)
	}
	return string(output), nil
}
