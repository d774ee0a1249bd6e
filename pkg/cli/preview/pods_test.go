package preview_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"
	"sigs.k8s.io/yaml"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/preview"
	"github.com/liveconfig-csi/liveconfig/pkg/expect"
)

func TestPods(t *testing.T) {
	t.Parallel()
	got := readSet(t, `
apiVersion: v1
kind: List
items:
  - apiVersion: apps/v1
    kind: Deployment
    metadata: {name: web, namespace: own, annotations: {a: of the deployment}}
    spec: {template: {metadata: {annotations: {a: of the pod}}, spec: {containers: []}}}
  - apiVersion: batch/v1
    kind: CronJob
    metadata: {name: nightly}
    spec: {jobTemplate: {spec: {template: {spec: {containers: []}}}}}
---
apiVersion: example.org/v1
kind: Fleet
metadata: {name: f}
spec:
  ships:
    - template: {metadata: {annotations: {a: first}}, spec: {containers: []}}
    - template: {metadata: {annotations: {a: second}}, spec: {containers: []}}
---
apiVersion: v1
kind: Pod
metadata: {name: p, annotations: {a: first}}
spec: {containers: []}
---
apiVersion: v1
kind: Pod
metadata: {name: p, annotations: {a: last}}
spec: {containers: []}
`).Pods
	want := []preview.Pod{
		{
			APIVersion: "apps/v1", Kind: "Deployment", Namespace: "own", Name: "web", Field: "spec.template.spec",
			Annotations: map[string]string{"a": "of the pod"},
		},
		{APIVersion: "batch/v1", Kind: "CronJob", Namespace: "shop", Name: "nightly", Field: "spec.jobTemplate.spec.template.spec"},
		{
			APIVersion: "example.org/v1", Kind: "Fleet", Namespace: "shop", Name: "f", Field: "spec.ships[0].template.spec",
			Annotations: map[string]string{"a": "first"},
		},
		{
			APIVersion: "example.org/v1", Kind: "Fleet", Namespace: "shop", Name: "f", Field: "spec.ships[1].template.spec",
			Annotations: map[string]string{"a": "second"},
		},
		{APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: "p", Field: "spec", Annotations: map[string]string{"a": "last"}},
	}
	wantSame(t, "Pods", want, got, cmpopts.IgnoreFields(preview.Pod{}, "Spec"), cmpopts.EquateEmpty())
}

func TestContent(t *testing.T) {
	t.Parallel()
	set := readSet(t, objects)
	got, found := set.Content(api.Ref{Kind: api.Secret, Namespace: "shop", Name: "key"})
	if !found {
		t.Fatal("the Secret is not there")
	}
	want := map[string][]byte{"a": []byte("hush"), "k": []byte("key")}
	wantSame(t, "Data", want, got.Data)
	if _, found := set.Content(api.Ref{Kind: api.Secret, Namespace: "other", Name: "key"}); found {
		t.Error("it is there in another namespace")
	}
}

func TestWhatTheServerRefuses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ manifest, want string }{
		"a key that is a path": {
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {a/b: c}", `configmap/x: data: the API server refuses a key: a valid config key`,
		},
		"a key that leads out": {"apiVersion: v1\nkind: Secret\nmetadata: {name: x}\nstringData: {..: c}", `secret/x: stringData: the API server refuses a key: must not be '..'`},
		"a key that is there twice": {
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {a: c}\nbinaryData: {a: Yw==}", `configmap/x: binaryData.a: the API server refuses a key that is in data and in binaryData`,
		},
		"a number": {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {a: 1}", "configmap/x: data.a: a value must be a string: put it in quotes"},
		"a value that is not base64": {
			"apiVersion: v1\nkind: Secret\nmetadata: {name: x}\ndata: {a: hush!}", "secret/x: data: illegal base64 data",
		},
		"too much": {
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {a: " + strings.Repeat("a", 1<<20) + "b}", "refuses 1048577 bytes, the most is 1048576",
		},
		"a pod with a list that is not a list": {
			"apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {containers: [], volumes: {}}", "pod/x: spec: it is not what the API server takes",
		},
		"one of a list": {
			"apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: ConfigMap, metadata: {name: x}, data: {a/b: c}}]", `configmap/x: data: the API server refuses a key`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var data any
			expect.NoError(t, yaml.Unmarshal([]byte(test.manifest), &data))
			var set preview.Set
			err := set.Add(data, "shop")
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Add = %v, want %q", err, test.want)
			}
			if err != nil && strings.Contains(err.Error(), "hush") {
				t.Errorf("the error shows a Secret: %v", err)
			}
		})
	}
}
