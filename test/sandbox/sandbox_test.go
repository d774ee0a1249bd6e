package main

import (
	"io"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// namespaces prints the three of the shell in one line.
const namespaces = `echo namespaces: $(readlink /proc/self/ns/mnt /proc/self/ns/net /proc/self/ns/pid) .`

// namespacesIn returns the namespaces of that line.
func namespacesIn(text string) []string {
	return regexp.MustCompile(`(mnt|net|pid):\[\d+\]`).FindAllString(text, -1)
}

// TestCommand runs an example by one command line. The sandbox returns its exit status and leaves
// nothing behind.
//
// It is not parallel, as the others: one cluster at a time is enough for a small machine.
func TestCommand(t *testing.T) {
	p := newProgram(t, t.TempDir(), namespaces+`
set -eu
kubectl get csidriver,nodes -o name
kubectl -n liveconfig-system get deployment liveconfig-controller -o 'jsonpath={.status.readyReplicas}{"\n"}'
kubectl apply -f examples/short-form/
kubectl wait --for=condition=Ready pod/web --timeout=2m
kubectl exec web -- curl --silent http://localhost:8080/
kubectl liveconfig status pod/web
helm list --all-namespaces --short
sleep 1000 &
exit 7`)
	p.start(t)
	p.stdout.await(t, "namespaces: ")
	inner := p.inner(t)
	p.wantStatus(t, 7)
	want := []string{
		"csidriver.storage.k8s.io/csi.liveconfig.internal\nnode/node\n2\n", "pod/web condition met\n",
		"<p>", "configmap/web-content", "1 of 1", "liveconfig\n",
	}
	for text := p.stdout.text(); len(want) > 0; want = want[1:] {
		var found bool
		if _, text, found = strings.Cut(text, want[0]); !found {
			t.Fatalf("it does not print %q where it should", want[0])
		}
	}
	for _, what := range []string{"the node is ready", "the driver is installed", "the controller is installed"} {
		stage := what + " after "
		if !strings.Contains(p.stderr.text(), stage) || strings.Contains(p.stdout.text(), stage) {
			t.Errorf("%q must be on stderr alone", stage)
		}
	}
	p.wantNoProcesses(t, namespacesIn(p.stdout.text()))
	p.wantNothing(t, inner)
}

// TestNothingOutlivesTheSandbox kills a sandbox whose shell reads a pipe: its processes end.
// SIGTERM ends a second sandbox while that starts. The second one removes the files of both.
func TestNothingOutlivesTheSandbox(t *testing.T) {
	p := newProgram(t, t.TempDir())
	stdin, err := p.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.start(t)
	if _, err := io.WriteString(stdin, "sleep 1000 &\n"+namespaces+"\n"); err != nil {
		t.Fatal(err)
	}
	p.stdout.await(t, " .\n")
	inner := p.inner(t)
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	p.wantStatus(t, -1)
	p.wantNoProcesses(t, namespacesIn(p.stdout.text()))

	next := newProgram(t, p.temp)
	next.start(t)
	next.stderr.await(t, "the node is ready after ")
	innerOfNext := next.inner(t)
	if err := next.Process.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	next.wantStatus(t, 128+int(unix.SIGTERM))
	if got, want := next.stderr.text(), "sandbox: ended by signal: terminated\n"; !strings.HasSuffix(got, want) {
		t.Errorf("it ends with %q, want %q", got, want)
	}
	next.wantNothing(t, inner)
	next.wantNothing(t, innerOfNext)
}
