package set_test

import (
	"io/fs"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/selection"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/set"
)

func TestParseItem(t *testing.T) {
	t.Parallel()
	mode := new(fs.FileMode(0o400))
	tests := map[string]struct {
		text string
		want api.Item
		err  string
	}{
		"a key under its own name":    {"app.conf", api.Item{Key: "app.conf", Path: "app.conf"}, ""},
		"with a mode":                 {"app.conf:400", api.Item{Key: "app.conf", Path: "app.conf", Mode: mode}, ""},
		"a path":                      {"tls.key=certs/key", api.Item{Key: "tls.key", Path: "certs/key"}, ""},
		"all of it":                   {"tls.key=certs/key:0400", api.Item{Key: "tls.key", Path: "certs/key", Mode: mode}, ""},
		"octal as YAML 1.2 has it":    {"tls.key=key:0o400", api.Item{Key: "tls.key", Path: "key", Mode: mode}, ""},
		"mode zero is one":            {"a=b:000", api.Item{Key: "a", Path: "b", Mode: new(fs.FileMode(0))}, ""},
		"a colon that begins no mode": {"a=b:c", api.Item{Key: "a", Path: "b:c"}, ""},
		"a path with an equals sign":  {"a=b=c", api.Item{Key: "a", Path: "b=c"}, ""},
		"no key":                      {"=b", api.Item{}, "is not KEY=PATH"},
		"no path":                     {"a=", api.Item{}, "is not KEY=PATH"},
		"nothing":                     {"", api.Item{}, "is not KEY=PATH"},
		"digits that are not a mode":  {"a=b:999", api.Item{}, "mode 999, which is not an octal number"},
		"special bits":                {"a=b:4755", api.Item{}, "mode 4755, which is not an octal number"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := set.ParseItem(test.text)
			if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Fatalf("ParseItem(%q) = %v, want an error with %q", test.text, err, test.err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("ParseItem(%q) (-want +got):\n%s", test.text, diff)
			}
		})
	}
}

// TestSetRefusesAndChangesNothing holds that a refusal leaves the spec as it was, also where one
// container would do.
func TestSetRefusesAndChangesNothing(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		name  string
		mount set.Mount
		want  string
	}{
		"another volume has the path":     {"new", set.Mount{Path: "/cache/"}, "container b has volume cache at /cache already: use another --mount-path"},
		"one of ours has the path":        {"new", set.Mount{Path: "/etc/ours"}, "or --name ours to change that volume"},
		"another is mounted below":        {"new", set.Mount{Path: "/etc"}, "volume ours at /etc/ours, which is below /etc"},
		"the name is taken":               {"cache", set.Mount{Path: "/x"}, "volume cache is there already, and is of type emptyDir"},
		"the name is not valid":           {"New", set.Mount{Path: "/x"}, `"New" cannot be the name of a volume`},
		"a new volume needs a path":       {"new", set.Mount{}, "name the path of the volume in containers"},
		"and so does a container":         {"ours", set.Mount{Containers: []string{"a"}}, "name the path of the volume in containers"},
		"the path is relative":            {"new", set.Mount{Path: "x"}, "is not an absolute path"},
		"the path has a colon":            {"new", set.Mount{Path: "/x:y"}, "is not an absolute path"},
		"the container does not exist":    {"new", set.Mount{Path: "/x", Containers: []string{"a", "z"}}, `no container "z", there are: init, a, b`},
		"the replaced volume would clash": {"ours", set.Mount{Path: "/cache"}, "container b has volume cache at /cache already"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := podSpec()
			err := set.Set(spec, ours(test.name), test.mount)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Set = %v, want an error with %q", err, test.want)
			}
			if diff := cmp.Diff(podSpec(), spec); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSetAndRemove(t *testing.T) {
	t.Parallel()
	spec := podSpec()
	if err := set.Set(spec, ours("new"), set.Mount{Path: "/etc/new", Containers: []string{"init", "b"}}); err != nil {
		t.Fatal(err)
	}
	want := podSpec()
	want.Volumes = append(want.Volumes, ours("new"))
	mount := corev1.VolumeMount{Name: "new", MountPath: "/etc/new", ReadOnly: true}
	want.InitContainers[0].VolumeMounts = append(want.InitContainers[0].VolumeMounts, mount)
	want.Containers[1].VolumeMounts = append(want.Containers[1].VolumeMounts, mount)
	if diff := cmp.Diff(want, spec); diff != "" {
		t.Errorf("after Set (-want +got):\n%s", diff)
	}
	if err := set.Remove(spec, "", selection.Driver); err == nil || !strings.Contains(err.Error(), "--name with one of ours, new") {
		t.Errorf("Remove without a name = %v, want an error that lists names", err)
	}
	if err := set.Remove(spec, "cache", selection.Driver); err == nil {
		t.Errorf("Remove of an emptyDir = nil, want an error")
	}
	if err := set.Remove(spec, "new", selection.Driver); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(podSpec(), spec); diff != "" {
		t.Errorf("after Remove (-want +got):\n%s", diff)
	}
}

func podSpec() *corev1.PodSpec {
	return &corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "init", VolumeMounts: []corev1.VolumeMount{}}},
		Containers: []corev1.Container{
			{Name: "a", VolumeMounts: []corev1.VolumeMount{}},
			{Name: "b", VolumeMounts: []corev1.VolumeMount{{Name: "cache", MountPath: "/cache"}, {Name: "ours", MountPath: "/etc/ours"}}},
		},
		Volumes: []corev1.Volume{{Name: "cache", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}, ours("ours")},
	}
}

func ours(name string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{
		Driver: selection.Driver, ReadOnly: new(true), VolumeAttributes: map[string]string{"configMap": name},
	}}}
}
