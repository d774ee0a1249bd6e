// Package template finds where a pod template uses ConfigMaps and Secrets of its own namespace, and
// points the uses elsewhere.
//
// It does not know workloads, clients, or what the objects hold and whose copies they are.
package template

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

// Place is where the pods of a template run.
type Place struct {
	// Namespace is the workload's, hence that of the objects.
	Namespace string
	// Driver is the name of the CSI driver whose volumes count. Volumes of other drivers do not
	// count.
	Driver string
}

// Use is one place of a template that names an object.
type Use struct {
	Object api.Ref
	// Field is the name's place, for messages, such as
	// spec.volumes[2].projected.sources[0].configMap.name.
	Field string
	// Optional means that pods start without the object too.
	Optional bool
	// Keys are those without which no pod starts, in order and each once.
	Keys []string
	// ByPod means that it is the pod's service account that needs to be allowed to read the object,
	// if the driver is run that way. Else it is the node or the driver.
	ByPod bool
}

// Change is one text of a template that is to be another.
type Change struct {
	// Pointer is a JSON pointer (RFC 6901) from the template, such as
	// /spec/volumes/0/configMap/name.
	Pointer string
	// To is the whole text that shall be there.
	To string
}

// Uses returns every use of an object, in the order of the template: volumes, init containers,
// containers. The error joins what cannot be read, each with its field; the uses in all other
// places are returned all the same.
func Uses(t *corev1.PodTemplateSpec, in Place) ([]Use, error) {
	var uses []Use
	texts, err := find(t, in)
	for _, text := range texts {
		uses = append(uses, text.uses...)
	}
	return uses, err
}

// Point returns the changes after which each use of an object that has a name uses the object of
// that name, and of the same kind, instead. An empty name changes nothing, and neither does the
// name that is there. The error joins what cannot be read or changed, each with its field; the
// changes of all other places are returned all the same.
func Point(t *corev1.PodTemplateSpec, in Place, names map[api.Ref]string) ([]Change, error) {
	var changes []Change
	texts, err := find(t, in)
	problems := []error{err}
	for _, text := range texts {
		to, err := text.pointed(names)
		switch {
		case err != nil:
			problems = append(problems, fmt.Errorf("point %s elsewhere: %w", text.field, err))
		case to != text.is:
			changes = append(changes, Change{Pointer: pointer(text.field), To: to})
		}
	}
	return changes, errors.Join(problems...)
}

// text is a text of the template that names objects.
type text struct {
	field string
	is    string
	uses  []Use
	// volume is whose attribute the text is, or nil if the text is nothing but a name.
	volume *volume
}

// pointed returns what the text shall be.
func (t text) pointed(names map[api.Ref]string) (string, error) {
	changed := false
	for _, use := range t.uses {
		changed = changed || renamed(use.Object, names) != use.Object.Name
	}
	switch {
	case !changed:
		return t.is, nil
	case t.volume == nil:
		return renamed(t.uses[0].Object, names), nil
	default:
		return t.volume.pointed(names)
	}
}

// renamed returns the name that shall be used for an object.
func renamed(object api.Ref, names map[api.Ref]string) string {
	if name := names[object]; name != "" {
		return name
	}
	return object.Name
}

// pointer turns a field into a JSON pointer. No field has a name that would have to be escaped
// there.
func pointer(field string) string {
	return "/" + strings.NewReplacer(".", "/", "[", "/", "]", "").Replace(field)
}
