package deploy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

// barePod is a pod that somebody applies.
func barePod(t *testing.T, name string, annotations map[string]string) string {
	t.Helper()
	pod := podOf(aConfigMap)
	pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	pod.Name, pod.Annotations, pod.OwnerReferences = name, annotations, nil
	text, err := yaml.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), name+".yaml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// wantBarePodsAppliedAgain: a pod that no controller makes has the volumes that were applied, so that the same pod can be
// applied and compared again. With the annotation it gets live volumes, and applying it again is refused.
func (p *policies) wantBarePodsAppliedAgain(t *testing.T, namespace string) {
	t.Helper()
	b := newBench(t, p.cluster)
	for name, again := range map[string]string{
		"client":       "kubectl apply -n " + namespace + " -f ",
		"server":       "kubectl apply --server-side -n " + namespace + " -f ",
		"diff":         "kubectl diff -n " + namespace + " -f ",
		"server-diff":  "kubectl diff --server-side -n " + namespace + " -f ",
		"create-first": "kubectl apply -n " + namespace + " -f ",
	} {
		first := "kubectl apply -n " + namespace + " -f "
		if strings.HasPrefix(name, "server") {
			first = "kubectl apply --server-side -n " + namespace + " -f "
		}
		if name == "create-first" {
			first = "kubectl create --save-config -n " + namespace + " -f "
		}
		bare, asked := barePod(t, name, nil), barePod(t, name+"-live", map[string]string{api.Domain + "/volumes": "live"})
		b.run(first + bare)
		if out, err := b.types(again + bare); err != nil {
			t.Errorf("%s: a bare pod a second time: %v\n%s", name, err, out)
		}
		b.run(first + asked)
		if out, err := b.types(again + asked); err == nil {
			t.Errorf("%s: a bare pod with live volumes is taken a second time: say so in docs/adoption.md\n%s", name, out)
		}
		for of, want := range map[string]string{name: "", name + "-live": p.driver} {
			got := b.run("kubectl get pod " + of + " -n " + namespace + " -o 'jsonpath={.spec.volumes[0].csi.driver}'")
			if got != want {
				t.Errorf("the volume of pod %s has the driver %q, want %q", of, got, want)
			}
		}
	}
}

// wantOwners checks whose pods get live volumes.
func (p *policies) wantOwners(t *testing.T, both string) {
	t.Helper()
	owner := func(apiVersion, kind string, isController *bool) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: "web", UID: "1", Controller: isController}
	}
	for name, test := range map[string]struct {
		owners []metav1.OwnerReference
		want   bool
	}{
		"a ReplicaSet's":               {[]metav1.OwnerReference{owner("apps/v1", "ReplicaSet", new(true))}, true},
		"a StatefulSet's":              {[]metav1.OwnerReference{owner("apps/v1", "StatefulSet", new(true))}, true},
		"a DaemonSet's":                {[]metav1.OwnerReference{owner("apps/v1", "DaemonSet", new(true))}, true},
		"a Job's":                      {[]metav1.OwnerReference{owner("batch/v1", "Job", new(true))}, true},
		"a Job's, beside an owner":     {[]metav1.OwnerReference{owner("v1", "ConfigMap", nil), owner("batch/v1", "Job", new(true))}, true},
		"of an owner, no controller":   {[]metav1.OwnerReference{owner("batch/v1", "Job", nil)}, false},
		"of an owner, not controlling": {[]metav1.OwnerReference{owner("batch/v1", "Job", new(false))}, false},
		"an operator's":                {[]metav1.OwnerReference{owner("postgresql.cnpg.io/v1", "Cluster", new(true))}, false},
		"another group's StatefulSet":  {[]metav1.OwnerReference{owner("apps.kruise.io/v1beta1", "StatefulSet", new(true))}, false},
		"another group's Job":          {[]metav1.OwnerReference{owner("batch.volcano.sh/v1alpha1", "Job", new(true))}, false},
		"a ReplicationController's":    {[]metav1.OwnerReference{owner("v1", "ReplicationController", new(true))}, false},
		"a Deployment's":               {[]metav1.OwnerReference{owner("apps/v1", "Deployment", new(true))}, false},
		"nobody's":                     {nil, false},
	} {
		for _, isAsked := range []bool{false, true} {
			pod := podOf(aConfigMap)
			pod.OwnerReferences = test.owners
			if isAsked {
				pod.Annotations = map[string]string{api.Domain + "/volumes": "live"}
			}
			volumes, err := p.creates(t.Context(), both, pod)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if got := volumes[0].CSI != nil; got != (test.want || isAsked) {
				t.Errorf("%s, asked %t: the volume is ours = %t", name, isAsked, got)
			}
			p.wantForeseen(t, name, "configMaps.secrets", pod, volumes)
		}
	}
}

// wantWarningsOfTheAnnotation: a value of the annotation that means nothing is a warning, for pods and for templates.
func (p *policies) wantWarningsOfTheAnnotation(t *testing.T, namespace string) {
	t.Helper()
	b := newBench(t, p.cluster)
	const template = `template: {metadata: {labels: {app: web}, annotations: {` + api.Domain + `/volumes: VALUE}}, ` +
		`spec: {restartPolicy: POLICY, containers: [{name: web, image: web}]}}`
	const selector = "selector: {matchLabels: {app: web}}, "
	manifest := func(apiVersion, kind, spec, policy string) string {
		text := "{apiVersion: " + apiVersion + ", kind: " + kind + ", metadata: {name: web}, spec: {" + spec + "}}"
		return strings.ReplaceAll(text, "POLICY", policy)
	}
	for kind, text := range map[string]string{
		"pod": "{apiVersion: v1, kind: Pod, metadata: {name: web, annotations: {" + api.Domain + "/volumes: VALUE}}, " +
			"spec: {containers: [{name: web, image: web}]}}",
		"deployment":  manifest("apps/v1", "Deployment", selector+template, "Always"),
		"statefulset": manifest("apps/v1", "StatefulSet", selector+"serviceName: web, "+template, "Always"),
		"daemonset":   manifest("apps/v1", "DaemonSet", selector+template, "Always"),
		"job":         manifest("batch/v1", "Job", template, "Never"),
		"cronjob":     manifest("batch/v1", "CronJob", `schedule: "0 0 * * *", jobTemplate: {spec: {`+template+"}}", "Never"),
	} {
		for value, want := range map[string]bool{"none": false, "live": false, "Live": true, "configMaps": true, `""`: true} {
			path := filepath.Join(t.TempDir(), kind+".yaml")
			if err := os.WriteFile(path, []byte(strings.ReplaceAll(text, "VALUE", value)), 0o600); err != nil {
				t.Fatal(err)
			}
			out := b.run("kubectl create --dry-run=server -n " + namespace + " -f " + path)
			const warning = "the annotation " + api.Domain + "/volumes must be live or none"
			if got := strings.Contains(out, warning); got != want {
				t.Errorf("%s with the annotation %s: warns %t, want %t:\n%s", kind, value, got, want, out)
			}
		}
	}
}
