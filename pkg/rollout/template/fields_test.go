package template_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/rollout/template"
)

// leftAlone are the fields of a pod that name, or by their type could name, a ConfigMap or a Secret, and that are not
// uses.
func leftAlone() map[string]string {
	const (
		credentials = "what the kubelet or a volume plugin logs in with, before the pod has files or variables"
		otherKind   = "it names an object of another kind"
		file        = "it is the path of a file on the node"
		never       = "a template has no ephemeral containers, they come to pods that run"
		volume      = "spec.volumes[0]."
		ephemeral   = "spec.ephemeralContainers[0]."
		claim       = volume + "ephemeral.volumeClaimTemplate."
	)
	return map[string]string{
		"spec.imagePullSecrets[0].name":                     credentials,
		volume + "azureFile.secretName":                     credentials,
		volume + "rbd.secretRef.name":                       credentials,
		volume + "cephfs.secretRef.name":                    credentials,
		volume + "cephfs.secretFile":                        file,
		volume + "flexVolume.secretRef.name":                credentials,
		volume + "iscsi.secretRef.name":                     credentials,
		volume + "scaleIO.secretRef.name":                   credentials,
		volume + "storageos.secretRef.name":                 credentials,
		volume + "cinder.secretRef.name":                    credentials,
		volume + "csi.nodePublishSecretRef.name":            credentials,
		claim + "metadata.ownerReferences[0].name":          otherKind,
		claim + "spec.dataSource.name":                      otherKind,
		claim + "spec.dataSourceRef.name":                   otherKind,
		ephemeral + "envFrom[0].configMapRef.name":          never,
		ephemeral + "envFrom[0].secretRef.name":             never,
		ephemeral + "env[0].valueFrom.configMapKeyRef.name": never,
		ephemeral + "env[0].valueFrom.secretKeyRef.name":    never,
	}
}

// TestEveryFieldIsAUseOrLeftAlone goes through all fields that a pod can have, also those that a later version of the
// API may bring, and tries each that may name a ConfigMap or a Secret.
func TestEveryFieldIsAUseOrLeftAlone(t *testing.T) {
	t.Parallel()
	exceptions := leftAlone()
	used := 0
	for _, field := range namingFields("spec", reflect.TypeFor[corev1.PodSpec]()) {
		in := &corev1.PodTemplateSpec{}
		transcode(t, nested(field, "foo"), in)
		got, err := uses(t, in)
		if err != nil {
			t.Errorf("%s: Uses: %v", field, err)
		}
		if _, found := exceptions[field]; found {
			delete(exceptions, field)
			if len(got) > 0 {
				t.Errorf("%s: Uses = %v, want none", field, got)
			}
			continue
		}
		used++
		checkUse(t, in, field, got)
	}
	for field, why := range exceptions {
		t.Errorf("%s is to be left alone (%s), but a pod has no such field", field, why)
	}
	if want := 12; used != want {
		t.Errorf("%d fields are uses, want %d", used, want)
	}
}

func checkUse(t *testing.T, in *corev1.PodTemplateSpec, field string, got []template.Use) {
	t.Helper()
	object := secret("foo")
	if strings.Contains(field, "onfigMap") {
		object = configMap("foo")
	}
	for i := range got {
		got[i].Keys = nil
	}
	if diff := cmp.Diff([]template.Use{{Object: object, Field: field}}, got); diff != "" {
		t.Errorf("%s names an object. Uses (-want +got):\n%s", field, diff)
	}
	_, pointed, err := point(t, in, names{object: "bar"})
	if err != nil {
		t.Errorf("%s: Point: %v", field, err)
	}
	want := &corev1.PodTemplateSpec{}
	transcode(t, nested(field, "bar"), want)
	if diff := cmp.Diff(want, pointed); diff != "" {
		t.Errorf("%s, pointed elsewhere (-want +got):\n%s", field, diff)
	}
}

// namingFields returns the fields below a type that may name a ConfigMap or a Secret: texts that are called so, and
// names in types that are called so or are references.
func namingFields(at string, in reflect.Type) []string {
	switch in.Kind() {
	case reflect.Pointer:
		return namingFields(at, in.Elem())
	case reflect.Slice:
		return namingFields(at+"[0]", in.Elem())
	case reflect.Struct:
	default:
		return nil
	}
	var found []string
	for field := range in.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		below := at + "." + name
		switch {
		case !field.IsExported():
		case field.Anonymous && name == "":
			found = append(found, namingFields(at, field.Type)...)
		case isText(field.Type) && (isNaming(name) || name == "name" && (isNaming(in.Name()) || strings.HasSuffix(in.Name(), "Reference"))):
			found = append(found, below)
		default:
			found = append(found, namingFields(below, field.Type)...)
		}
	}
	return found
}

func isText(field reflect.Type) bool {
	return field.Kind() == reflect.String || field.Kind() == reflect.Pointer && field.Elem().Kind() == reflect.String
}

func isNaming(name string) bool {
	name = strings.ToLower(name)
	return strings.Contains(name, "secret") || strings.Contains(name, "configmap")
}

// nested returns an object that has only the field.
func nested(field, value string) any {
	first, rest, more := strings.Cut(field, ".")
	var below any = value
	if more {
		below = nested(rest, value)
	}
	name, isList := strings.CutSuffix(first, "[0]")
	if isList {
		below = []any{below}
	}
	return map[string]any{name: below}
}
