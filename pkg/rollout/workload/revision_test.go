package workload_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/liveconfig-csi/liveconfig/pkg/rollout/workload"
)

// patch is what the controllers of StatefulSets and DaemonSets keep of a template.
func patch(t testing.TB, template corev1.PodTemplateSpec) string {
	t.Helper()
	text, err := json.Marshal(template)
	if err != nil {
		t.Fatal(err)
	}
	return `{"spec":{"template":` + strings.TrimSuffix(string(text), "}") + `,"$patch":"replace"}}}`
}

// controlledBy is the owner that such an object has.
func controlledBy(apiVersion, kind string) *metav1.OwnerReference {
	return &metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: "web", UID: "u-owner", Controller: new(true)}
}

func revision(m metav1.ObjectMeta, owner *metav1.OwnerReference, data string) *appsv1.ControllerRevision {
	if owner != nil {
		m.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: "u-x"}, *owner}
	}
	return &appsv1.ControllerRevision{ObjectMeta: m, Revision: 4, Data: runtime.RawExtension{Raw: []byte(data)}}
}

func TestOfControllerRevision(t *testing.T) {
	t.Parallel()
	full := template()
	full.Annotations = map[string]string{"liveconfig.internal/config": `{"configmap/foo":"foo-0123456789"}`}
	full.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "foo-0123456789"}, DefaultMode: new(int32(0o640))},
	}}}
	full.Spec.Containers[0].Resources.Limits = corev1.ResourceList{}
	for name, owner := range map[string]*metav1.OwnerReference{
		"of a StatefulSet":             controlledBy("apps/v1", "StatefulSet"),
		"of a DaemonSet":               controlledBy("apps/v1", "DaemonSet"),
		"of a StatefulSet of long ago": controlledBy("apps/v1beta1", "StatefulSet"),
		"without an owner":             nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, ok := workload.OfControllerRevision(revision(meta(), owner, patch(t, full)))
			if !ok {
				t.Fatal("it is taken for somebody else's")
			}
			want := workload.Revision{
				Kind: workload.ControllerRevision, Namespace: "shop", Name: "web", UID: "u-1", Number: 4, Template: &full,
			}
			if owner != nil {
				want.Owner = "u-owner"
			}
			if diff := cmp.Diff(want, got, cmp.Comparer(sameJSON)); diff != "" {
				t.Errorf("OfControllerRevision (-want +got)\n%s", diff)
			}
		})
	}
}

// sameJSON is for templates, in which nothing and an empty list are one.
func sameJSON(a, b *corev1.PodTemplateSpec) bool {
	one, errA := json.Marshal(a)
	other, errB := json.Marshal(b)
	return errA == nil && errB == nil && string(one) == string(other)
}

func TestRevisionsOfOthers(t *testing.T) {
	t.Parallel()
	ours := controlledBy("apps/v1", "StatefulSet")
	tests := map[string]struct {
		owner *metav1.OwnerReference
		data  string
	}{
		"of another kind":                    {controlledBy("apps/v1", "Deployment"), patch(t, template())},
		"of another group":                   {controlledBy("apps.kruise.io/v1beta1", "StatefulSet"), patch(t, template())},
		"of an invalid version":              {controlledBy("a/b/c", "DaemonSet"), patch(t, template())},
		"no data":                            {ours, ""},
		"null":                               {ours, "null"},
		"no JSON":                            {ours, "spec: {}"},
		"no spec":                            {ours, `{"data":{"a":"b"}}`},
		"no template":                        {ours, `{"spec":{"replicas":3}}`},
		"a template of null":                 {ours, `{"spec":{"template":null}}`},
		"a template that is a text":          {ours, `{"spec":{"template":"$patch"}}`},
		"a part of a template":               {ours, `{"spec":{"template":{"spec":{"priority":1}}}}`},
		"a template that is to be merged":    {ours, `{"spec":{"template":{"spec":{"priority":1},"$patch":"merge"}}}`},
		"a template that is to be deleted":   {ours, `{"spec":{"template":{"$patch":"delete"}}}`},
		"a field of another type":            {ours, `{"spec":{"template":{"spec":{"containers":{}},"$patch":"replace"}}}`},
		"an invalid quantity":                {ours, `{"spec":{"template":{"spec":{"overhead":{"cpu":"x"}},"$patch":"replace"}}}`},
		"keys that are only nearly the same": {ours, `{"Spec":{"Template":{"$patch":"replace"}}}`},
		"deeper than a parser should go":     {ours, strings.Repeat(`{"spec":`, 20_000)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, ok := workload.OfControllerRevision(revision(meta(), test.owner, test.data)); ok {
				t.Errorf("OfControllerRevision = %+v, want it to be somebody else's", got)
			}
		})
	}
}

func TestOfReplicaSet(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(*appsv1.ReplicaSet)
		want   func(*workload.Revision)
	}{
		"the newest": {
			func(s *appsv1.ReplicaSet) { s.Spec.Replicas, s.Status.Replicas = new(int32(3)), 3 },
			func(r *workload.Revision) { r.Live = true },
		},
		"an old one": {func(s *appsv1.ReplicaSet) { s.Spec.Replicas = new(int32(0)) }, func(*workload.Revision) {}},
		"one that is scaled to none and has a pod": {
			func(s *appsv1.ReplicaSet) { s.Spec.Replicas, s.Status.Replicas = new(int32(0)), 1 },
			func(r *workload.Revision) { r.Live = true },
		},
		"nothing is said of replicas": {func(*appsv1.ReplicaSet) {}, func(r *workload.Revision) { r.Live = true }},
		"one that has no number yet": {
			func(s *appsv1.ReplicaSet) { s.Annotations = nil; s.Spec.Replicas = new(int32(0)) },
			func(r *workload.Revision) { r.Number = 0 },
		},
		"a number that somebody has edited": {
			func(s *appsv1.ReplicaSet) {
				s.Annotations["deployment.kubernetes.io/revision"] = "99999999999999999999"
				s.Spec.Replicas = new(int32(0))
			},
			func(r *workload.Revision) { r.Number = 0 },
		},
		"one on its own": {
			func(s *appsv1.ReplicaSet) { s.OwnerReferences = nil; s.Spec.Replicas = new(int32(1)) },
			func(r *workload.Revision) { r.Owner, r.Live = "", true },
		},
		"one that is being deleted": {
			func(s *appsv1.ReplicaSet) { s.DeletionTimestamp = new(metav1.Now()); s.Spec.Replicas = new(int32(0)) },
			func(r *workload.Revision) { r.Deleting = true },
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &appsv1.ReplicaSet{ObjectMeta: meta(), Spec: appsv1.ReplicaSetSpec{Template: template()}}
			s.Annotations = map[string]string{"deployment.kubernetes.io/revision": "12"}
			s.OwnerReferences = []metav1.OwnerReference{*controlledBy("apps/v1", "Deployment")}
			test.change(s)
			want := workload.Revision{
				Kind: workload.ReplicaSet, Namespace: "shop", Name: "web", UID: "u-1", Owner: "u-owner", Number: 12, Template: &s.Spec.Template,
			}
			test.want(&want)
			if diff := cmp.Diff(want, workload.OfReplicaSet(s)); diff != "" {
				t.Errorf("OfReplicaSet (-want +got)\n%s", diff)
			}
		})
	}
}

// FuzzOfControllerRevision is for what anybody may keep in a ControllerRevision.
func FuzzOfControllerRevision(f *testing.F) {
	f.Add([]byte(patch(f, template())))
	for _, seed := range []string{
		"", "null", "{}", `{"spec":{"template":{"$patch":"replace"}}}`, `{"spec":{"template":{"$patch":1}}}`, "\xff", `{"spec":[]}`,
		`{"spec":{"template":{"spec":{"containers":[null,{"resources":{"limits":{"cpu":"1e99999"}}}]},"$patch":"replace"}}}`,
		`{"spec":{"template":{"metadata":{"creationTimestamp":"x"},"$patch":"replace"}}}`,
		`{"spec":{"template":{"spec":{"containers":[{"ports":[{"containerPort":1e400}]}]},"$patch":"replace"}}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, ok := workload.OfControllerRevision(revision(meta(), nil, string(data)))
		if !ok {
			if got.Template != nil {
				t.Errorf("OfControllerRevision of %q = %+v, want nothing", data, got)
			}
			return
		}
		again, ok := workload.OfControllerRevision(revision(meta(), nil, patch(t, *got.Template)))
		if !ok || !sameJSON(again.Template, got.Template) {
			t.Errorf("OfControllerRevision of %q, written and read again, is %v %+v, want %+v", data, ok, again.Template, got.Template)
		}
	})
}
