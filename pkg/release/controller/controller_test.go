package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/pkg/release/settings"
	"github.com/liveconfig-csi/liveconfig/pkg/release/stable"
	"github.com/liveconfig-csi/liveconfig/pkg/release/validation"
)

// fixture is a controller whose work the test does step by step.
type fixture struct {
	*testing.T
	ctx    context.Context
	c      *Controller
	client *fake.Clientset
	events *record.FakeRecorder
	texts  []string // Of the Events.
	edits  int
	// mayFail is an error that reconciling may have.
	mayFail error
}

func newFixture(t *testing.T, pods ...aPod) *fixture {
	t.Helper()
	var objects []runtime.Object
	for _, p := range pods {
		pod := p.object()
		pod.Status.Phase = corev1.PodRunning
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		objects = append(objects, pod)
	}
	client := fake.NewClientset(objects...)
	client.PrependReactor("create", "configmaps", func(a k8stesting.Action) (bool, runtime.Object, error) {
		if create, ok := a.(k8stesting.CreateAction); ok {
			if m, ok := create.GetObject().(*corev1.ConfigMap); ok && m.ResourceVersion == "" {
				m.ResourceVersion = "1"
			}
		}
		return false, nil, nil
	})
	return newFixtureOf(t, client)
}

// newFixtureOf returns a fixture of an API server that has objects already.
func newFixtureOf(t *testing.T, client *fake.Clientset) *fixture {
	t.Helper()
	const enough = 1000
	f := &fixture{T: t, client: client, events: record.NewFakeRecorder(enough)}
	var err error
	f.c, err = New(Config{
		Client: f.client, Objects: map[api.Kind][]cache.SharedIndexInformer{
			api.ConfigMap: {cache.NewSharedIndexInformer(&cache.ListWatch{}, &metav1.PartialObjectMetadata{}, 0, cache.Indexers{})},
		},
		DriverName: driverName, Events: f.events,
		Registry: prometheus.NewRegistry(),
		Check: func(context.Context, []settings.Rule, validation.Content) ([]validation.Problem, error) {
			return nil, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	f.c.queue = workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[unit]())
	ctx, cancel := context.WithCancelCause(t.Context())
	f.ctx = ctx
	t.Cleanup(func() {
		cancel(errors.New("the test has ended"))
		f.c.pods.wait()
		f.c.checks.wait()
		f.c.queue.ShutDown()
	})
	return f
}

// set writes a released ConfigMap.
func (f *fixture) set(name, annotation, value string) {
	f.Helper()
	f.edits++
	m := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "n", Name: name, ResourceVersion: fmt.Sprint("edit-", f.edits), Annotations: map[string]string{release.Annotation: annotation},
		},
		Data: map[string]string{"a": value},
	}
	maps := f.client.CoreV1().ConfigMaps("n")
	_, err := maps.Update(f.ctx, m, metav1.UpdateOptions{})
	if err != nil {
		_, err = maps.Create(f.ctx, m, metav1.CreateOptions{})
	}
	if err != nil {
		f.Fatal(err)
	}
}

// notReady has a pod be no longer Ready.
func (f *fixture) notReady(name string) {
	f.Helper()
	pod, err := f.client.CoreV1().Pods("n").Get(f.ctx, name, metav1.GetOptions{})
	if err != nil {
		f.Fatal(err)
	}
	pod.Status.Conditions[0].Status = corev1.ConditionFalse
	if _, err := f.client.CoreV1().Pods("n").UpdateStatus(f.ctx, pod, metav1.UpdateOptions{}); err != nil {
		f.Fatal(err)
	}
}

// until lets the controller work on the objects, each with and without its group, until something is so.
func (f *fixture) until(what string, isSo func() bool) {
	f.Helper()
	for range 1000 {
		f.reconcile()
		if isSo() {
			return
		}
		<-time.After(5 * time.Millisecond)
	}
	f.Fatalf("it never comes to this: %s; Events: %q", what, f.texts)
}

// marked returns what a cache has of an object.
func marked(m metav1.ObjectMeta) *metav1.PartialObjectMetadata {
	stored := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion}}
	stable.Mark(&stored.ObjectMeta, &m)
	return stored
}

func (f *fixture) reconcile() {
	f.Helper()
	list, err := f.client.CoreV1().ConfigMaps("n").List(f.ctx, metav1.ListOptions{})
	if err != nil {
		f.Fatal(err)
	}
	var cached []any
	var units []unit
	for i := range list.Items {
		m := &list.Items[i]
		cached = append(cached, marked(m.ObjectMeta))
		ref := api.Ref{Kind: api.ConfigMap, Namespace: "n", Name: m.Name}
		if value, isReleased := m.Annotations[release.Annotation]; isReleased {
			units = append(units, unit{namespace: "n", alone: ref}, unitOf(ref, value))
		}
	}
	if err := f.c.objects.informers[api.ConfigMap][0].GetIndexer().Replace(cached, ""); err != nil {
		f.Fatal(err)
	}
	for _, u := range units {
		if _, err := f.c.reconcile(f.ctx, u); err != nil && !errors.Is(err, errNotSynced) && (f.mayFail == nil || !errors.Is(err, f.mayFail)) {
			f.Fatal(err)
		}
	}
	for len(f.events.Events) > 0 {
		f.texts = append(f.texts, <-f.events.Events)
	}
}

func (f *fixture) exposure(name string) release.Exposure {
	f.Helper()
	m, err := f.client.CoreV1().ConfigMaps("n").Get(f.ctx, name+release.Suffix, metav1.GetOptions{})
	if err != nil {
		return release.Exposure{}
	}
	e, err := release.ParseExposure(m.Annotations[release.ExposureAnnotation])
	if err != nil {
		f.Fatal(err)
	}
	return e
}

func (f *fixture) hasCopy(name string) bool {
	_, err := f.client.CoreV1().ConfigMaps("n").Get(f.ctx, name+release.Suffix, metav1.GetOptions{})
	return err == nil
}

func (f *fixture) count(text string) (n int) {
	for _, event := range f.texts {
		if strings.Contains(event, text) {
			n++
		}
	}
	return n
}

// TestAMistakeIsReportedOnce, also of an object of a group, about which its own unit is asked too.
func TestAMistakeIsReportedOnce(t *testing.T) {
	t.Parallel()
	for name, annotation := range map[string]string{"alone": "{step: [1]}", "of a group": "{group: g, step: [1]}"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.set("web", annotation, "1")
			for range 5 {
				f.reconcile()
			}
			if got := f.count(ReasonMistake); got != 1 {
				t.Errorf("%d Events say that the annotation has a mistake, want 1: %q", got, f.texts)
			}
		})
	}
}

// TestAMistakeDuringARelease stops no revert: the pods that have the edit are still watched, by the settings before the mistake.
func TestAMistakeDuringARelease(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		names             []string
		annotation, wrong string
		restarts          bool // The controller, when the mistake is there.
		want              release.State
	}{
		"reverted":               {[]string{"web"}, "{steps: [1], pause: 1h}", "{step: [1]}", false, release.Reverted},
		"frozen":                 {[]string{"web"}, "{steps: [1], pause: 1h, onFailure: freeze}", "{step: [1]}", false, release.Frozen},
		"not checked":            {[]string{"web"}, "{steps: [1], pause: 1h, check: none}", "{step: [1]}", false, release.Progressing},
		"reverted after restart": {[]string{"web"}, "{steps: [1], pause: 1h, onFailure: freeze}", "{step: [1]}", true, release.Reverted},
		"of a group":             {[]string{"a", "web"}, "{group: g, steps: [1], pause: 1h}", "{group: g, step: [1]}", false, release.Reverted},
		"of a group that cannot be read any more": {[]string{"a", "web"}, "{group: g, steps: [1], pause: 1h}", "{group: g", false, release.Reverted},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			volume := map[string]string{"sources": "[{configMap: {name: web}}, {configMap: {name: a, optional: true}}]"}
			f := newFixture(t, aPod{"one", "x", "1", false, volumes(volume)}, aPod{"two", "x", "2", false, volumes(volume)})
			set := func(annotation, value string) {
				for _, name := range tc.names {
					f.set(name, annotation, value)
				}
			}
			set(tc.annotation, "1")
			f.until("there are stable copies", func() bool { return f.hasCopy("web") && f.hasCopy(tc.names[0]) })
			set(tc.annotation, "2")
			f.until("one pod has the edit", func() bool { return len(f.exposure("web").Pods) == 1 && len(f.exposure(tc.names[0]).Pods) == 1 })
			f.set("web", tc.wrong, "2")
			f.until("the mistake is reported", func() bool { return f.count(ReasonMistake) > 0 })
			if e := f.exposure(tc.names[0]); e.Step != 1 || len(e.Pods) != 1 {
				t.Errorf("the exposure is %v, want that of the first step", e)
			}
			if tc.restarts {
				f.c.settings, f.c.seen = newLastSettings(), &seenPods{units: map[unit]*seenOfUnit{}}
				f.reconcile()
			}
			f.notReady(f.exposure("web").Pods[0])
			if tc.want == release.Progressing {
				for range 20 {
					f.reconcile()
					<-time.After(time.Millisecond)
				}
			}
			for _, name := range tc.names {
				f.until(fmt.Sprint(name, " is ", tc.want), func() bool { return f.exposure(name).State == tc.want })
			}
		})
	}
}

// TestAStepReportsTheTrueNumber of pods: those that share files were too many for it.
func TestAStepReportsTheTrueNumber(t *testing.T) {
	t.Parallel()
	web := volumes(map[string]string{"configMap": "web"})
	for text, pods := range map[string][]aPod{
		"Step 1 of 1 (1 pod): the edit is shown to 1 of 2 pods.":  {{"one", "x", "1", true, web}, {"two", "x", "1", true, web}},
		"The edit is shown to all 2 pods, before it is promoted.": {{"one", "x", "1", false, web}, {"two", "y", "1", false, web}},
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, pods...)
			f.client.PrependReactor("create", "configmaps", func(a k8stesting.Action) (bool, runtime.Object, error) {
				if create, ok := a.(k8stesting.CreateAction); ok {
					if m, ok := create.GetObject().(*corev1.ConfigMap); ok {
						m.CreationTimestamp = metav1.NewTime(epoch)
					}
				}
				return false, nil, nil
			})
			f.set("web", "{steps: [1], pause: 1h}", "1")
			f.until("there is a stable copy", func() bool { return f.hasCopy("web") })
			f.set("web", "{steps: [1], pause: 1h}", "2")
			f.until("a step has begun", func() bool { return f.exposure("web").Step > 0 })
			f.until("an Event says the number", func() bool { return f.count(text) == 1 })
		})
	}
}
