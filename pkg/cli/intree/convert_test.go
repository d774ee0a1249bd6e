package intree_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/intree"
	"github.com/liveconfig-csi/liveconfig/pkg/files/treebuilder"
)

var namer = intree.Namer{Driver: "csi.liveconfig.internal", Namespace: "shop"}

// file is what a volume has at a path.
type file struct {
	Data string
	Mode int32
	User int64
}

// objects is what there is: the data of ConfigMaps and Secrets by kind and name.
type objects map[string]map[string]string

// TestConvertedVolumesHoldTheSameFiles builds random in-tree volumes by a small account of what the
// kubelet does, converts them, and has the driver's own packages build what came out. Then it
// converts them back, and builds those again.
func TestConvertedVolumesHoldTheSameFiles(t *testing.T) {
	t.Parallel()
	seeds := 400
	if os.Getenv("LIVECONFIG_SOAK") != "" {
		seeds = 4000
	}
	built, refused := 0, 0
	for seed := range uint64(seeds) {
		r := rand.New(rand.NewPCG(seed, 11))
		v, there := randomVolume(r), randomObjects(r)
		want, wantErr := kubelet(v, there)
		csi, err := namer.ToLiveconfig(v)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		got, gotErr := driver(t, csi, there)
		if gotErr != wantErr || !wantErr && cmp.Diff(want, got) != "" {
			t.Fatalf("seed %d: missing %t, want %t; files (-want +got):\n%s\n%+v", seed, gotErr, wantErr, cmp.Diff(want, got), csi.VolumeAttributes)
		}
		back, err := namer.ToInTree(corev1.VolumeSource{CSI: csi})
		if err != nil {
			t.Fatalf("seed %d: back: %v", seed, err)
		}
		again, againErr := kubelet(back, there)
		if againErr != wantErr || !wantErr && cmp.Diff(want, again) != "" {
			t.Fatalf("seed %d: back: missing %t, want %t; files (-want +got):\n%s", seed, againErr, wantErr, cmp.Diff(want, again))
		}
		if wantErr {
			refused++
		} else {
			built++
		}
	}
	if built < seeds/4 || refused < seeds/8 {
		t.Errorf("%d volumes were built and %d refused, want many of both", built, refused)
	}
}

// kubelet returns which files an in-tree volume has, and whether something required is missing.
func kubelet(v corev1.VolumeSource, there objects) (files map[string]file, missing bool) {
	files = map[string]file{}
	mode, user := int32(0o644), int64(0)
	put := func(kind, name string, items []corev1.KeyToPath, optional *bool) {
		data, exists := there[kind+"/"+name]
		forgives := optional != nil && *optional
		missing = missing || !exists && !forgives
		if len(items) == 0 {
			for key, value := range data {
				files[key] = file{value, mode, user}
			}
		}
		for _, item := range items {
			value, exists := data[item.Key]
			if !exists {
				missing = missing || !forgives
				continue
			}
			f := file{value, mode, user}
			if item.Mode != nil {
				f.Mode = *item.Mode
			}
			if item.User != nil {
				f.User = *item.User
			}
			files[item.Path] = f
		}
	}
	set := func(m *int32, u *int64) {
		if m != nil {
			mode = *m
		}
		if u != nil {
			user = *u
		}
	}
	switch {
	case v.ConfigMap != nil:
		set(v.ConfigMap.DefaultMode, v.ConfigMap.DefaultUser)
		put("configmap", v.ConfigMap.Name, v.ConfigMap.Items, v.ConfigMap.Optional)
	case v.Secret != nil:
		set(v.Secret.DefaultMode, v.Secret.DefaultUser)
		put("secret", v.Secret.SecretName, v.Secret.Items, v.Secret.Optional)
	default:
		set(v.Projected.DefaultMode, v.Projected.DefaultUser)
		for _, p := range v.Projected.Sources {
			if p.ConfigMap != nil {
				put("configmap", p.ConfigMap.Name, p.ConfigMap.Items, p.ConfigMap.Optional)
			}
			if p.Secret != nil {
				put("secret", p.Secret.Name, p.Secret.Items, p.Secret.Optional)
			}
		}
	}
	return files, missing
}

// driver does the same for a volume of liveconfig.
func driver(t *testing.T, csi *corev1.CSIVolumeSource, there objects) (files map[string]file, missing bool) {
	t.Helper()
	if csi.ReadOnly == nil || !*csi.ReadOnly {
		t.Fatal("the volume is not read-only")
	}
	spec, err := api.Parse(csi.VolumeAttributes, "shop")
	if err != nil {
		t.Fatal(err)
	}
	contents := map[api.Ref]api.Content{}
	for name, data := range there {
		kind, name, _ := strings.Cut(name, "/")
		ref := api.Ref{Kind: api.ConfigMap, Namespace: "shop", Name: name}
		if kind == "secret" {
			ref.Kind = api.Secret
		}
		content := api.Content{Ref: ref, Data: map[string][]byte{}}
		for key, value := range data {
			content.Data[key] = []byte(value)
		}
		contents[ref] = content
	}
	tree, err := treebuilder.Build(spec, nil, contents)
	if _, isMissing := errors.AsType[*treebuilder.MissingError](err); isMissing {
		return nil, true
	}
	if err != nil {
		t.Fatal(err)
	}
	files = map[string]file{}
	for _, f := range tree.Files {
		files[f.Path] = file{string(f.Data), int32(f.Mode), int64(tree.UserOf(f))}
	}
	return files, false
}

func randomObjects(r *rand.Rand) objects {
	there := objects{}
	for _, kind := range []string{"configmap", "secret"} {
		for _, name := range []string{"a", "1e3", "yes"} {
			if r.IntN(6) == 0 {
				continue
			}
			data := map[string]string{}
			for _, key := range []string{"k", "true", "1.0", "p"} {
				if r.IntN(8) > 0 {
					data[key] = fmt.Sprintf("%s of %s %s", key, kind, name)
				}
			}
			there[kind+"/"+name] = data
		}
	}
	return there
}

func randomVolume(r *rand.Rand) corev1.VolumeSource {
	name := func() string { return []string{"a", "1e3", "yes"}[r.IntN(3)] }
	optional := func() *bool {
		return []*bool{nil, new(true), new(false)}[r.IntN(3)]
	}
	mode := func() *int32 {
		if r.IntN(2) == 0 {
			return nil
		}
		return new(int32(r.IntN(0o1000)))
	}
	user := func() *int64 { return []*int64{nil, nil, new(int64(0)), new(int64(999))}[r.IntN(4)] }
	paths := 0
	items := func() []corev1.KeyToPath {
		var list []corev1.KeyToPath
		for range r.IntN(3) {
			paths++
			path := []string{"p", fmt.Sprintf("dir/%d", paths), fmt.Sprintf("x: %d", paths)}[r.IntN(3)]
			for _, other := range list {
				if other.Path == path { // The API server refuses it in projected volumes.
					path = fmt.Sprintf("again-%d", paths)
				}
			}
			list = append(list, corev1.KeyToPath{Key: []string{"k", "true", "1.0", "p"}[r.IntN(4)], Path: path, Mode: mode(), User: user()})
		}
		return list
	}
	switch r.IntN(3) {
	case 0:
		return corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: name()}, Items: items(), Optional: optional(),
			DefaultMode: mode(), DefaultUser: user(),
		}}
	case 1:
		return corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
			SecretName: name(), Items: items(), Optional: optional(), DefaultMode: mode(), DefaultUser: user(),
		}}
	}
	projected := &corev1.ProjectedVolumeSource{DefaultMode: mode(), DefaultUser: user()}
	taken := map[string]bool{}
	fresh := func() []corev1.KeyToPath { // The same explicit path in two sources is refused as well.
		list := items()
		for i := range list {
			if taken[list[i].Path] {
				paths++
				list[i].Path = fmt.Sprintf("other-%d", paths)
			}
			taken[list[i].Path] = true
		}
		return list
	}
	for range r.IntN(4) {
		ref := corev1.LocalObjectReference{Name: name()}
		if r.IntN(2) == 0 {
			projected.Sources = append(projected.Sources, corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{
				LocalObjectReference: ref, Items: fresh(), Optional: optional(),
			}})
			continue
		}
		projected.Sources = append(projected.Sources, corev1.VolumeProjection{Secret: &corev1.SecretProjection{
			LocalObjectReference: ref, Items: fresh(), Optional: optional(),
		}})
	}
	return corev1.VolumeSource{Projected: projected}
}

// TestFieldsOfKubernetes fails when Kubernetes has a field more that a conversion would lose.
func TestFieldsOfKubernetes(t *testing.T) {
	t.Parallel()
	known := map[reflect.Type]string{
		reflect.TypeFor[corev1.ConfigMapVolumeSource](): "LocalObjectReference Items DefaultMode Optional DefaultUser",
		reflect.TypeFor[corev1.SecretVolumeSource]():    "SecretName Items DefaultMode Optional DefaultUser",
		reflect.TypeFor[corev1.ProjectedVolumeSource](): "Sources DefaultMode DefaultUser",
		reflect.TypeFor[corev1.ConfigMapProjection]():   "LocalObjectReference Items Optional",
		reflect.TypeFor[corev1.SecretProjection]():      "LocalObjectReference Items Optional",
		reflect.TypeFor[corev1.LocalObjectReference]():  "Name",
		reflect.TypeFor[corev1.KeyToPath]():             "Key Path Mode User",
		reflect.TypeFor[corev1.VolumeProjection]():      "Secret DownwardAPI ConfigMap ServiceAccountToken ClusterTrustBundle PodCertificate",
	}
	for of, want := range known {
		var got []string
		for field := range of.Fields() {
			got = append(got, field.Name)
		}
		if diff := cmp.Diff(strings.Fields(want), got); diff != "" {
			t.Errorf("fields of %s, of which each must be converted or refused (-known +found):\n%s", of, diff)
		}
	}
}

// TestTableOfVolumes: the chart's MutatingAdmissionPolicy is held to the same table by test/deploy.
func TestTableOfVolumes(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/volumes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var rows []struct {
		Name       string              `json:"name"`
		Volume     corev1.VolumeSource `json:"volume"`
		Attributes map[string]string   `json:"attributes"`
	}
	if err := yaml.UnmarshalStrict(text, &rows); err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		csi, err := namer.ToLiveconfig(row.Volume)
		if row.Attributes == nil {
			if err == nil {
				t.Errorf("%s: ToLiveconfig = %v, want an error", row.Name, csi.VolumeAttributes)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", row.Name, err)
			continue
		}
		if diff := cmp.Diff(specOf(t, row.Attributes), specOf(t, csi.VolumeAttributes)); diff != "" {
			t.Errorf("%s: attributes %q (-want +got):\n%s", row.Name, csi.VolumeAttributes, diff)
		}
	}
}

func specOf(t *testing.T, attributes map[string]string) api.Spec {
	t.Helper()
	spec, err := api.Parse(attributes, namer.Namespace)
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

func TestWhatHasNoFormOfLiveconfig(t *testing.T) {
	t.Parallel()
	projected := func(list ...corev1.VolumeProjection) corev1.VolumeSource {
		return corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: list}}
	}
	web := &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "web"}}
	tests := map[string]struct {
		volume corev1.VolumeSource
		want   string
	}{
		"a token": {projected(corev1.VolumeProjection{ConfigMap: web},
			corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{}}), "sources[1] is a serviceAccountToken"},
		"fields of the pod": {projected(corev1.VolumeProjection{DownwardAPI: &corev1.DownwardAPIProjection{}}), "sources[0] is a downwardAPI"},
		"a trust bundle":    {projected(corev1.VolumeProjection{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{}}), "is a clusterTrustBundle"},
		"a certificate":     {projected(corev1.VolumeProjection{PodCertificate: &corev1.PodCertificateProjection{}}), "is a podCertificate"},
		"two in one entry":  {projected(corev1.VolumeProjection{ConfigMap: web, Secret: &corev1.SecretProjection{}}), "make them two entries"},
		"no name":           {corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}, "must not be empty"},
		"another type":      {corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}, intree.ErrOther.Error()},
		"a special bit": {
			corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "a", DefaultMode: new(int32(0o4755))}},
			"defaultMode: Invalid value",
		},
		"a negative mode": {corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: "a"}, Items: []corev1.KeyToPath{{Key: "a", Path: "a", Mode: new(int32(-1))}},
		}}, "items"},
	}
	for name, test := range tests {
		got, err := namer.ToLiveconfig(test.volume)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: ToLiveconfig = %v, %v, want an error with %q", name, got, err, test.want)
		}
	}
}

func TestWhatHasNoInTreeForm(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		attributes map[string]string
		want       []string
	}{
		"everything at once": {
			map[string]string{"configMap": "a", "namespace": "other", "uid": "1", "gid": "2", "updatePolicy": "Never", "onDelete": "Remove"},
			[]string{"uid has no", "gid has no", "updatePolicy Never has no", "onDelete Remove has no", "configmap other/a is of another namespace"},
		},
		"one file of all keys": {map[string]string{"sources": "[{secret: {name: a, as: {path: a, format: json}}}]"}, []string{"as, which makes one file"}},
		"a mistake":            {map[string]string{"secrets": "a"}, []string{`did you mean "secret"`}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			csi := &corev1.CSIVolumeSource{Driver: namer.Driver, VolumeAttributes: test.attributes}
			got, err := namer.ToInTree(corev1.VolumeSource{CSI: csi})
			for _, want := range test.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("ToInTree = %v, %v, want an error with %q", got, err, want)
				}
			}
		})
	}
	if _, err := namer.ToInTree(corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "other"}}); !errors.Is(err, intree.ErrOther) {
		t.Errorf("ToInTree of another driver's volume = %v, want %v", err, intree.ErrOther)
	}
}
