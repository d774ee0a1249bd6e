// Package admission decides which volumes of new pods the API server converts in a namespace with
// the label, as the chart's MutatingAdmissionPolicy does.
//
// It does not know the API server. It does not know which volumes mean the same: that is up to
// pkg/cli/intree, as it is for manifests. A test of the deployment compares it with the policy.
package admission

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/intree"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/mounts"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/selection"
)

// Label is the label of a namespace whose new pods get live volumes. As an annotation of a pod it
// has other values.
const Label = api.Domain + "/volumes"

// Left is the annotation into which the policy writes which volumes of a pod stay, and why.
const Left = api.Domain + "/left-in-tree"

// The limits of the policy, for a pod and for the text of the items of one volume.
const (
	mostItems = 400
	mostPairs = 40000
	mostText  = 65000
)

// Values returns the values of the label that convert something.
func Values() []string { return []string{"configMaps", "secrets", "configMaps.secrets"} }

// Policy converts the volumes of pods for one driver, in one namespace.
type Policy struct {
	Driver, Namespace string
	// Value is that of the label.
	Value string
}

// Volume is a configMap, secret or projected volume of a pod.
type Volume struct {
	// Index is the volume's place in the pod spec.
	Index int
	Name  string
	// CSI is what the volume becomes. It is nil if the volume stays as it is, with a Reason.
	CSI    *corev1.CSIVolumeSource
	Reason string
	// Needs is what the mounts of the volume need. It is empty if the driver cannot serve that.
	Needs mounts.Needs
}

// Volumes returns the configMap, secret and projected volumes of a pod, or of the new pods of a
// workload, in their order.
func (p Policy) Volumes(w selection.Workload) []Volume {
	spec := &w.Template.Spec
	reason := p.reasonForPod(w)
	namer := intree.Namer{Driver: p.Driver, Namespace: p.Namespace}
	containers := mounts.Containers(spec)
	var all []Volume
	for i, v := range spec.Volumes {
		csi, needs, err := namer.Convert(v, containers)
		if errors.Is(err, intree.ErrOther) {
			continue
		}
		found := Volume{Index: i, Name: v.Name, Needs: needs, Reason: reason}
		if reason == "" && err != nil {
			found.Reason = strings.ReplaceAll(err.Error(), "\n", "; ")
		}
		if found.Reason == "" {
			found.Reason = p.reasonForVolume(v.VolumeSource, needs)
		}
		if found.Reason == "" {
			found.CSI = csi
		}
		all = append(all, found)
	}
	return all
}

// Template returns the pod template of a workload with the volumes that its new pods get.
func (p Policy) Template(w selection.Workload) corev1.PodTemplateSpec {
	t := *w.Template
	volumes := slices.Clone(t.Spec.Volumes)
	for _, v := range p.Volumes(w) {
		if v.CSI != nil {
			volumes[v.Index].VolumeSource = corev1.VolumeSource{CSI: v.CSI}
		}
	}
	t.Spec.Volumes = volumes
	return t
}

// source is a ConfigMap or Secret that a volume names.
type source struct {
	kind, name string
	items      []corev1.KeyToPath
	optional   *bool
}

const (
	configMap = api.KeyConfigMap
	secret    = api.KeySecret
)

func sourcesOf(v corev1.VolumeSource) []source {
	switch {
	case v.ConfigMap != nil:
		return []source{{configMap, v.ConfigMap.Name, v.ConfigMap.Items, v.ConfigMap.Optional}}
	case v.Secret != nil:
		return []source{{secret, v.Secret.SecretName, v.Secret.Items, v.Secret.Optional}}
	case v.Projected == nil:
		return nil
	}
	var all []source
	for _, s := range v.Projected.Sources {
		switch {
		case s.ConfigMap != nil:
			all = append(all, source{configMap, s.ConfigMap.Name, s.ConfigMap.Items, s.ConfigMap.Optional})
		case s.Secret != nil:
			all = append(all, source{secret, s.Secret.Name, s.Secret.Items, s.Secret.Optional})
		}
	}
	return all
}

// reasonForVolume returns why the API server leaves a volume as it is that the driver would take,
// or "".
func (p Policy) reasonForVolume(v corev1.VolumeSource, needs mounts.Needs) string {
	wanted := strings.Split(p.Value, ".")
	var names []string
	text := 0
	for _, src := range sourcesOf(v) {
		if !slices.Contains(wanted, src.kind+"s") {
			return fmt.Sprintf("the label has the value %s, which leaves out %ss", p.Value, src.kind)
		}
		for _, item := range src.items {
			names = append(names, item.Key, item.Path)
		}
		if v.Projected != nil {
			text += src.entrySize()
			continue
		}
		text += len(src.itemsText())
	}
	plain := regexp.MustCompile(`^[\x20-\x7e\p{L}\p{M}\p{N}]+$`)
	for _, s := range slices.Concat(names, needs.Always, needs.IfAbsent) {
		if !plain.MatchString(s) {
			return fmt.Sprintf("%.70q has unusual characters, such as line breaks: the API server does not convert them", s)
		}
	}
	if text > mostText {
		return fmt.Sprintf("its items are %d bytes of text, and the API server converts at most %d", text, mostText)
	}
	if places := placesSize(needs); places > mostText {
		return fmt.Sprintf("the places of mounts in it are %d bytes of text, and the API server converts at most %d",
			places, mostText)
	}
	return ""
}

// itemsText returns the items of a source as the API server writes them into an attribute.
func (s source) itemsText() string {
	items := make([]string, len(s.items))
	for i, item := range s.items {
		text := `{"key": ` + quote(item.Key) + `, "path": ` + quote(item.Path)
		if item.Mode != nil {
			text += fmt.Sprintf(`, "mode": %d`, *item.Mode)
		}
		if item.User != nil {
			text += fmt.Sprintf(`, "user": %d`, *item.User)
		}
		items[i] = text + "}"
	}
	return strings.Join(items, ", ")
}

// entrySize returns how many bytes a source takes in the list that the API server writes.
func (s source) entrySize() int {
	text := s.itemsText()
	if text != "" {
		text = `, "items": [` + text + "]"
	}
	if s.optional != nil && *s.optional {
		text += `, "optional": true`
	}
	return len(`{"`+s.kind+`": {"name": `+quote(s.name)+text+"}}") + len(", ")
}

// placesSize returns how many bytes the places of mounts take in an attribute.
func placesSize(needs mounts.Needs) int {
	var entries []string
	for _, place := range needs.Always {
		entries = append(entries, quote(place))
	}
	for _, place := range needs.IfAbsent {
		entries = append(entries, `{"path": `+quote(place)+`, "ifAbsent": true}`)
	}
	return len("[" + strings.Join(entries, ", ") + "]")
}

// quote quotes a text without unusual characters.
func quote(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
}
