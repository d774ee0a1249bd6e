package controller

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/release/plan"
	"github.com/liveconfig-csi/liveconfig/pkg/release/stable"
)

const driverName = "csi.liveconfig.internal"

// epoch is when objects are released in these tests.
var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// aPod runs on a node and has a volume for each of the attributes.
type aPod struct {
	name, account, node string
	isNew               bool // It was created after the objects were released.
	volumes             []map[string]string
}

func (p aPod) object() *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: p.name, UID: types.UID(p.name), CreationTimestamp: metav1.NewTime(epoch.Add(-time.Hour))},
		Spec:       corev1.PodSpec{NodeName: p.node, ServiceAccountName: p.account},
	}
	if p.isNew {
		pod.CreationTimestamp = metav1.NewTime(epoch.Add(time.Hour))
	}
	for _, attributes := range p.volumes {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{
			VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: driverName, VolumeAttributes: attributes}},
		})
	}
	return pod
}

// TestWhichPodsShareFiles is as the driver does it: volumes of one node that ask for the same have one set of files, if they
// were there before their object was released. Pods of different service accounts share no Secret.
func TestWhichPodsShareFiles(t *testing.T) {
	t.Parallel()
	web, tls := map[string]string{"configMap": "web"}, map[string]string{"secret": "tls"}
	with := func(attributes map[string]string, key, value string) map[string]string {
		attributes = maps.Clone(attributes)
		attributes[key] = value
		return attributes
	}
	both := map[string]string{"sources": "[{configMap: {name: web}}, {secret: {name: tls}}]"}
	selecting := func(kind, app string) map[string]string {
		return map[string]string{"sources": "[{" + kind + ": {labelSelector: {matchLabels: {app: " + app + "}}}}]"}
	}
	tests := map[string]struct {
		pods []aPod
		want string // The names of pods that share files.
	}{
		"an object that is selected by label":        {[]aPod{{"a", "x", "1", false, volumes(selecting("configMap", "web"))}, {"b", "y", "1", false, volumes(selecting("configMap", "web"))}}, "a+b"},
		"not if other objects are selected":          {[]aPod{{"a", "x", "1", false, volumes(selecting("configMap", "tls"))}, {"b", "x", "1", false, volumes(selecting("configMap", "tls"))}}, ""},
		"no selected Secret of two service accounts": {[]aPod{{"a", "x", "1", false, volumes(selecting("secret", "tls"))}, {"b", "y", "1", false, volumes(selecting("secret", "tls"))}}, ""},
		"not if one that selects is newer":           {[]aPod{{"a", "x", "1", false, volumes(selecting("configMap", "web"))}, {"b", "x", "1", true, volumes(selecting("configMap", "web"))}}, ""},
		"equal volumes of one node":                  {[]aPod{{"a", "x", "1", false, volumes(web)}, {"b", "x", "1", false, volumes(web)}, {"c", "x", "2", false, volumes(web)}}, "a+b"},
		"a ConfigMap, whatever the service account":  {[]aPod{{"a", "x", "1", false, volumes(web)}, {"b", "y", "1", false, volumes(web)}}, "a+b"},
		"a Secret of one service account":            {[]aPod{{"a", "x", "1", false, volumes(tls)}, {"b", "x", "1", false, volumes(tls)}}, "a+b"},
		"no Secret of two service accounts":          {[]aPod{{"a", "x", "1", false, volumes(tls)}, {"b", "y", "1", false, volumes(tls)}}, ""},
		"no ConfigMap that is beside a Secret":       {[]aPod{{"a", "x", "1", false, volumes(both)}, {"b", "y", "1", false, volumes(both)}}, ""},
		"not with InPlace":                           {[]aPod{{"a", "x", "1", false, volumes(with(web, "updatePolicy", "InPlace"))}, {"b", "x", "1", false, volumes(with(web, "updatePolicy", "InPlace"))}}, ""},
		"also with Replace":                          {[]aPod{{"a", "x", "1", false, volumes(with(web, "updatePolicy", "Replace"))}, {"b", "x", "1", false, volumes(with(web, "updatePolicy", "Replace"))}}, "a+b"},
		"not if they ask for something else":         {[]aPod{{"a", "x", "1", false, volumes(web)}, {"b", "x", "1", false, volumes(with(web, "defaultMode", "0400"))}}, ""},
		"not if one is newer than the release":       {[]aPod{{"a", "x", "1", false, volumes(web)}, {"b", "x", "1", true, volumes(web)}}, ""},
		"one by one, if a pod has several volumes":   {[]aPod{{"a", "x", "1", false, volumes(web)}, {"b", "x", "1", false, volumes(web, tls)}, {"c", "x", "1", false, volumes(tls)}}, "a+b+c"},
		"not for a volume of an object not released": {[]aPod{{"a", "x", "1", false, volumes(map[string]string{"configMap": "other"}, with(web, "defaultMode", "0400"))}, {"b", "x", "1", false, volumes(map[string]string{"configMap": "other"}, web)}}, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var objects []runtime.Object
			for _, p := range tc.pods {
				objects = append(objects, p.object())
			}
			members := []*member{memberOf(api.ConfigMap, "web", epoch), memberOf(api.Secret, "tls", epoch)}
			if diff := cmp.Diff(tc.want, shared(podsOf(t, objects, members))); diff != "" {
				t.Errorf("pods that share files (-want +got):\n%s", diff)
			}
		})
	}
}

func volumes(attributes ...map[string]string) []map[string]string { return attributes }

func memberOf(kind api.Kind, name string, released time.Time) *member {
	ref := api.Ref{Kind: kind, Namespace: "n", Name: name}
	return &member{source: stable.Object{Ref: ref, Labels: map[string]string{"app": name}}, copy: &stable.Object{CreatedAt: released}, releasedAt: released}
}

// podsOf returns the pods of a unit as the cache has them.
func podsOf(t *testing.T, objects []runtime.Object, members []*member) []plan.Pod {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	caches := newPodCaches(Config{Client: fake.NewClientset(objects...), DriverName: driverName})
	t.Cleanup(caches.wait)
	t.Cleanup(func() { cancel(errors.New("the test has ended")) })
	for {
		if pods, _, isSynced := caches.of(ctx, unit{namespace: "n", group: "g"}, members, func(unit) {}); isSynced {
			return pods
		}
		<-time.After(time.Millisecond)
	}
}

// shared names the pods that share files: «a+b» for two that share, «a+b c+d» for two sets.
func shared(pods []plan.Pod) string {
	sets := map[string][]string{}
	for _, p := range pods {
		if p.SharesWith != "" {
			sets[p.SharesWith] = append(sets[p.SharesWith], p.Name)
		}
	}
	var texts []string
	for _, names := range sets {
		slices.Sort(names)
		texts = append(texts, strings.Join(names, "+"))
	}
	slices.Sort(texts)
	return strings.Join(texts, " ")
}

// TestALaterCopy makes no pods share files: those that came after the first object of their volume was released never have,
// although another object joined the group later, or a copy was created again.
func TestALaterCopy(t *testing.T) {
	t.Parallel()
	both := map[string]string{"sources": "[{configMap: {name: web}}, {secret: {name: tls}}]"}
	pods := []runtime.Object{aPod{"a", "x", "1", false, volumes(both)}.object(), aPod{"b", "x", "1", false, volumes(both)}.object()}
	known, ref := newKnownObjects(), api.Ref{Kind: api.ConfigMap, Namespace: "n", Name: "web"}
	known.releasedAt(ref, epoch.Add(-2*time.Hour))
	tests := map[string]struct {
		web, tls time.Time
		want     string
	}{
		"both were released later":       {epoch, epoch, "a+b"},
		"one joins the group":            {epoch.Add(-2 * time.Hour), epoch, ""},
		"the copy of one is created new": {known.releasedAt(ref, epoch), epoch, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			members := []*member{memberOf(api.ConfigMap, "web", tc.web), memberOf(api.Secret, "tls", tc.tls)}
			if got := shared(podsOf(t, pods, members)); got != tc.want {
				t.Errorf("pods that share files: %q, want %q", got, tc.want)
			}
		})
	}
}

// TestEndsOfContainers are those that the kubelet reports last. An end without a time is not one that can be judged.
func TestEndsOfContainers(t *testing.T) {
	t.Parallel()
	at := func(code int32, seconds int) *corev1.ContainerStateTerminated {
		return &corev1.ContainerStateTerminated{ExitCode: code, FinishedAt: metav1.NewTime(epoch.Add(time.Duration(seconds) * time.Second))}
	}
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	pod := aPod{"a", "x", "1", false, volumes(map[string]string{"configMap": "web"})}.object()
	pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "init", State: corev1.ContainerState{Terminated: at(0, 1)}}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{
		{Name: "never ended", State: running},
		{Name: "ended", State: corev1.ContainerState{Terminated: at(0, 5)}, LastTerminationState: corev1.ContainerState{Terminated: at(1, 2)}, RestartCount: 1},
		{Name: "waits", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}, LastTerminationState: corev1.ContainerState{Terminated: at(7, 3)}},
		{Name: "runs again", State: running, LastTerminationState: corev1.ContainerState{Terminated: at(0, 4)}, RestartCount: 2},
		{Name: "unknown", State: running, LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137}}, RestartCount: 3},
	}
	got := podsOf(t, []runtime.Object{pod}, []*member{memberOf(api.ConfigMap, "web", epoch)})[0]
	want := []plan.Container{
		{Name: "init", Ended: epoch.Add(time.Second)},
		{Name: "never ended"},
		{Name: "ended", Restarts: 1, Ended: epoch.Add(5 * time.Second)},
		{Name: "waits", Ended: epoch.Add(3 * time.Second), ExitCode: 7},
		{Name: "runs again", Restarts: 2, Ended: epoch.Add(4 * time.Second)},
		{Name: "unknown", Restarts: 3},
	}
	if diff := cmp.Diff(want, got.Containers); diff != "" || got.Restarts != 6 || !got.Ended.Equal(epoch.Add(4*time.Second)) {
		t.Errorf("%d restarts, the last at %s, and containers (-want +got):\n%s", got.Restarts, got.Ended, diff)
	}
}

// TestWhichPodsAreDisrupted: those that something else than their kubelet ends, or calls not ready.
func TestWhichPodsAreDisrupted(t *testing.T) {
	t.Parallel()
	const no, yes = corev1.ConditionFalse, corev1.ConditionTrue
	condition := func(kind corev1.PodConditionType, status corev1.ConditionStatus, reason string) corev1.PodCondition {
		return corev1.PodCondition{Type: kind, Status: status, Reason: reason}
	}
	tests := map[string]struct {
		status corev1.PodStatus
		want   bool
	}{
		"a pod that is Ready":             {corev1.PodStatus{Conditions: []corev1.PodCondition{condition(corev1.PodReady, yes, ""), condition(corev1.ContainersReady, yes, "")}}, false},
		"its containers are not":          {corev1.PodStatus{Conditions: []corev1.PodCondition{condition(corev1.PodReady, no, "ContainersNotReady"), condition(corev1.ContainersReady, no, "ContainersNotReady")}}, false},
		"a readiness gate":                {corev1.PodStatus{Conditions: []corev1.PodCondition{condition(corev1.PodReady, no, "ReadinessGatesNotReady"), condition(corev1.ContainersReady, yes, "")}}, false},
		"evicted":                         {corev1.PodStatus{Conditions: []corev1.PodCondition{condition(corev1.PodReady, yes, ""), condition(corev1.DisruptionTarget, yes, "EvictionByEvictionAPI")}}, true},
		"an eviction that did not happen": {corev1.PodStatus{Conditions: []corev1.PodCondition{condition(corev1.PodReady, no, "ContainersNotReady"), condition(corev1.DisruptionTarget, no, "")}}, false},
		"evicted by the kubelet":          {corev1.PodStatus{Phase: corev1.PodFailed, Conditions: []corev1.PodCondition{condition(corev1.DisruptionTarget, yes, "TerminationByKubelet")}}, true},
		"its node is not ready":           {corev1.PodStatus{Conditions: []corev1.PodCondition{condition(corev1.PodReady, no, ""), condition(corev1.ContainersReady, yes, "")}}, true},
		"with a reason":                   {corev1.PodStatus{Conditions: []corev1.PodCondition{condition(corev1.PodReady, no, "NodeNotReady")}}, true},
		"lost":                            {corev1.PodStatus{Reason: "NodeLost", Conditions: []corev1.PodCondition{condition(corev1.PodReady, corev1.ConditionUnknown, "")}}, true},
		"unknown":                         {corev1.PodStatus{Conditions: []corev1.PodCondition{condition(corev1.PodReady, no, "")}}, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := aPod{"a", "x", "1", false, volumes(map[string]string{"configMap": "web"})}.object()
			pod.Status = tc.status
			if got := podsOf(t, []runtime.Object{pod}, []*member{memberOf(api.ConfigMap, "web", epoch)})[0]; got.IsDisrupted != tc.want {
				t.Errorf("it is disrupted: %t, want %t", got.IsDisrupted, tc.want)
			}
		})
	}
}
