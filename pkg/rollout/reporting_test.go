package rollout

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/plan"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
)

// TestEventsOfANamespaceAreLimited, whatever they are about: anybody who may write workloads or Roles can make the controller
// report any number of them. Events of another namespace are written all the same.
//
// Fault 42.
func TestEventsOfANamespaceAreLimited(t *testing.T) {
	t.Parallel()
	reports := map[string]func(t *testing.T, c *Controller, namespace, name string){
		"workloads": func(_ *testing.T, c *Controller, namespace, name string) {
			h := &cachedWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
			c.event(h, notice{corev1.EventTypeWarning, ReasonHeldBack, "a text"})
		},
		"sources": func(t *testing.T, c *Controller, namespace, name string) {
			t.Helper()
			source := api.Ref{Kind: api.Secret, Namespace: namespace, Name: name}
			before, after := trigger.Config{source.Local(): "before"}, trigger.Config{source.Local(): "after"}
			made := fooSource()
			made.Namespace, made.Name = namespace, name
			add(t, c.caches.sources[api.Secret], made)
			h := &cachedWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
			c.reportRollout(h, plan.State{Template: before}, plan.Decision{Config: after})
		},
		"Roles": func(t *testing.T, c *Controller, namespace, name string) {
			t.Helper()
			role := &cachedRole{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
			c.reportRole(t.Context(), role, ReasonHeldBack, fmt.Sprint(time.Now()))
		},
	}
	for about, report := range reports {
		t.Run(about, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { limitEvents(t, report) })
		})
	}
}

// limitEvents wants limits for what a function reports. It runs where no time passes.
func limitEvents(t *testing.T, report func(t *testing.T, c *Controller, namespace, name string)) {
	t.Helper()
	c := idleController(t)
	recorder := record.NewFakeRecorder(5 * eventBurst)
	c.cfg.Events = recorder
	count := func(namespace string, reports int) (events int) {
		for i := range reports {
			report(t, c, namespace, fmt.Sprint("object-", i))
		}
		for ; len(recorder.Events) > 0; events++ {
			<-recorder.Events
		}
		return events
	}
	if got := count("noisy", 2*eventBurst); got != eventBurst {
		t.Errorf("%d Events about very many objects, want %d", got, eventBurst)
	}
	if got := count("quiet", 10); got < 10 {
		t.Errorf("%d Events about ten objects of another namespace, want all", got)
	}
	sleep(t, time.Second)
	if got := count("noisy", 2*eventBurst); got != eventRate {
		t.Errorf("%d Events a second later, want %d", got, eventRate)
	}
}
