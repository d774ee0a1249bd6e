package rollout

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/rollout"
	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
	"github.com/liveconfig-csi/liveconfig/test/kit/controllers"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/fakenodes"
)

// newSiteOfMaxUnavailable returns a site with a running controller in a separate cluster, which has the feature that is off by
// default before Kubernetes 1.37.
func newSiteOfMaxUnavailable(t *testing.T) *site {
	t.Helper()
	program(t) // It builds the controller.
	const gate = "--feature-gates=MaxUnavailableStatefulSet=true"
	end := func(stop func() error) {
		t.Cleanup(func() {
			if err := stop(); err != nil {
				t.Error(err)
			}
		})
	}
	c, err := cluster.Start(t.Context(), cluster.Config{APIServerArgs: []string{gate}})
	expect.NoError(t, err)
	end(c.Stop)
	manager, err := controllers.Start(t.Context(), controllers.Config{Cluster: c, Args: append(controllers.Unthrottled(), gate)})
	expect.NoError(t, err)
	end(manager.Stop)
	stage, err := fakenodes.Start(t.Context(), c, fakenodes.Config{Nodes: 1})
	expect.NoError(t, err)
	t.Cleanup(stage.Stop)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	expect.NoError(t, install(context.WithoutCancel(t.Context()), c, kubeconfig))
	s := newIdleSiteIn(t, c, stage, kubeconfig)
	s.start()
	return s
}

// TestMaxUnavailable: an edit of a StatefulSet that may miss two pods replaces two at a time, and is one revision. An undo of a
// bad one waits for the broken pod that is named, and then reaches all pods.
func TestMaxUnavailable(t *testing.T) {
	t.Parallel()
	s, ref := newSiteOfMaxUnavailable(t), "statefulset/web"
	s.failWith("bad")
	s.story(ref, manifest("statefulset", "web", "  replicas: 2\n",
		"  replicas: 5\n  updateStrategy: {rollingUpdate: {maxUnavailable: 2}}\n"), "one")
	s.haveHeardOfReady()
	before, since := s.past(ref), time.Now()
	s.edit("foo", "two")
	s.reached(ref, foo("two"))
	s.wantRevisions(ref, before, 1)
	if got := s.stage.Journal(s.namespace).Of(isOf("web")).FewestReady(since); got != 3 {
		t.Errorf("at worst %d of 5 pods were ready, want 3", got)
	}

	s.haveHeardOfReady()
	s.edit("foo", "bad")
	command := fmt.Sprintf("kubectl delete pod -n %s %s", s.namespace, s.broken())
	s.kubectl("rollout", "undo", ref)
	s.event("StatefulSet/web", rollout.ReasonUndone, "foo-")
	s.event("StatefulSet/web", rollout.ReasonBlocked, command)
	s.kubectl(strings.Fields(command)[1:]...)
	s.reached(ref, foo("two"))
}
