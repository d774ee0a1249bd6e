package deploy

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/intree"
)

// mountRow is a row of the table that the plugin's rules about mounts are tested with too.
type mountRow struct {
	Name        string               `json:"name"`
	Volume      corev1.VolumeSource  `json:"volume"`
	Init        []corev1.VolumeMount `json:"init"`
	Mounts      []corev1.VolumeMount `json:"mounts"`
	Stays       bool                 `json:"stays"`
	Policy      string               `json:"updatePolicy"`
	MountPoints string               `json:"mountPoints"`
}

// wantMounts checks what the mounts of a volume make of it.
func (p *policies) wantMounts(t *testing.T, namespace string) {
	t.Helper()
	var rows []mountRow
	table := read(t, inRepo(t, "pkg", "cli", "mounts", "testdata", "mounts.yaml"))
	if err := yaml.UnmarshalStrict([]byte(table), &rows); err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		pod := podOf(row.Volume, corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})
		pod.Spec.Volumes[0].Name, pod.Spec.Volumes[1].Name = "config", "other"
		pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", Value: "a"}}
		pod.Spec.Containers[0].VolumeMounts = row.Mounts
		pod.Spec.InitContainers = []corev1.Container{{Name: "init", Image: "web", VolumeMounts: row.Init}}
		volumes := p.sameAsPlugin(t, row.Name, namespace, pod)
		switch {
		case volumes == nil:
		case row.Stays && volumes[0].CSI != nil:
			t.Errorf("%s: the volume became %v, want that it stays", row.Name, volumes[0].CSI)
		case row.Stays:
		case volumes[0].CSI == nil:
			t.Errorf("%s: the volume stays, want it converted", row.Name)
		default:
			p.wantPoints(t, row, volumes[0].CSI.VolumeAttributes)
		}
	}
}

// wantPoints compares with a row.
func (p *policies) wantPoints(t *testing.T, row mountRow, got map[string]string) {
	t.Helper()
	want := map[string]string{"configMap": "web"}
	if row.MountPoints != "" {
		want["mountPoints"] = row.MountPoints
	}
	wantSpec, err := api.Parse(want, "shop")
	if err != nil {
		t.Fatalf("%s: %v", row.Name, err)
	}
	gotSpec, err := api.Parse(got, "shop")
	if err != nil {
		t.Fatalf("%s: %v", row.Name, err)
	}
	if diff := cmp.Diff(wantSpec.MountPoints, gotSpec.MountPoints) + cmp.Diff(wantSpec.MountPointsIfAbsent, gotSpec.MountPointsIfAbsent); diff != "" {
		t.Errorf("%s: mountPoints %q (-want +got):\n%s", row.Name, got["mountPoints"], diff)
	}
	if got["updatePolicy"] != row.Policy {
		t.Errorf("%s: updatePolicy %q, want %q", row.Name, got["updatePolicy"], row.Policy)
	}
}

// wantRandomMounts compares with the plugin.
func (p *policies) wantRandomMounts(t *testing.T, namespace string) {
	t.Helper()
	r := rand.New(rand.NewPCG(3, 4))
	converted := 0
	for range 300 {
		pod := podOf(randomVolume(r), corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})
		if hasOddText(pod.Spec.Volumes[0].VolumeSource) {
			continue
		}
		if _, err := (intree.Namer{Driver: p.driver, Namespace: namespace}).ToLiveconfig(pod.Spec.Volumes[0].VolumeSource); err != nil {
			continue
		}
		pod.Spec.InitContainers = []corev1.Container{{Name: "init", Image: "web", VolumeMounts: randomMounts(r)}}
		pod.Spec.Containers[0].VolumeMounts = randomMounts(r)
		if volumes := p.sameAsPlugin(t, fmt.Sprint(pod.Spec), namespace, pod); volumes != nil && volumes[0].CSI != nil {
			converted++
		}
	}
	if converted < 50 {
		t.Errorf("%d volumes were converted, want many", converted)
	}
}

func randomMounts(r *rand.Rand) (list []corev1.VolumeMount) {
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	taken := map[string]bool{}
	for range r.IntN(4) {
		at := pick("/a", "/a/b", "/a/b/c", "/a/bc", "/a//b/../d", "/a/x/y", "/", "/e/./f", "a/g")
		if !taken[at] {
			list = append(list, corev1.VolumeMount{
				Name: pick("volume-0", "volume-0", "volume-1"), MountPath: at, SubPath: pick("", "", "a", "a/b", "c//d/", "z", "./a"),
			})
		}
		taken[at] = true
	}
	return list
}

// wantManyMounts checks that a pod with many mounts is within what the API server lets an expression cost.
func (p *policies) wantManyMounts(t *testing.T, namespace string) {
	t.Helper()
	const volumes, containers = 20, 6
	pod := podOf(slices.Repeat([]corev1.VolumeSource{aConfigMap}, volumes)...)
	var list []corev1.VolumeMount
	for i := range volumes {
		name := fmt.Sprintf("volume-%d", i)
		list = append(list,
			corev1.VolumeMount{Name: name, MountPath: fmt.Sprintf("/etc/some-service/volume-of-number-%d", i)},
			corev1.VolumeMount{Name: name, MountPath: fmt.Sprintf("/etc/some-service/volume-of-number-%d/below", i), SubPath: "below"})
	}
	pod.Spec.Containers = nil
	for i := range containers {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: fmt.Sprintf("web-%d", i), Image: "web", VolumeMounts: list})
	}
	for i, v := range p.sameAsPlugin(t, "many mounts", namespace, pod) {
		if v.CSI == nil {
			t.Fatalf("volume %d of a pod with many mounts stays", i)
		}
	}
}
