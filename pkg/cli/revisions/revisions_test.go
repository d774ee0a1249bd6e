package revisions_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/revisions"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/template"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/workload"
)

var foo = api.Ref{Kind: api.ConfigMap, Name: "foo"}

// place is where the pods of the tests run.
var place = template.Place{Namespace: "shop", Driver: "csi.example.com"}

// pods is a template that mounts a ConfigMap and has the annotation of a config, unless that is
// empty.
func pods(mounts, config string) corev1.PodTemplateSpec {
	t := corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "web", Image: "web:1"}},
		Volumes: []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: mounts}},
		}}},
	}}
	t.Labels = map[string]string{"app": "web"}
	if config != "" {
		t.Annotations = map[string]string{trigger.ConfigAnnotation: config}
	}
	return t
}

// copied is a template that uses a copy of foo.
func copied(name string) corev1.PodTemplateSpec {
	return pods(name, trigger.Config{foo: name}.String())
}

// deployment has a template, and rolled is what was rolled out to it last; nil for nothing.
func deployment(t corev1.PodTemplateSpec, rolled trigger.Config) workload.Workload {
	d := &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Template: t}}
	d.Namespace, d.Name, d.UID = "shop", "web", "me"
	d.Annotations = map[string]string{trigger.TriggeredBy: foo.String()}
	if rolled != nil {
		d.Labels = map[string]string{trigger.RolloutLabel: trigger.MarkOf(rolled).String()}
	}
	return workload.OfDeployment(d)
}

// replicaSet is a revision of the deployment.
func replicaSet(number string, t corev1.PodTemplateSpec) appsv1.ReplicaSet {
	t = *t.DeepCopy()
	t.Labels[appsv1.DefaultDeploymentUniqueLabelKey] = "hash-" + number
	set := appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{Template: t}}
	set.Name, set.Namespace, set.OwnerReferences = "web-"+number, "shop", owner("Deployment", "me")
	set.Annotations = map[string]string{"deployment.kubernetes.io/revision": number, "kubernetes.io/change-cause": "because " + number}
	set.CreationTimestamp = metav1.NewTime(time.Unix(1000, 0))
	return set
}

func owner(kind, uid string) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: "web", UID: "me", Controller: new(uid == "me")}}
}

// lines describes each revision.
func lines(h revisions.History) []string {
	var all []string
	for _, r := range h.Revisions {
		line := fmt.Sprint(r.Number)
		for _, item := range r.Items {
			line += " " + item.Source.String() + "=" + item.Copy
			if item.Absent {
				line += "(absent)"
			}
		}
		if r.Problem != nil {
			line += " problem"
		}
		if r.Current {
			line += " current"
		}
		if r.Undone {
			line += " undone"
		}
		all = append(all, line)
	}
	return all
}

func TestOfDeployment(t *testing.T) {
	t.Parallel()
	one, two := trigger.Config{foo: "foo-1"}, trigger.Config{foo: "foo-2"}
	plain, first, second := pods("foo", ""), copied("foo-1"), copied("foo-2")
	changed := copied("foo-1")
	changed.Spec.Containers[0].Image = "web:2"
	for name, test := range map[string]struct {
		now    corev1.PodTemplateSpec
		rolled trigger.Config
		sets   []appsv1.ReplicaSet
		want   []string
	}{
		"the oldest comes first": {
			second, two,
			[]appsv1.ReplicaSet{replicaSet("10", second), replicaSet("9", first), replicaSet("1", plain)},
			[]string{"1 configmap/foo=", "9 configmap/foo=foo-1", "10 configmap/foo=foo-2 current"},
		},
		"what was rolled out last and is not there is undone": {
			first, two,
			[]appsv1.ReplicaSet{replicaSet("1", plain), replicaSet("2", second), replicaSet("3", first)},
			[]string{"1 configmap/foo=", "2 configmap/foo=foo-2 undone", "3 configmap/foo=foo-1 current"},
		},
		"of two with what was undone it is the newer": {
			changed, two,
			[]appsv1.ReplicaSet{replicaSet("1", second), replicaSet("2", second), replicaSet("3", changed)},
			[]string{"1 configmap/foo=foo-2", "2 configmap/foo=foo-2 undone", "3 configmap/foo=foo-1 current"},
		},
		"an undo of the image alone undoes no config": {
			first, one,
			[]appsv1.ReplicaSet{replicaSet("2", changed), replicaSet("3", first)},
			[]string{"2 configmap/foo=foo-1", "3 configmap/foo=foo-1 current"},
		},
		"a paused Deployment has a template that is not a revision": {
			changed, one,
			[]appsv1.ReplicaSet{replicaSet("1", first)},
			[]string{"1 configmap/foo=foo-1"},
		},
		"a manifest that was applied again uses the source itself": {
			pods("foo", one.String()), one,
			[]appsv1.ReplicaSet{replicaSet("1", first), replicaSet("2", pods("foo", one.String()))},
			[]string{"1 configmap/foo=foo-1", "2 configmap/foo= current"},
		},
		"a source that does not exist is absent": {
			pods("foo", `{"configmap/foo":""}`), nil,
			[]appsv1.ReplicaSet{replicaSet("1", pods("foo", `{"configmap/foo":""}`))},
			[]string{"1 configmap/foo=(absent) current"},
		},
		"a config that cannot be read is a problem": {
			first, one,
			[]appsv1.ReplicaSet{replicaSet("1", pods("foo-1", "{")), replicaSet("2", first)},
			[]string{"1 problem", "2 configmap/foo=foo-1 current"},
		},
		"pods that use nothing of what triggers": {
			pods("other", ""), nil,
			[]appsv1.ReplicaSet{replicaSet("1", pods("other", ""))},
			[]string{"1 current"},
		},
		"without a number it is not a revision yet": {
			first, one, []appsv1.ReplicaSet{replicaSet("", first)}, nil,
		},
	} {
		h := revisions.OfDeployment(deployment(test.now, test.rolled), test.sets, place.Driver)
		if diff := cmp.Diff(test.want, lines(h)); diff != "" {
			t.Errorf("%s: revisions (-want +got):\n%s", name, diff)
		}
	}
}

func TestOthersRevisionsAreNone(t *testing.T) {
	t.Parallel()
	set := replicaSet("1", copied("foo-1"))
	set.OwnerReferences[0].UID = "another"
	h := revisions.OfDeployment(deployment(copied("foo-1"), nil), []appsv1.ReplicaSet{set}, place.Driver)
	if len(h.Revisions) != 0 {
		t.Errorf("it has the revisions %q, want none", lines(h))
	}
}

func TestNothingIsUndoneOfWhatNothingTriggers(t *testing.T) {
	t.Parallel()
	w := deployment(copied("foo-1"), trigger.Config{foo: "foo-2"})
	delete(w.Annotations, trigger.TriggeredBy)
	h := revisions.OfDeployment(w, []appsv1.ReplicaSet{replicaSet("1", copied("foo-2")), replicaSet("2", copied("foo-1"))}, place.Driver)
	want := []string{"1 configmap/foo=foo-2", "2 configmap/foo=foo-1 current"}
	if diff := cmp.Diff(want, lines(h)); diff != "" {
		t.Errorf("revisions (-want +got):\n%s", diff)
	}
}

func TestOfOther(t *testing.T) {
	t.Parallel()
	first, second := copied("foo-1"), copied("foo-2")
	set := &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Template: second}}
	set.UID, set.Namespace = "me", "shop"
	set.Annotations = map[string]string{trigger.TriggeredBy: foo.String()}
	var kept []appsv1.ControllerRevision
	for i, t := range []corev1.PodTemplateSpec{second, first} {
		kept = append(kept, controllerRevision(int64(2-i), t))
	}
	kept = append(kept, appsv1.ControllerRevision{Revision: 3, Data: runtime.RawExtension{Raw: []byte(`{"mine":true}`)}})
	h := revisions.OfOther(workload.OfStatefulSet(set), kept, place.Driver)
	want := []string{"1 configmap/foo=foo-1", "2 configmap/foo=foo-2 current"}
	if diff := cmp.Diff(want, lines(h)); diff != "" {
		t.Errorf("revisions (-want +got):\n%s", diff)
	}
	if got := string(h.Revisions[0].Data); !strings.Contains(got, `"$patch":"replace"`) {
		t.Errorf("the patch is %s, want that of the revision", got)
	}
}

func controllerRevision(number int64, t corev1.PodTemplateSpec) appsv1.ControllerRevision {
	text, _ := json.Marshal(t)
	var data map[string]any
	_ = json.Unmarshal(text, &data)
	data["$patch"] = "replace"
	raw, _ := json.Marshal(map[string]any{"spec": map[string]any{"template": data}})
	r := appsv1.ControllerRevision{Revision: number, Data: runtime.RawExtension{Raw: raw}}
	r.OwnerReferences = owner("StatefulSet", "me")
	return r
}

func TestTarget(t *testing.T) {
	t.Parallel()
	all := []appsv1.ReplicaSet{replicaSet("2", copied("foo-1")), replicaSet("5", copied("foo-2")), replicaSet("7", copied("foo-3"))}
	for name, test := range map[string]struct {
		sets    []appsv1.ReplicaSet
		to      int64
		want    int64
		wantErr string
	}{
		"no number is the one before the newest": {sets: all, want: 5},
		"a number":                               {sets: all, to: 2, want: 2},
		"the newest":                             {sets: all, to: 7, want: 7},
		"a number that is not there":             {sets: all, to: 3, wantErr: "there is no revision 3, there are: 2, 5, 7"},
		"one revision alone":                     {sets: all[:1], wantErr: "only the newest is stored"},
		"none":                                   {wantErr: "only the newest is stored"},
		"a number where no revision is stored":   {to: 1, wantErr: "there is no revision 1: no revision is stored"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := revisions.OfDeployment(deployment(copied("foo-3"), nil), test.sets, place.Driver)
			got, err := h.Target(test.to)
			if test.wantErr == "" && (err != nil || got.Number != test.want) {
				t.Errorf("Target(%d) = %d, %v, want %d", test.to, got.Number, err, test.want)
			}
			if test.wantErr != "" && (err == nil || !strings.Contains(err.Error(), test.wantErr)) {
				t.Errorf("Target(%d) error = %v, want it to have %q", test.to, err, test.wantErr)
			}
		})
	}
}

func TestBefore(t *testing.T) {
	t.Parallel()
	h := revisions.OfDeployment(deployment(copied("foo-2"), nil),
		[]appsv1.ReplicaSet{replicaSet("2", copied("foo-1")), replicaSet("5", copied("foo-2"))}, place.Driver)
	if got, found := h.Before(5); !found || got.Number != 2 {
		t.Errorf("Before(5) = %d, %t, want 2", got.Number, found)
	}
	for _, number := range []int64{2, 3} {
		if got, found := h.Before(number); found {
			t.Errorf("Before(%d) = %d, want none", number, got.Number)
		}
	}
	if got, found := h.Current(); !found || got.Number != 5 || got.Cause != "because 5" || got.Created.Unix() != 1000 {
		t.Errorf("Current = %+v, %t, want the fifth", got, found)
	}
}

func TestChanges(t *testing.T) {
	t.Parallel()
	bar := api.Ref{Kind: api.Secret, Name: "bar"}
	a, b, plain, secret := revisions.Item{Source: foo, Copy: "foo-1"}, revisions.Item{Source: foo, Copy: "foo-2"},
		revisions.Item{Source: foo}, revisions.Item{Source: bar, Copy: "bar-1"}
	for name, test := range map[string]struct {
		from, to []revisions.Item
		want     []revisions.Change
	}{
		"the same":            {from: []revisions.Item{a, secret}, to: []revisions.Item{a, secret}},
		"nothing":             {},
		"another copy":        {[]revisions.Item{a}, []revisions.Item{b}, []revisions.Change{{Source: foo, From: &a, To: &b}}},
		"from the source":     {[]revisions.Item{plain}, []revisions.Item{b}, []revisions.Change{{Source: foo, From: &plain, To: &b}}},
		"one more":            {[]revisions.Item{a}, []revisions.Item{a, secret}, []revisions.Change{{Source: bar, To: &secret}}},
		"one less, and other": {[]revisions.Item{a, secret}, []revisions.Item{b}, []revisions.Change{{Source: foo, From: &a, To: &b}, {Source: bar, From: &secret}}},
	} {
		if diff := cmp.Diff(test.want, revisions.Changes(test.from, test.to)); diff != "" {
			t.Errorf("%s: Changes (-want +got):\n%s", name, diff)
		}
	}
}

func TestOtherChanges(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*corev1.PodTemplateSpec)
		want   []string
	}{
		"nothing but the config": {func(*corev1.PodTemplateSpec) {}, nil},
		"another image":          {func(t *corev1.PodTemplateSpec) { t.Spec.Containers[0].Image = "web:2" }, []string{"spec.containers[0].image"}},
		"a label with a dot": {
			func(t *corev1.PodTemplateSpec) { t.Labels["a.example/b"] = "c" }, []string{"metadata.labels[a.example/b]"},
		},
		"a container more": {
			func(t *corev1.PodTemplateSpec) {
				t.Spec.Containers = append(t.Spec.Containers, corev1.Container{Name: "b"})
			},
			[]string{"spec.containers"},
		},
		"another object that is not a trigger": {
			func(t *corev1.PodTemplateSpec) {
				t.Spec.Volumes = append(slices.Clone(t.Spec.Volumes), t.Spec.Volumes[0])
				t.Spec.Volumes[1].ConfigMap = &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "bar"}}
			},
			[]string{"spec.volumes"},
		},
		"how it is mounted": {
			func(t *corev1.PodTemplateSpec) { t.Spec.Volumes[0].ConfigMap.DefaultMode = new(int32(0o400)) },
			[]string{"spec.volumes[0].configMap.defaultMode"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			after := copied("foo-2")
			test.change(&after)
			for about, before := range map[string]corev1.PodTemplateSpec{"a copy": copied("foo-1"), "the source": pods("foo", "")} {
				h := revisions.OfDeployment(deployment(after, nil), []appsv1.ReplicaSet{replicaSet("1", before), replicaSet("2", after)}, place.Driver)
				got, err := revisions.OtherChanges(h.Revisions[0], h.Revisions[1], place)
				if diff := cmp.Diff(test.want, got); err != nil || diff != "" {
					t.Errorf("after %s: OtherChanges error = %v (-want +got):\n%s", about, err, diff)
				}
			}
		})
	}
}

// TestWhatPodsDoNotUse: a revision has the version of a trigger that the template does not name,
// and no copy of it.
func TestWhatPodsDoNotUse(t *testing.T) {
	t.Parallel()
	config := trigger.Config{foo: trigger.Uncopied("foo-0123456789")}
	set := replicaSet("1", pods("other", config.String()))
	history := revisions.OfDeployment(deployment(pods("other", config.String()), config), []appsv1.ReplicaSet{set}, place.Driver)
	want := []revisions.Item{{Source: foo, Unused: "foo-0123456789"}}
	if diff := cmp.Diff(want, history.Revisions[0].Items); diff != "" {
		t.Errorf("items (-want +got)\n%s", diff)
	}
	if want[0].IsSource() {
		t.Error("pods that do not use a source are reported to use it directly")
	}
}
