package rollout

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
	"github.com/liveconfig-csi/liveconfig/test/kit/process"
)

// several makes Deployments without pods, each with a separate source, and returns their names, which are the sources' too.
func (s *site) several(size int) []string {
	s.t.Helper()
	var names, manifests []string
	for i := range size {
		name := fmt.Sprint("web-", i)
		names = append(names, name)
		manifests = append(manifests,
			fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata: {config: \"0\"}\n", name),
			manifest("deployment", name, "replicas: 2", "replicas: 0\n  revisionHistoryLimit: 100",
				"configmap/foo", "configmap/"+name, "{name: foo}", "{name: "+name+"}"))
	}
	s.apply(strings.Join(manifests, "---\n"))
	for _, name := range names {
		s.reached("deployment/"+name, map[string]string{"configmap/" + name: "0"})
	}
	return names
}

// pasts are the pasts of Deployments by their names.
func (s *site) pasts(names []string) map[string]past {
	all := map[string]past{}
	for _, name := range names {
		all[name] = s.past("deployment/" + name)
	}
	return all
}

// TestRestartMissesNothing and restarts nothing: what was edited while no controller ran is rolled out, once, and the rest
// is left as it is.
//
// Fault 33.
func TestRestartMissesNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	names := s.several(10)
	before := s.pasts(names)
	s.kill()
	for _, name := range names[:5] {
		s.edit(name, "1")
	}
	s.start()
	for _, name := range names[:5] {
		s.reached("deployment/"+name, map[string]string{"configmap/" + name: "1"})
		s.wantRevisions("deployment/"+name, before[name], 1)
	}
	s.beat()
	for _, name := range names[5:] {
		if got, want := s.past("deployment/"+name).Generation, before[name].Generation; got != want {
			t.Errorf("%s was changed by a restart: its generation is %d, want %d", name, got, want)
		}
	}
}

// TestKilledAtAnyInstant: however a controller dies in a wave of rollouts, the next one ends it, with one revision for each
// edit.
//
// Fault 33.
func TestKilledAtAnyInstant(t *testing.T) {
	t.Parallel()
	const rounds = 10
	s := newSite(t, "--quiet-period=50ms")
	names := s.several(10)
	begin := s.pasts(names)
	for round := range rounds {
		value := fmt.Sprint(round + 1)
		for _, name := range names {
			s.edit(name, value)
		}
		instant := rand.N(300 * time.Millisecond)
		<-time.After(instant)
		s.kill()
		written := 0
		for _, name := range names {
			if s.past("deployment/"+name).Generation > begin[name].Generation+int64(round) {
				written++
			}
		}
		t.Logf("round %d: killed after %s, when %d of %d were written", round, instant, written, len(names))
		s.start()
		for _, name := range names {
			s.reached("deployment/"+name, map[string]string{"configmap/" + name: value})
		}
	}
	s.beat()
	for _, name := range names {
		s.wantRevisions("deployment/"+name, begin[name], rounds)
		if got, want := s.past("deployment/"+name).Generation, begin[name].Generation+rounds; got != want {
			t.Errorf("the generation of %s is %d, want %d", name, got, want)
		}
	}
}

// candidate is one of several controllers of a site.
type candidate struct {
	*site

	address string
}

// newCandidate starts a controller that works while it holds the site's lease.
func newCandidate(s *site) candidate {
	s.t.Helper()
	kubeconfig := filepath.Join(s.t.TempDir(), "kubeconfig")
	expect.NoError(s.t, s.c.WriteAdminKubeconfig(kubeconfig))
	c := candidate{&site{}, fixture.FreeAddress(s.t)}
	*c.site = *s
	c.log = filepath.Join(s.t.TempDir(), "candidate.log")
	c.args = slices.Concat(s.args, []string{
		"--kubeconfig=" + kubeconfig, "--leader-elect=true", "--lease-namespace=" + s.namespace,
		"--http-endpoint=" + c.address,
	})
	s.t.Cleanup(func() {
		c.stop()
		if s.t.Failed() {
			s.t.Logf("the candidate's log ends with:\n%s", process.Tail(c.log, 16<<10))
		}
	})
	c.start()
	return c
}

// leads waits until the candidate holds the lease, and returns how long that took.
func (c candidate) leads() time.Duration {
	c.t.Helper()
	begin := time.Now()
	c.eventually(func() error {
		lease, err := c.client.CoordinationV1().Leases(c.namespace).Get(c.t.Context(), "liveconfig-controller", metav1.GetOptions{})
		if err != nil {
			return err
		}
		holder := ""
		if lease.Spec.HolderIdentity != nil {
			holder = *lease.Spec.HolderIdentity
		}
		if !strings.HasSuffix(holder, fmt.Sprint("_", c.process.PID())) {
			return fmt.Errorf("process %d does not hold the lease, but %q", c.process.PID(), holder)
		}
		return nil
	})
	return time.Since(begin)
}

// rolled returns how much the candidate has rolled out.
func (c candidate) rolled() string {
	c.t.Helper()
	return c.measured(c.address, `rollouts_total{result="rolled_out"}`)
}

// TestOneOfTwoWorks: of two controllers one works, and the other goes on soon after that has died, or at once when it has
// ended. Nothing is rolled out twice.
//
// Fault 33.
func TestOneOfTwoWorks(t *testing.T) {
	t.Parallel()
	s, ref := newIdleSite(t), "deployment/web"
	one := newCandidate(s)
	one.leads()
	two := newCandidate(s)
	s.story(ref, deployment("web"), "one", "two")
	begin := s.past(ref)
	if got, want := []string{one.rolled(), two.rolled()}, []string{"2", "0"}; got[0] != want[0] || got[1] != want[1] {
		t.Errorf("the controllers have rolled out %v, want %v", got, want)
	}

	one.kill()
	s.edit("foo", "three")
	if took := two.leads(); took > 30*time.Second {
		t.Errorf("the second took over after %s, want 30 s", took)
	} else {
		t.Logf("the second took over after %s", took.Round(100*time.Millisecond))
	}
	s.reached(ref, foo("three"))

	one.start()
	s.edit("foo", "four")
	s.reached(ref, foo("four"))
	if got := one.rolled(); got != "0" {
		t.Errorf("the one that waits has rolled out %s times, want 0", got)
	}

	two.stop()
	s.edit("foo", "five")
	if took := one.leads(); took > 10*time.Second {
		t.Errorf("the first took over after %s, want 10 s: the lease was given back", took)
	} else {
		t.Logf("the first took over after %s", took.Round(100*time.Millisecond))
	}
	s.reached(ref, foo("five"))
	two.start()
	s.unmoved(ref, "a second controller", func() {})
	s.wantRevisions(ref, begin, 3)
}
