package deploy

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/admission"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/selection"
)

// wantForeseen wants that the plugin foresees which volumes of a pod the API server converts, and with which attributes.
func (p *policies) wantForeseen(t *testing.T, name, label string, pod *corev1.Pod, got []corev1.Volume) {
	t.Helper()
	seen := map[int]admission.Volume{}
	w, _ := selection.AsWorkload(pod)
	for _, v := range (admission.Policy{Driver: p.driver, Namespace: "shop", Value: label}).Volumes(w) {
		seen[v.Index] = v
	}
	for i, v := range got {
		foreseen := seen[i]
		switch {
		case (v.CSI != nil) != (foreseen.CSI != nil):
			t.Errorf("%s: volume %d is %v, and the plugin foresees %v (%q)", name, i, v.VolumeSource, foreseen.CSI, foreseen.Reason)
		case v.CSI != nil:
			p.wantSame(t, name, v.VolumeSource, foreseen.CSI.VolumeAttributes)
		case foreseen.Reason == "" && v.EmptyDir == nil:
			t.Errorf("%s: volume %d stays, and the plugin gives no reason", name, i)
		}
	}
}

// podWithItems has so many items in volumes.
func podWithItems(items ...int) *corev1.Pod {
	var volumes []corev1.VolumeSource
	for _, n := range items {
		v := &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "web"}}
		for i := range n {
			key := string(rune('a'+i%26)) + string(rune('a'+i/26))
			v.Items = append(v.Items, corev1.KeyToPath{Key: key, Path: key})
		}
		volumes = append(volumes, corev1.VolumeSource{ConfigMap: v})
	}
	return podOf(volumes...)
}

// podWithPlaces has so many mounts below its volume, each at a place of such a size.
func podWithPlaces(count, size int) *corev1.Pod {
	pod := podOf(aConfigMap, corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})
	for i := range count {
		place := fmt.Sprintf("%0*d", size, i)
		for at := 200; at < size-4; at += 200 {
			place = place[:at] + "/" + place[at+1:]
		}
		mount := corev1.VolumeMount{Name: "volume-1", MountPath: "/volume-0/" + place}
		pod.Spec.Containers[0].VolumeMounts = append(pod.Spec.Containers[0].VolumeMounts, mount)
	}
	return pod
}

// podWithMounts has so many volumes, and so many mounts of them in a container.
func podWithMounts(volumes, count int) *corev1.Pod {
	pod := podOf(slices.Repeat([]corev1.VolumeSource{aConfigMap}, volumes)...)
	pod.Spec.Containers[0].VolumeMounts = nil
	for i := range count {
		pod.Spec.Containers[0].VolumeMounts = append(pod.Spec.Containers[0].VolumeMounts, corev1.VolumeMount{
			Name: fmt.Sprintf("volume-%d", i%volumes), SubPath: "some/file.conf",
			MountPath: fmt.Sprintf("/etc/some-service/with/a/long/path/%d/some-file.conf", i),
		})
	}
	return pod
}

// wantLimitsForeseen checks the plugin at the limits of the policy, on both sides of each.
func (p *policies) wantLimitsForeseen(t *testing.T, both string) {
	t.Helper()
	long := func(size int) *corev1.Pod {
		v := &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "web"}}
		const each = 3000
		for left := size; left > 0; {
			n := min(each, left-len(`{"key": "a", "path": ""}, `))
			left -= n + len(`{"key": "a", "path": ""}, `)
			path := make([]byte, n)
			for i := range path {
				path[i] = "abcdefghijklmnopqrstuvwxyz"[(i+left)%26]
				if i%50 == 49 && i < n-1 {
					path[i] = '/'
				}
			}
			v.Items = append(v.Items, corev1.KeyToPath{Key: "a", Path: string(path)})
		}
		return podOf(corev1.VolumeSource{ConfigMap: v})
	}
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"400 items": {podWithItems(200, 200), true},
		"401 items": {podWithItems(200, 201), false},
		// Each entry is joined with those beside it, but for the last.
		"65000 bytes": {long(65002), true},
		"65001 bytes": {long(65003), false},

		"39900 pairs of mounts":                  {podWithMounts(20, 190), true},
		"40301 pairs of mounts":                  {podWithMounts(20, 191), false},
		"39936 pairs, half of them with volumes": {podWithMounts(100, 156), true},
		"40349 pairs, half of them with volumes": {podWithMounts(100, 157), false},

		"64 places":             {podWithPlaces(64, 9), true},
		"65 places":             {podWithPlaces(65, 9), false},
		"65000 bytes of places": {podWithPlaces(25, 2600-len(`"", `)), true},
		"65025 bytes of places": {podWithPlaces(25, 2601-len(`"", `)), false},
		"a place of 4096 bytes": {podWithPlaces(1, 4096), true},
		"a place of 4097 bytes": {podWithPlaces(1, 4097), false},
	} {
		volumes, err := p.creates(t.Context(), both, test.pod)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := volumes[0].CSI != nil; got != test.want {
			t.Errorf("%s: the volume is converted = %t, want %t", name, got, test.want)
		}
		p.wantForeseen(t, name, "configMaps.secrets", test.pod, volumes)
	}
}
