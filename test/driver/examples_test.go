package driver

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/page"
)

// TestExamplesHaveNamesOfTheirOwn: no two examples have an object of the same kind and name, also in different namespaces.
func TestExamplesHaveNamesOfTheirOwn(t *testing.T) {
	t.Parallel()
	repo, err := environment.Repo()
	expect.NoError(t, err)
	files, err := filepath.Glob(filepath.Join(repo, "examples", "*", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("the manifests of the examples: %q, %v", files, err)
	}
	owners := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		expect.NoError(t, err)
		for document := range strings.SplitSeq(string(text), "\n---\n") {
			var object metav1.PartialObjectMetadata
			if err := yaml.Unmarshal([]byte(document), &object); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			name, folder := object.Kind+" "+object.Name, filepath.Base(filepath.Dir(file))
			if other, ok := owners[name]; ok && other != folder {
				t.Errorf("examples %s and %s both have %s", other, folder, name)
			}
			owners[name] = folder
		}
	}
}

// withoutANode has kubectl do nothing where a command needs containers that run, and nothing waits for a controller.
const withoutANode = `timeout() { :; }
kubectl() { case " $* " in *" wait "*|*" exec "*|*" rollout "*) ;; *) command kubectl "$@" ;; esac; }
`

// TestExamplesOneAfterTheOther types the commands of all examples in the order of their page, in one namespace and without
// the last ones of each section, which clean up. Scripts, which have separate namespaces, are left to the tests with a node.
func TestExamplesOneAfterTheOther(t *testing.T) {
	t.Parallel()
	c := environment.Cluster(t)
	repo, err := environment.Repo()
	expect.NoError(t, err)
	markdown, err := os.ReadFile(filepath.Join(repo, "examples", "README.md"))
	expect.NoError(t, err)
	dir := t.TempDir()
	expect.NoError(t, c.WriteAdminKubeconfig(filepath.Join(dir, "kubeconfig")))
	// The commands are for the root of the checkout, where they must not leave files.
	expect.NoError(t, os.Symlink(filepath.Join(repo, "examples"), filepath.Join(dir, "examples")))
	typeIn := func(commands string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", withoutANode+commands)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "KUBECONFIG=kubeconfig", "HOME="+dir, "PATH="+filepath.Join(repo, "bin", "k8s")+":"+os.Getenv("PATH"))
		if output, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s\n%s", err, commands, output)
		}
	}
	typeIn("kubectl config set-context --current --namespace=" + cluster.NewNamespace(t, c))
	for _, folder := range page.Sections(string(markdown)) {
		commands := page.Commands(page.Section(string(markdown), folder))
		last := len(commands) - 1
		if last < 1 || !strings.HasPrefix(commands[last], "kubectl delete ") {
			t.Errorf("the last commands of section %s do not clean up: %q", folder, commands)
			continue
		}
		if !strings.HasPrefix(commands[0], "kubectl ") {
			continue
		}
		for _, block := range commands[:last] {
			typeIn(block)
		}
	}
}
