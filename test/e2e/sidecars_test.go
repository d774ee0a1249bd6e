package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/realnode"
)

// TestWithSidecars has the chart put the CSI project's sidecars beside the driver, which then neither registers itself nor
// answers the kubelet's liveness probe. The sidecars' programs stand in for the real ones, which no Go module proxy has.
func TestWithSidecars(t *testing.T) {
	s := on(t, realnode.Containerd2())
	s.importSidecars(t)
	upgrade := func(values string) {
		t.Helper()
		before := s.driverPod(t)
		s.run(t, s.Repo(), "helm upgrade liveconfig deploy/chart --namespace liveconfig-system --reset-then-reuse-values "+values+`
kubectl -n liveconfig-system rollout status daemonset/liveconfig-driver`)
		s.awaitDriverAfter(t, before)
	}
	upgrade("--set registrar.enabled=true,livenessProbe.enabled=true")
	defer upgrade("--set registrar.enabled=false,livenessProbe.enabled=false")
	driver, err := s.Client().CoreV1().Pods(driverNamespace).Get(t.Context(), s.driverPod(t), metav1.GetOptions{})
	expect.NoError(t, err)
	if got := len(driver.Spec.Containers); got != 3 {
		t.Errorf("the driver's pod has %d containers, want 3", got)
	}
	if args := strings.Join(driver.Spec.Containers[0].Args, " "); strings.Contains(args, "registration") {
		t.Errorf("the driver registers itself: %s", args)
	}
	t.Run("pods", func(t *testing.T) {
		st := s.steadyPods(t)
		s.killDriver(t) // The registration is the sidecar's, and stays.
		st.edit(t)
		st.goOn(t)
		late := s.start(t, boxPod(st.namespace, "late", map[string]string{"configMap": "content"}))
		s.wantFile(t, late, "", mountPath+"/version", "3")
	})
}

// importSidecars gives the node programs under the names of the images that the chart names.
func (s *site) importSidecars(t *testing.T) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "sidecar")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags=-s -w", "-o", program, "./kit/realnode/sidecar")
	build.Dir = filepath.Join(s.Repo(), "test")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the sidecars: %v\n%s", err, output)
	}
	text, err := os.ReadFile(filepath.Join(s.Repo(), "deploy/chart/values.yaml"))
	expect.NoError(t, err)
	var values map[string]struct {
		Image struct{ Repository, Tag string }
	}
	_ = yaml.Unmarshal(text, &values) // Other values are no objects.
	var images []realnode.FakeImage
	for _, sidecar := range []string{"registrar", "livenessProbe"} {
		if image := values[sidecar].Image; image.Tag != "" {
			images = append(images, realnode.FakeImage{
				Ref: image.Repository + ":" + image.Tag, Binary: program, Entrypoint: []string{"/bin/sidecar"},
			})
		}
	}
	if len(images) != 2 {
		t.Fatalf("the chart's values name %d images of sidecars, want 2", len(images))
	}
	expect.NoError(t, s.ImportStandIns(t.Context(), images...))
}
