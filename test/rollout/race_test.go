package rollout

import (
	"fmt"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
	"github.com/liveconfig-csi/liveconfig/test/kit/network"
)

// TestALostRaceIsNoFailure: somebody else is faster, between the decision to roll out and the write. What the API server answers
// depends on what they did. It is tried again, and no failure is counted or reported.
//
// Fault 33.
func TestALostRaceIsNoFailure(t *testing.T) {
	t.Parallel()
	const path = "/spec/template/spec/volumes/0"
	tests := map[string]struct {
		patch string // Of the others; they delete the workload without one.
		code  int    // What the controller's write is answered.
	}{
		"what it writes over is another": {
			`[{"op":"replace","path":"` + path + `/configMap/name","value":"foo"}]`, http.StatusConflict,
		},
		"the place of what it writes is gone": {
			`[{"op":"replace","path":"` + path + `","value":{"name":"config","projected":{"sources":[{"configMap":{"name":"foo"}}]}}}]`,
			http.StatusUnprocessableEntity,
		},
		"the workload is gone": {"", http.StatusNotFound},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := fixture.FreeAddress(t)
			s, ref := newIdleSite(t, "--http-endpoint="+address), "deployment/web"
			front := s.behindFront()
			s.start()
			s.story(ref, deployment("web"), "one")

			since := time.Now()
			front.Set(network.Fault{Of: s.before("patch", "deployments", func() error {
				web := s.client.AppsV1().Deployments(s.namespace)
				if tt.patch == "" {
					return web.Delete(s.t.Context(), "web", metav1.DeleteOptions{})
				}
				_, err := web.Patch(s.t.Context(), "web", types.JSONPatchType, []byte(tt.patch), metav1.PatchOptions{})
				return err
			})})
			s.edit("foo", "two")
			if tt.patch != "" {
				s.reached(ref, foo("two"))
			}
			s.eventually(func() error {
				if got := s.answers(since, "patch", "deployments"); len(got) == 0 || got[0] != tt.code {
					return fmt.Errorf("the controller's writes were answered %v, want %d first", got, tt.code)
				}
				return nil
			})
			s.beat()
			if got := s.measured(address, `rollouts_total{result="failed"}`); got != "0" {
				t.Errorf("%s failures are counted, want none", got)
			}
			if lines := s.logged("level=ERROR"); len(lines) > 0 {
				t.Errorf("the log has %d errors, the first: %s", len(lines), lines[0])
			}
		})
	}
}

// TestASourceThatIsSeenLate: a trigger that no pod needs to start, of which the controller hears after the workload. It is not
// rolled out as missing first.
//
// Fault 33.
func TestASourceThatIsSeenLate(t *testing.T) {
	t.Parallel()
	s := newIdleSite(t)
	front := s.behindFront()
	front.Set(network.Fault{Of: s.before("get", "configmaps", func() error {
		o := fixture.ConfigMap("foo", map[string]string{"config": "one"})
		_, err := s.client.CoreV1().ConfigMaps(s.namespace).Create(s.t.Context(), o, metav1.CreateOptions{})
		return err
	})})
	s.start()
	s.apply(triggered("web", "configmap/foo"))
	s.reached("deployment/web", foo("one"))
	if got := s.madeSince(2); got != "" {
		t.Error(got)
	}
	if lines := s.logged("level=ERROR"); len(lines) > 0 {
		t.Errorf("the log has %d errors, the first: %s", len(lines), lines[0])
	}
}

// behindFront has the controller, which does not run yet, ask a front of the API server.
func (s *site) behindFront() *network.Front {
	s.t.Helper()
	front := network.NewFront(s.t, s.c)
	_, direct := program(s.t)
	kubeconfig := filepath.Join(s.t.TempDir(), "kubeconfig")
	expect.NoError(s.t, front.Kubeconfig(direct, kubeconfig))
	s.args = append(s.args, "--kubeconfig="+kubeconfig)
	return front
}

// before matches no request, and does something while the first of a kind is on its way.
func (s *site) before(verb, resource string, do func() error) func(network.Request) bool {
	var once sync.Once
	return func(r network.Request) bool {
		if r.Verb == verb && r.Resource == resource {
			once.Do(func() {
				if err := do(); err != nil {
					s.t.Error(err)
				}
			})
		}
		return false
	}
}

// answers returns the codes that requests of a kind about web have got since a moment.
func (s *site) answers(since time.Time, verb, resource string) []int {
	s.t.Helper()
	var codes []int
	for _, r := range s.requested(since) {
		if r.Verb == verb && r.Resource == resource && r.Name == "web" {
			codes = append(codes, r.Code)
		}
	}
	return codes
}
