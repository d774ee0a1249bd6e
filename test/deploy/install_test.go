package deploy

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilversion "k8s.io/apimachinery/pkg/util/version"

	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
)

// bench is a cluster and the user that works on it by hand.
type bench struct {
	*testing.T
	cluster    *cluster.Cluster
	kubeconfig string
}

func newBench(t *testing.T, c *cluster.Cluster) *bench {
	t.Helper()
	b := &bench{T: t, cluster: c, kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	if err := c.WriteAdminKubeconfig(b.kubeconfig); err != nil {
		t.Fatal(err)
	}
	return b
}

// types runs a line as somebody would type it in the checkout's root.
func (b *bench) types(line string) (string, error) {
	b.Helper()
	return run(b.T, []string{"KUBECONFIG=" + b.kubeconfig}, "bash", "-c", line)
}

// run is [bench.types] of a line that must not fail.
func (b *bench) run(line string) string {
	b.Helper()
	out, err := b.types(line)
	if err != nil {
		b.Fatalf("%s: %v\n%s", line, err, out)
	}
	return out
}

// wantObjects wants that all objects of a text are there.
func (b *bench) wantObjects(text string) {
	b.Helper()
	path := filepath.Join(b.TempDir(), "objects.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	b.run("kubectl get --filename " + path)
}

func (b *bench) csiDriver(name string) (*storagev1.CSIDriver, error) {
	return b.cluster.Client().StorageV1().CSIDrivers().Get(b.Context(), name, metav1.GetOptions{})
}

// wantTokens wants that the CSIDriver object asks for so many tokens.
func (b *bench) wantTokens(want int) {
	b.Helper()
	driver, err := b.csiDriver("csi.liveconfig.internal")
	if err != nil {
		b.Fatal(err)
	}
	inSecrets := driver.Spec.ServiceAccountTokenInSecrets != nil && *driver.Spec.ServiceAccountTokenInSecrets
	if got := len(driver.Spec.TokenRequests); got != want || inSecrets != (want > 0) {
		b.Errorf("the CSIDriver object asks for %d tokens, among secrets: %t; want %d", got, inSecrets, want)
	}
}

// installLines are the commands of deploy/README.md.
func installLines(t *testing.T) []string {
	t.Helper()
	found := regexp.MustCompile("(?s)```sh\n(kubectl apply -f deploy/base/namespace.yaml\n.*?)```").FindStringSubmatch(
		read(t, inRepo(t, "deploy", "README.md")))
	if found == nil {
		t.Fatal("deploy/README.md does not say how to install")
	}
	return strings.Split(strings.TrimSpace(found[1]), "\n")
}

// upgradeLine is the command of deploy/README.md for an upgrade.
func upgradeLine(t *testing.T) string {
	t.Helper()
	found := regexp.MustCompile("(?m)^(helm upgrade .*)$").FindStringSubmatch(read(t, inRepo(t, "deploy", "README.md")))
	if found == nil {
		t.Fatal("deploy/README.md does not say how to upgrade")
	}
	return found[1]
}

// TestLifeOfARelease installs the chart by deploy/README.md, changes it and removes it. No controller is there, so
// no pod comes of it.
func TestLifeOfARelease(t *testing.T) {
	t.Parallel()
	b := newBench(t, cluster.ForTest(t))
	lines := installLines(t)
	if len(lines) != 3 || lines[2] != "kubectl -n liveconfig-system rollout status daemonset/liveconfig-driver" {
		t.Fatalf("the lines are %q, want three, and that the last waits for the DaemonSet", lines)
	}
	b.run(lines[0])
	notes := b.run(lines[1])
	for _, want := range []string{"driver: csi.liveconfig.internal", "kubectl get csinode", "512Mi", "Before you uninstall"} {
		if !strings.Contains(notes, want) {
			t.Errorf("the notes do not say %s:\n%s", want, notes)
		}
	}
	b.run(strings.Replace(lines[2], "rollout status", "get", 1))
	b.wantObjects(template(t))
	b.wantTokens(1)

	const upgrade = "helm upgrade liveconfig deploy/chart --namespace liveconfig-system --set image.repository=registry.example.com/liveconfig"
	if out, err := b.types(upgrade + " --set identity.secret=driver"); err == nil || !strings.Contains(out, "'secret' not allowed") {
		t.Errorf("a typo is not said: %v\n%s", err, out)
	}
	b.wantTokens(1)
	b.run(upgrade + " --set identity.secrets=driver,service.enabled=true")
	b.wantTokens(0)
	b.run("kubectl -n liveconfig-system get service liveconfig-driver")
	b.run("helm rollback liveconfig 1 --namespace liveconfig-system")
	b.wantTokens(1)
	if _, err := b.types("kubectl -n liveconfig-system get service liveconfig-driver"); err == nil {
		t.Error("a rollback leaves what the upgrade made")
	}
	b.run(upgradeLine(t))
	b.wantTokens(1)
	b.besideIt()
	b.run("helm uninstall liveconfig --namespace liveconfig-system")
	b.wantGone()
}

// besideIt installs and removes a second driver in the same namespace, and finds the first one as it was.
func (b *bench) besideIt() {
	b.Helper()
	const line = "helm install other deploy/chart --namespace liveconfig-system --set image.repository=registry.example.com/liveconfig"
	if out, err := b.types(line); err == nil || !strings.Contains(out, `CSIDriver "csi.liveconfig.internal"`) {
		b.Errorf("a second driver of the same name is installed: %v\n%s", err, out)
	}
	b.run("helm uninstall other --namespace liveconfig-system --ignore-not-found")
	b.run(line + " --set driverName=csi.other.example")
	sets := b.run("kubectl -n liveconfig-system get daemonset -o custom-columns=S:.spec.selector.matchLabels --no-headers")
	if lines := strings.Split(strings.TrimSpace(sets), "\n"); len(lines) != 2 || lines[0] == lines[1] {
		b.Errorf("the DaemonSets select %q, want separate pods", lines)
	}
	b.run("helm uninstall other --namespace liveconfig-system")
	b.wantTokens(1)
	b.wantObjects(template(b.T))
}

// wantGone wants that nothing of the release is left but the namespace, which is not of the release.
func (b *bench) wantGone() {
	b.Helper()
	if _, err := b.csiDriver("csi.liveconfig.internal"); !apierrors.IsNotFound(err) {
		b.Errorf("the CSIDriver object: %v, want that it is not found", err)
	}
	const kinds = "daemonset,service,networkpolicy,serviceaccount,clusterrole,clusterrolebinding,csidriver,secret"
	got := b.run("kubectl -n liveconfig-system get " + kinds + " -l app.kubernetes.io/name=liveconfig,app.kubernetes.io/instance=liveconfig -o name")
	if diff := cmp.Diff("", got); diff != "" {
		b.Errorf("left behind (-want +got):\n%s", diff)
	}
	b.run("kubectl get namespace liveconfig-system")
}

// TestNotesOfTheAPIServer: the notes warn of what the version of the API server does with policies.
func TestNotesOfTheAPIServer(t *testing.T) {
	t.Parallel()
	c := cluster.ForTest(t)
	version, err := c.Client().Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	isOlder := utilversion.MustParseSemantic(version.GitVersion).LessThan(utilversion.MustParseSemantic("1.36.5"))
	out := newBench(t, c).run("helm install notes deploy/chart --namespace default --dry-run=server" +
		" --set image.repository=a,driverName=csi.notes.example,admission.volumes=true")
	_, notes, _ := strings.Cut(out, "\nNOTES:\n")
	if !strings.Contains(notes, "kubectl liveconfig adopt") || strings.Contains(notes, "Kubernetes 1.36.5 corrects") != isOlder {
		t.Errorf("the notes of Kubernetes %s warn of it: want %t\n%s", version.GitVersion, isOlder, notes)
	}
}

// TestNotes are those of each installation.
func TestNotes(t *testing.T) {
	t.Parallel()
	b := newBench(t, cluster.ForTest(t))
	tests := map[string]struct {
		set, want string
	}{
		"pods read ConfigMaps":     {"identity.configMaps=pod", "must be allowed to read the ConfigMap"},
		"the driver reads Secrets": {"identity.secrets=driver", "root on any node can read every Secret"},
		"some namespaces":          {"rbac.namespaces={a,b}", "in these namespaces: a, b."},
		"no limit":                 {"resources.limits=null", "none (volumes may take a quarter of the node's)"},
		"nothing about resources":  {"resources=null", "none (volumes may take a quarter of the node's)"},
		"its own driver's name":    {"driverName=csi.notes.example", "driver: csi.notes.example"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &bench{T: t, cluster: b.cluster, kubeconfig: b.kubeconfig}
			const line = "helm install notes deploy/chart --namespace notes --dry-run=client --set image.repository=a,driverName=csi.notes.example"
			out := b.run(line + " --set '" + tc.set + "'")
			_, notes, ok := strings.Cut(out, "\nNOTES:\n")
			if !ok || !strings.Contains(notes, tc.want) {
				t.Errorf("the notes do not say %q:\n%s", tc.want, out)
			}
		})
	}
}
