package mounts_test

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/intree"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/mounts"
)

// row is one of the table that the tests of the chart's policy read too.
type row struct {
	Name        string               `json:"name"`
	Volume      corev1.VolumeSource  `json:"volume"`
	Init        []corev1.VolumeMount `json:"init"`
	Mounts      []corev1.VolumeMount `json:"mounts"`
	Stays       bool                 `json:"stays"`
	Policy      string               `json:"updatePolicy"`
	MountPoints string               `json:"mountPoints"`
}

func (r row) containers() []mounts.Container {
	list := []mounts.Container{{Name: "init"}, {Name: "web"}}
	for i, of := range [][]corev1.VolumeMount{r.Init, r.Mounts} {
		for _, m := range of {
			list[i].Mounts = append(list[i].Mounts,
				mounts.Mount{Volume: m.Name, Path: m.MountPath, SubPath: m.SubPath, SubPathExpr: m.SubPathExpr})
		}
	}
	return list
}

// TestNeeds: what containers mount decides about mount points and the policy.
func TestNeeds(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/mounts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var rows []row
	if err := yaml.UnmarshalStrict(text, &rows); err != nil {
		t.Fatal(err)
	}
	namer := intree.Namer{Driver: "csi.example", Namespace: "shop"}
	for _, r := range rows {
		t.Run(r.Name, func(t *testing.T) {
			t.Parallel()
			csi, err := namer.ToLiveconfig(r.Volume)
			if err != nil {
				t.Fatal(err)
			}
			before := len(csi.VolumeAttributes)
			_, err = namer.AddNeeds(csi, "config", r.containers())
			if (err != nil) != r.Stays {
				t.Fatalf("AddNeeds = %v, want that it stays: %t", err, r.Stays)
			}
			if r.Stays {
				return
			}
			want := map[string]string{"configMap": "web"}
			if r.MountPoints != "" {
				want[api.KeyMountPoints], before = r.MountPoints, before+1
			}
			if r.Policy != "" {
				want[api.KeyUpdatePolicy], before = r.Policy, before+1
			}
			if len(csi.VolumeAttributes) != before {
				t.Errorf("attributes are %q, want %d of them", csi.VolumeAttributes, before)
			}
			for key := range want {
				if key != "configMap" && csi.VolumeAttributes[key] == "" {
					t.Errorf("attributes are %q, want %s", csi.VolumeAttributes, key)
				}
			}
			wantSpec, gotSpec := parse(t, want), parse(t, csi.VolumeAttributes)
			gotSpec.Sources, gotSpec.DefaultMode = wantSpec.Sources, wantSpec.DefaultMode
			if diff := cmp.Diff(wantSpec, gotSpec); diff != "" {
				t.Errorf("attributes %q (-want +got):\n%s", csi.VolumeAttributes, diff)
			}
		})
	}
}

func parse(t *testing.T, attributes map[string]string) api.Spec {
	t.Helper()
	spec, err := api.Parse(attributes, "shop")
	if err != nil {
		t.Fatalf("%q: %v", attributes, err)
	}
	return spec
}
