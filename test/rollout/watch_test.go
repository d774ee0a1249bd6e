package rollout

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
	"github.com/liveconfig-csi/liveconfig/test/kit/controllers"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/fakenodes"
)

// requested returns the requests of controllers about the site's namespace since a moment, each once: when it was complete, and a
// watch when it began.
func (s *site) requested(since time.Time) []cluster.Request {
	s.t.Helper()
	all, err := s.c.Requests(since)
	expect.NoError(s.t, err)
	return slices.DeleteFunc(all, func(r cluster.Request) bool {
		stage := cluster.StageComplete
		if r.Verb == "watch" {
			stage = cluster.StageStarted
		}
		return r.Namespace != s.namespace || r.Stage != stage || !strings.HasPrefix(r.UserAgent, "liveconfig-controller/")
	})
}

// counted returns how many requests there are by verb and resource, such as patch deployments.
func counted(requests []cluster.Request) map[string]int {
	counts := map[string]int{}
	for _, r := range requests {
		counts[r.Verb+" "+r.Resource]++
	}
	return counts
}

// table puts counts on lines, the largest first.
func table(counts map[string]int) string {
	var text strings.Builder
	for _, key := range slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	}) {
		fmt.Fprintf(&text, "%6d %s\n", counts[key], key)
	}
	return text.String()
}

// logged returns the lines of the controller's log that have a text.
func (s *site) logged(text string) []string {
	s.t.Helper()
	log, err := os.ReadFile(s.log)
	expect.NoError(s.t, err)
	var lines []string
	for line := range strings.Lines(string(log)) {
		if strings.Contains(line, text) {
			lines = append(lines, line)
		}
	}
	return lines
}

// TestBusyWorkload: edits get into the template while somebody else writes the Deployment fifty times a second, no write of
// either is lost, and the log stays short. Kubernetes' own controller, which may lose each race, then has its peace.
//
// Fault 33.
func TestBusyWorkload(t *testing.T) {
	t.Parallel()
	const edits, pause = 5, 20 * time.Millisecond
	s := newSite(t)
	s.putConfigMap("foo", "0")
	s.apply(deployment("web"))
	s.rolledOut("web", map[string]string{"configmap/foo": "0"})
	before, since := len(s.replicaSets()), time.Now()

	last := 0
	for i := range edits {
		value := fmt.Sprint(i + 1)
		last = s.turnedBeside(foo(value), pause, last)
		s.reached("deployment/web", foo(value))
	}
	took := time.Since(since)
	if got, want := s.deployment("web").Annotations["count"], fmt.Sprint(last); got != want {
		t.Errorf("the other writer's annotation = %q, want %q", got, want)
	}
	if got := len(s.replicaSets()) - before; got != edits {
		t.Errorf("%d edits made %d revisions", edits, got)
	}
	conflicts := 0
	for _, r := range s.requested(since) {
		if r.Verb == "patch" && r.Resource == "deployments" && r.Code == 409 {
			conflicts++
		}
	}
	t.Logf("%d edits in %s beside %d other writes: %d conflicts", edits, took.Round(time.Millisecond), last, conflicts)
	if lines := s.logged("level=ERROR"); len(lines) > 0 {
		t.Errorf("the log has %d errors, the first: %s", len(lines), lines[0])
	}
	isNone := func(line string) bool { // Of a source that is seen after its workload one more is due.
		return strings.Contains(line, "level=DEBUG") || strings.Contains(line, "configmap/foo does not exist")
	}
	if lines := slices.DeleteFunc(s.logged("namespace="+s.namespace), isNone); len(lines) != edits+1 {
		t.Errorf("the log has %d lines about workloads, want %d: %q", len(lines), edits+1, lines)
	}
}

// turnedBeside edits foo and waits until the template of web follows, while somebody counts in an annotation of web.
func (s *site) turnedBeside(values map[string]string, pause time.Duration, last int) int {
	s.t.Helper()
	ctx, stop := context.WithCancel(s.t.Context())
	defer stop()
	written := make(chan int, 1)
	go func() { written <- s.annotate(ctx, pause, last) }()
	s.putConfigMap("foo", values["configmap/foo"])
	s.turned("deployment/web", values)
	stop()
	return <-written
}

// annotate counts in an annotation of web, up from a value, until ctx ends. It returns the last one that was written.
func (s *site) annotate(ctx context.Context, pause time.Duration, last int) int {
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return last
		case <-ticker.C:
		}
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"count":"%d"}}}`, last+1)
		_, err := s.client.AppsV1().Deployments(s.namespace).
			Patch(context.WithoutCancel(ctx), "web", types.MergePatchType, patch, metav1.PatchOptions{})
		if err != nil {
			s.t.Errorf("annotate: %v", err)
			return last
		}
		last++
	}
}

// newSiteAlone returns a site, whose controller does not run yet, in a separate cluster.
func newSiteAlone(t *testing.T) *site {
	t.Helper()
	program(t)
	c, err := cluster.Start(t.Context(), cluster.Config{})
	expect.NoError(t, err)
	ends := func(stop func() error) {
		t.Cleanup(func() {
			if err := stop(); err != nil {
				t.Error(err)
			}
		})
	}
	ends(c.Stop)
	running, err := controllers.Start(t.Context(), controllers.Config{Cluster: c, Args: controllers.Unthrottled()})
	expect.NoError(t, err)
	ends(running.Stop)
	stage, err := fakenodes.Start(t.Context(), c, fakenodes.Config{})
	expect.NoError(t, err)
	t.Cleanup(stage.Stop)
	dir := t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	expect.NoError(t, install(t.Context(), c, kubeconfig))
	s := &site{t: t, c: c, client: c.Client(), stage: stage, namespace: cluster.NewNamespace(t, c), log: filepath.Join(dir, "controller.log")}
	s.args = []string{"--kubeconfig=" + kubeconfig, "--leader-elect=false", "--quiet-period=" + quiet.String(), "-v=4"}
	t.Cleanup(func() { s.stop() })
	return s
}

// TestAPIServerComesBack: while the API server is away nothing happens to pods. What is edited before the controller has found
// back is rolled out, once.
//
// Fault 33.
func TestAPIServerComesBack(t *testing.T) {
	t.Parallel()
	s := newSiteAlone(t)
	s.start()
	s.putConfigMap("foo", "0")
	s.apply(deployment("web"))
	s.rolledOut("web", map[string]string{"configmap/foo": "0"})
	ends := []func() error{s.c.StopAPIServer, s.c.KillAPIServer}
	for i, end := range ends {
		before, since := len(s.replicaSets()), time.Now()
		expect.NoError(t, end())
		expect.NoError(t, s.c.StartAPIServer(t.Context()))
		value := fmt.Sprint(i + 1)
		s.putConfigMap("foo", value)
		s.rolledOut("web", map[string]string{"configmap/foo": value})
		if got := len(s.replicaSets()) - before; got != 1 {
			t.Errorf("after the API server came back, one edit made %d revisions", got)
		}
		if got, want := s.podsSince(since), 2; got != want {
			t.Errorf("after the API server came back, one edit made %d pods, want %d:\n%s", got, want, s.stage.Journal(s.namespace).Since(since))
		}
	}
	if err := s.process.Err(); err != nil {
		t.Errorf("the controller has ended: %v", err)
	}
}

// TestDryRunWritesNothing: what would be done is in the log, and no object is written, nor an Event. Then it is done.
func TestDryRunWritesNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.putConfigMap("foo", "one")
	s.apply(deployment("old"))
	s.ownedByRevisions(s.rolledOut("old", map[string]string{"configmap/foo": "one"})["configmap/foo"], 1)
	s.stop()
	since, args := time.Now(), s.args
	s.args = append(slices.Clone(args), "--dry-run")
	s.start()
	s.logs("Working")
	s.putConfigMap("foo", "two")
	s.apply(deployment("web"))
	for _, text := range []string{`"Would roll out" workload=deployment/old`, `"Would repair" workload=deployment/web`} {
		s.logs(text)
	}
	s.putConfigMap("foo", "three")
	s.eventually(func() error {
		if lines := s.logged(`"Would roll out" workload=deployment/old`); len(lines) != 2 {
			return fmt.Errorf("%d lines of the log speak of the two edits: %q", len(lines), lines)
		}
		return nil
	})
	s.stop()
	for _, r := range s.requested(since) {
		if r.Verb != "watch" && r.Verb != "list" && r.Verb != "get" {
			t.Errorf("a dry run asked: %s", r)
		}
	}
	s.args = args
	s.start()
	for _, name := range []string{"old", "web"} {
		s.rolledOut(name, map[string]string{"configmap/foo": "three"})
	}
}

// logs waits until the log has a text.
func (s *site) logs(text string) {
	s.t.Helper()
	s.eventually(func() error {
		if len(s.logged(text)) == 0 {
			return fmt.Errorf("the log does not say %s", text)
		}
		return nil
	})
}
