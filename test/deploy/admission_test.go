package deploy

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/yaml"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/intree"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/mounts"
	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
)

// policies are those of the chart's admission, installed for a driver with a name that no other test has.
type policies struct {
	*installed
	driver string
}

func installPolicies(t *testing.T, value string) *policies {
	t.Helper()
	c := cluster.ForTest(t)
	p := &policies{installed: &installed{cluster: c, namespace: cluster.NewNamespace(t, c)}}
	p.driver = "csi." + p.namespace + ".example"
	args := append(image(), set("admission."+value+"=true", "driverName="+p.driver)...)
	out, err := helm(t, append([]string{
		"template", p.namespace, "deploy/chart", "--kube-version", "1.36.0", "--show-only", "templates/admission/" + value + ".yaml",
	}, args...)...)
	p.applyText(t, wantDone(t, out, err))
	return p
}

// namespaceWith creates a namespace with a value of the label.
func (p *policies) namespaceWith(t *testing.T, label string) string {
	t.Helper()
	namespace := cluster.NewNamespace(t, p.cluster)
	if _, err := p.cluster.Kubectl(t.Context(), "label", "namespace", namespace, api.Domain+"/volumes="+label); err != nil {
		t.Fatal(err)
	}
	return namespace
}

// podOf returns a pod as a ReplicaSet makes it.
func podOf(volumes ...corev1.VolumeSource) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "1", Controller: new(true)},
		}},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken: new(false),
			Containers:                   []corev1.Container{{Name: "web", Image: "web"}},
		},
	}
	for i, v := range volumes {
		name := fmt.Sprintf("volume-%d", i)
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: v})
		mount := corev1.VolumeMount{Name: name, MountPath: "/" + name}
		pod.Spec.Containers[0].VolumeMounts = append(pod.Spec.Containers[0].VolumeMounts, mount)
	}
	return pod
}

// creates returns the volumes that a pod has once the API server has taken it, in a dry run.
func (p *policies) creates(ctx context.Context, namespace string, pod *corev1.Pod) ([]corev1.Volume, error) {
	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	created, err := p.cluster.Client().CoreV1().Pods(namespace).Create(ctx, pod, dry)
	if err != nil {
		return nil, err
	}
	return created.Spec.Volumes, nil
}

// awaitConversion waits until the policy is in force.
func (p *policies) awaitConversion(t *testing.T, namespace string, v corev1.VolumeSource) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		volumes, err := p.creates(ctx, namespace, podOf(v))
		return err == nil && volumes[0].CSI != nil, err
	})
	if err != nil {
		t.Fatalf("the policy is not in force in namespace %s: %v", namespace, err)
	}
}

// wantSame wants that a volume is ours, with attributes that mean what those of another one do.
func (p *policies) wantSame(t *testing.T, name string, got corev1.VolumeSource, want map[string]string) {
	t.Helper()
	if got.CSI == nil || got.CSI.Driver != p.driver || got.CSI.ReadOnly == nil || !*got.CSI.ReadOnly ||
		got.ConfigMap != nil || got.Secret != nil || got.Projected != nil {
		t.Errorf("%s: the volume is %v, want a read-only one of %s", name, got, p.driver)
		return
	}
	specs := make([]api.Spec, 2)
	for i, attributes := range []map[string]string{want, got.CSI.VolumeAttributes} {
		var err error
		if specs[i], err = api.Parse(attributes, "shop"); err != nil {
			t.Errorf("%s: %q: %v", name, attributes, err)
			return
		}
	}
	if diff := cmp.Diff(specs[0], specs[1]); diff != "" {
		t.Errorf("%s: attributes %q (-want +got):\n%s", name, got.CSI.VolumeAttributes, diff)
	}
}

// volumeRow is a row of the table that the plugin's conversion is tested with too.
type volumeRow struct {
	Name       string              `json:"name"`
	Volume     corev1.VolumeSource `json:"volume"`
	Attributes map[string]string   `json:"attributes"`
}

func volumeRows(t *testing.T) []volumeRow {
	t.Helper()
	var rows []volumeRow
	if err := yaml.UnmarshalStrict([]byte(read(t, inRepo(t, "pkg", "cli", "intree", "testdata", "volumes.yaml"))), &rows); err != nil {
		t.Fatal(err)
	}
	return rows
}

var (
	aConfigMap = corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "web"}}}
	aSecret    = corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "tls"}}
)

// TestVolumesOfALabelledNamespace: the API server converts the volumes of new pods as the plugin converts those of manifests.
func TestVolumesOfALabelledNamespace(t *testing.T) {
	t.Parallel()
	p := installPolicies(t, "volumes")
	both := p.namespaceWith(t, "configMaps.secrets")
	p.awaitConversion(t, both, aConfigMap)
	for _, row := range volumeRows(t) {
		volumes, err := p.creates(t.Context(), both, podOf(row.Volume))
		p.wantForeseen(t, row.Name, "configMaps.secrets", podOf(row.Volume), volumes)
		switch {
		case row.Attributes != nil && err != nil:
			t.Errorf("%s: %v", row.Name, err)
		case row.Attributes != nil:
			p.wantSame(t, row.Name, volumes[0].VolumeSource, row.Attributes)
		case err == nil && volumes[0].CSI != nil:
			t.Errorf("%s: the volume became %v, want that it stays as it is", row.Name, volumes[0].CSI)
		case err != nil && !apierrors.IsInvalid(err):
			t.Errorf("%s: %v, want that the volume stays or is invalid", row.Name, err)
		}
	}
	p.wantMounts(t, both)
	p.wantRandomMounts(t, both)
	p.wantManyMounts(t, both)
	p.wantRandomVolumes(t, both)
	p.wantManyItems(t, both)
	p.wantLimitsForeseen(t, both)
	p.wantOthersAlone(t, both)
	p.wantOwners(t, both)
	p.wantBarePodsAppliedAgain(t, both)
	p.wantWarningsOfTheAnnotation(t, both)
	p.wantInjectedVolumesAlone(t)
	p.wantReasons(t, both)
}

// sameAsPlugin creates a pod, and wants of each volume what the plugin makes of it with the same mounts.
func (p *policies) sameAsPlugin(t *testing.T, name, namespace string, pod *corev1.Pod) (got []corev1.Volume) {
	t.Helper()
	volumes, err := p.creates(t.Context(), namespace, pod)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return nil
	}
	namer := intree.Namer{Driver: p.driver, Namespace: namespace}
	for i, v := range pod.Spec.Volumes {
		want, err := namer.ToLiveconfig(v.VolumeSource)
		if err == nil {
			_, err = namer.AddNeeds(want, v.Name, mounts.Containers(&pod.Spec))
		}
		switch {
		case err == nil:
			p.wantSame(t, name, volumes[i].VolumeSource, want.VolumeAttributes)
		case volumes[i].CSI != nil:
			t.Errorf("%s: the volume became %v, and the plugin says %v", name, volumes[i].CSI, err)
		}
	}
	p.wantForeseen(t, name, "configMaps.secrets", pod, volumes)
	return volumes
}

// wantManyItems checks that a large volume is within what the API server lets an expression cost.
func (p *policies) wantManyItems(t *testing.T, namespace string) {
	t.Helper()
	const sources, items = 8, 50 // As many as the policy looks at.
	projected := &corev1.ProjectedVolumeSource{}
	for s := range sources {
		source := &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: fmt.Sprintf("web-%d", s)}}
		for i := range items {
			path := fmt.Sprintf("some/folder/of-%d/some-file-with-a-long-name-%d.conf", s, i)
			source.Items = append(source.Items, corev1.KeyToPath{Key: fmt.Sprintf("some-key-%d", i), Path: path})
		}
		projected.Sources = append(projected.Sources, corev1.VolumeProjection{ConfigMap: source})
	}
	v := corev1.VolumeSource{Projected: projected}
	want, err := intree.Namer{Driver: p.driver, Namespace: namespace}.ToLiveconfig(v)
	if err != nil {
		t.Fatal(err)
	}
	volumes, err := p.creates(t.Context(), namespace, podOf(v, aConfigMap))
	if err != nil {
		t.Fatal(err)
	}
	p.wantSame(t, "a volume of many files", volumes[0].VolumeSource, want.VolumeAttributes)
	p.wantSame(t, "a volume beside it", volumes[1].VolumeSource, map[string]string{"configMap": "web"})
}

// wantOthersAlone checks what decides about whole pods.
func (p *policies) wantOthersAlone(t *testing.T, both string) {
	t.Helper()
	configMaps, secrets := p.namespaceWith(t, "configMaps"), p.namespaceWith(t, "secrets")
	p.awaitConversion(t, configMaps, aConfigMap)
	p.awaitConversion(t, secrets, aSecret)
	mixed := corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "web"}}},
		{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "tls"}}},
	}}}
	onNodes := func(os string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) { pod.Spec.NodeSelector = map[string]string{corev1.LabelOSStable: os} }
	}
	annotated := func(key, value string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) { pod.Annotations = map[string]string{key: value} }
	}
	tests := map[string]struct {
		namespace, label string
		change           func(*corev1.Pod)
		want             []bool // Whether the ConfigMap, the Secret and both in one volume are ours.
	}{
		"both kinds":                 {both, "configMaps.secrets", nil, []bool{true, true, true}},
		"ConfigMaps":                 {configMaps, "configMaps", nil, []bool{true, false, false}},
		"Secrets":                    {secrets, "secrets", nil, []bool{false, true, false}},
		"no label":                   {cluster.NewNamespace(t, p.cluster), "", nil, []bool{false, false, false}},
		"another value":              {p.namespaceWith(t, "all"), "all", nil, []bool{false, false, false}},
		"a pod that opts out":        {both, "configMaps.secrets", annotated(api.Domain+"/volumes", "none"), []bool{false, false, false}},
		"another annotation":         {both, "configMaps.secrets", annotated(api.Domain+"/volumes", "some"), []bool{true, true, true}},
		"a pod of Windows":           {both, "configMaps.secrets", func(pod *corev1.Pod) { pod.Spec.OS = &corev1.PodOS{Name: corev1.Windows} }, []bool{false, false, false}},
		"a pod for nodes of Windows": {both, "configMaps.secrets", onNodes("windows"), []bool{false, false, false}},
		"a pod for nodes of Linux":   {both, "configMaps.secrets", onNodes("linux"), []bool{true, true, true}},
		"a pod that says its OS":     {both, "configMaps.secrets", func(pod *corev1.Pod) { pod.Spec.OS = &corev1.PodOS{Name: corev1.Linux} }, []bool{true, true, true}},
	}
	for name, test := range tests {
		pod := podOf(aConfigMap, aSecret, mixed, corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})
		if test.change != nil {
			test.change(pod)
		}
		volumes, err := p.creates(t.Context(), test.namespace, pod)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		p.wantForeseen(t, name, test.label, pod, volumes)
		var got []bool
		for _, v := range volumes {
			got = append(got, v.CSI != nil)
		}
		if diff := cmp.Diff(append(test.want, false), got); diff != "" {
			t.Errorf("%s: which volumes are ours (-want +got):\n%s", name, diff)
		}
	}
	out, err := newBench(t, p.cluster).types("kubectl label namespace " + both + " --overwrite --dry-run=server " + api.Domain + "/volumes=configMap")
	if err != nil || !strings.Contains(out, "must be configMaps, secrets or configMaps.secrets") {
		t.Errorf("a mistake in the label = %v, %q, want a warning", err, out)
	}
}

// wantRandomVolumes compares with the plugin's conversion. A text that a reader of YAML might not take as it is may also stay
// in a volume of Kubernetes.
func (p *policies) wantRandomVolumes(t *testing.T, namespace string) {
	t.Helper()
	namer := intree.Namer{Driver: p.driver, Namespace: namespace}
	r := rand.New(rand.NewPCG(1, 2))
	same, left, refused := 0, 0, 0
	for range 600 {
		v := randomVolume(r)
		volumes, err := p.creates(t.Context(), namespace, podOf(v))
		want, wantErr := namer.ToLiveconfig(v)
		p.wantForeseen(t, fmt.Sprint(v), "configMaps.secrets", podOf(v), volumes)
		switch {
		case apierrors.IsInvalid(err):
			refused++
		case err != nil:
			t.Errorf("%v: %v", v, err)
		case wantErr != nil && volumes[0].CSI != nil:
			t.Errorf("%v became %v, and the plugin says %v", v, volumes[0].CSI, wantErr)
		case wantErr != nil:
			left++
		case volumes[0].CSI == nil && !hasOddText(v):
			t.Errorf("%v stays, and the plugin converts it", v)
		case volumes[0].CSI != nil:
			same++
			p.wantSame(t, fmt.Sprint(v), volumes[0].VolumeSource, want.VolumeAttributes)
		}
	}
	if same < 100 || left < 5 || refused < 20 {
		t.Errorf("%d volumes were converted, %d left alone and %d refused by the API server, want many of each", same, left, refused)
	}
}

const oddText = "odd\u2028\n\x01text"

func hasOddText(v corev1.VolumeSource) bool { return strings.Contains(v.String(), oddText) }

func randomVolume(r *rand.Rand) corev1.VolumeSource {
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	rarely := func(of ...string) string { return pick(append(slices.Repeat([]string{"web"}, 2*len(of)), of...)...) }
	ref := func() corev1.LocalObjectReference {
		return corev1.LocalObjectReference{Name: pick("web", "tls", "1e3", "a.b-c", "true", "web", "x", "0", rarely("No_name", ""))}
	}
	optional := func() *bool { return []*bool{nil, new(true), new(false)}[r.IntN(3)] }
	mode := func() *int32 {
		return []*int32{nil, new(int32(r.IntN(0o1000))), new(int32(r.IntN(0o1000))), new(int32(0o1777))}[r.IntN(50)%4]
	}
	items := func() []corev1.KeyToPath {
		var list []corev1.KeyToPath
		for range r.IntN(4) {
			key := pick("a", "true", "1.0", "ключ", "two words", `q"\'`, "-", "{x: y}", oddText)
			path := pick("a", "b", "c", "a/b", "c//d", "./e", "x: y # z", `q"\'`, "日本/k", rarely("..f", "g/..", "../h", "/i", ".", "./..j", oddText))
			list = append(list, corev1.KeyToPath{Key: key, Path: path, Mode: mode()})
		}
		return list
	}
	switch r.IntN(3) {
	case 0:
		return corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: ref(), Items: items(), Optional: optional(), DefaultMode: mode(),
		}}
	case 1:
		return corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: ref().Name, Items: items(), Optional: optional(), DefaultMode: mode()}}
	}
	projected := &corev1.ProjectedVolumeSource{DefaultMode: mode()}
	for range 1 + r.IntN(3) {
		if r.IntN(2) == 0 {
			projected.Sources = append(projected.Sources, corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{
				LocalObjectReference: ref(), Items: items(), Optional: optional(),
			}})
			continue
		}
		projected.Sources = append(projected.Sources, corev1.VolumeProjection{Secret: &corev1.SecretProjection{
			LocalObjectReference: ref(), Items: items(), Optional: optional(),
		}})
	}
	return corev1.VolumeSource{Projected: projected}
}
