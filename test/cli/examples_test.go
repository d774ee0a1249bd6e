package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/liveconfig-csi/liveconfig/pkg/cli"
	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
)

// exampleTimeout is what an example may take. One that watches would never end.
const exampleTimeout = 20 * time.Second

// refusals are the examples that need a driver, a controller or a pod that runs, with what they print in a cluster without.
// All others end with 0.
func refusals() map[string]string {
	const (
		noDriver   = "the driver of node node-1 cannot be asked: no pod of it runs on the node"
		noRevision = "there is no revision"
	)
	return map[string]string{
		"kubectl liveconfig why pod/web-0         # where an edit stopped on its way into the pod": noDriver,
		"kubectl liveconfig why pod/web-0":                                                  noDriver,
		"kubectl liveconfig why pod/web-0 /etc/web/app.yaml":                                noDriver,
		"kubectl liveconfig rollout undo deployment/web":                                    noRevision,
		"kubectl liveconfig rollout undo deployment/web --to-revision=3 --dry-run":          noRevision,
		"kubectl liveconfig rollout undo statefulset/db --force":                            noRevision,
		"kubectl liveconfig rollout history deployment/web --revision=3":                    noRevision,
		"kubectl liveconfig rollout resume deployment/web":                                  "there is nothing to resume: it is not paused",
		"kubectl liveconfig adopt -A --kinds=configMaps.secrets -o json":                    `"missingRoles"`,
		"kubectl liveconfig preview deployment/web -f configmap.yaml --diff":                "+color: green", // A difference is its answer.
		"kubectl liveconfig release undo configmap/web --reason 'latency is up'":            "use kubectl liveconfig release revert configmap/web",
		"kubectl liveconfig adopt -n shop --kinds=configMaps.secrets --grant=apply --label": "the API server would convert nothing",
		"kubectl liveconfig release status configmap/web --watch":                           "0/1 pods",
	}
}

// TestExamplesOfHelp types the examples of each command's help, in their order, in a namespace with the objects that they
// name.
func TestExamplesOfHelp(t *testing.T) {
	t.Parallel()
	c := cluster.ForTest(t)
	if _, err := c.Apply(t.Context(), filepath.Join("testdata", "examples", "shared.yaml")); err != nil {
		t.Fatal(err)
	}
	examples, refused := 0, refusals()
	for _, command := range commands(cli.New(genericiooptions.IOStreams{In: strings.NewReader(""), Out: io.Discard, ErrOut: io.Discard})) {
		if command.Example == "" && !command.HasSubCommands() {
			t.Errorf("the help of %s has no example", command.CommandPath())
		}
		lines := strings.Split(strings.TrimSpace(command.Example), "\n")
		if command.Example == "" {
			continue
		}
		examples += len(lines)
		t.Run(command.CommandPath(), func(t *testing.T) {
			t.Parallel()
			s := newShell(t, c)
			for _, line := range lines {
				line = strings.TrimSpace(line)
				s.wantRun(t, line, refused[line])
			}
		})
	}
	if examples < 40 {
		t.Errorf("the help has %d examples, want 40 or more", examples)
	}
}

// shell is where examples are typed.
type shell struct {
	dir string
	env []string
}

// newShell makes a namespace with the objects of testdata/examples, and a folder with their files.
func newShell(t *testing.T, c *cluster.Cluster) *shell {
	t.Helper()
	repo, err := environment.Repo()
	if err != nil {
		t.Fatal(err)
	}
	namespace := "test-" + rand.String(8)
	if err := c.CreateNamespace(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	s := &shell{dir: t.TempDir()}
	kubeconfig := filepath.Join(s.dir, "kubeconfig")
	if err := writeKubeconfig(c, kubeconfig, namespace); err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(s.dir, ".local", "bin")
	if err := os.MkdirAll(bin, 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(s.dir, os.DirFS(filepath.Join("testdata", "examples"))); err != nil {
		t.Fatal(err)
	}
	path := strings.Join([]string{filepath.Join(repo, "bin", "k8s"), os.Getenv("PATH")}, string(filepath.ListSeparator))
	s.env = append(os.Environ(), "HOME="+s.dir, "KUBECONFIG="+kubeconfig, "PATH="+path, "GORACE=atexit_sleep_ms=0")
	if out, err := s.run(t.Context(), "kubectl apply -f cluster.yaml"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return s
}

func (s *shell) run(ctx context.Context, line string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, exampleTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-o", "pipefail", "-c", line)
	cmd.Dir, cmd.Env, cmd.WaitDelay = s.dir, s.env, time.Second
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// wantRun types a line. An empty refusal means that it ends with 0.
func (s *shell) wantRun(t *testing.T, line, refusal string) {
	t.Helper()
	out, err := s.run(t.Context(), line)
	got := "ends with 0"
	if err != nil {
		got = fmt.Sprintf("ends with %v", err)
	}
	// Other tests have pods too, also with mistakes, so each exit status with a table is an answer about all namespaces.
	if strings.HasSuffix(line, " status -A") && strings.Contains(out, "PODS   CURRENT") {
		err = nil
	}
	if (err != nil) != (refusal != "") || !strings.Contains(out, refusal) {
		t.Errorf("%s\n%s, want the refusal %q:\n%s", line, got, refusal, out)
	}
}
