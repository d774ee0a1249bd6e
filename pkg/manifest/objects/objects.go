// Package objects reads the manifests of ConfigMaps and Secrets as the API server would, and names
// everything for which it would refuse them. It does not know files, or how YAML is read.
package objects

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/manifest"
)

// largestObject is how much the API server takes for one object.
const largestObject = 1 << 20

// Mistake is one thing that is wrong with an object. Its text has no value of the object, and no
// name that could be one: what is written without a blank after the colon is read as a name.
type Mistake struct {
	// Path leads to it in the object. It is for finding the line, and not for printing.
	Path manifest.Path
	// Text begins with the field that it is about, if that can be printed.
	Text string
}

func (m Mistake) String() string { return m.Text }

// IsServed reports whether a manifest is of a ConfigMap or a Secret, and not of another group's
// kind of that name.
func IsServed(object map[string]any) bool {
	version, _ := object["apiVersion"].(string)
	return !strings.Contains(version, "/") &&
		(object["kind"] == string(api.ConfigMap) || object["kind"] == string(api.Secret))
}

// All returns the object of a document, or those of a list such as `kubectl get -o yaml` prints,
// with their paths. Anything else is nil.
func All(data any) iter.Seq2[manifest.Path, map[string]any] {
	return func(yield func(manifest.Path, map[string]any) bool) { each(manifest.Path{}, data, yield) }
}

func each(at manifest.Path, data any, yield func(manifest.Path, map[string]any) bool) (goesOn bool) {
	object, _ := data.(map[string]any)
	kind, _ := object["kind"].(string)
	elements, isList := object["items"].([]any)
	if !isList || !slices.Contains([]string{"List", "ConfigMapList", "SecretList"}, kind) {
		return yield(at, object)
	}
	for i, element := range elements {
		if !each(at.Field("items").Index(i), element, yield) {
			return false
		}
	}
	return true
}

// Content returns what the manifest of a ConfigMap or a Secret holds, or every mistake for which
// the API server would refuse it. The namespace is for a manifest that names none.
func Content(object map[string]any, namespace string) (api.Content, []Mistake) {
	r := &reader{object: object}
	c := api.Content{Data: map[string][]byte{}}
	fields := []string{"apiVersion", "kind", "metadata", "immutable", "data"}
	if object["kind"] == string(api.Secret) {
		c.Ref.Kind, fields = api.Secret, append(fields, "stringData", "type")
		r.values(c.Data, "data", decodeBase64)
		r.values(c.Data, "stringData", asWritten)
	} else {
		c.Ref.Kind, fields = api.ConfigMap, append(fields, "binaryData")
		r.values(c.Data, "data", asWritten)
		r.notTwice("binaryData", "data")
		r.values(c.Data, "binaryData", decodeBase64)
	}
	r.known(fields)
	c.Ref.Namespace, c.Ref.Name = r.names(namespace)
	c.Immutable = r.immutable()
	if size := c.Size(); size > largestObject {
		r.mistake(nil, "the API server refuses %d bytes, the most is %d", size, largestObject)
	}
	return c, r.mistakes
}

// reader reads one object.
type reader struct {
	object   map[string]any
	mistakes []Mistake
}

// mistake notes what is wrong with a field.
func (r *reader) mistake(path manifest.Path, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if len(path) > 0 {
		text = path.String() + ": " + text
	}
	r.mistakes = append(r.mistakes, Mistake{Path: path, Text: text})
}

// mistakeAt notes what is wrong with a key. The text shows the key of a ConfigMap, if it can be
// one.
func (r *reader) mistakeAt(field, key, format string, args ...any) {
	path, shown := manifest.Path{}.Field(field, key), field
	if r.object["kind"] == string(api.ConfigMap) && len(validation.IsConfigMapKey(key)) == 0 {
		shown += "." + key
	}
	r.mistakes = append(r.mistakes, Mistake{Path: path, Text: shown + ": " + fmt.Sprintf(format, args...)})
}

func (r *reader) known(fields []string) {
	for _, name := range slices.Sorted(maps.Keys(r.object)) {
		if !slices.Contains(fields, name) {
			r.mistakes = append(r.mistakes, Mistake{Path: manifest.Path{}.Field(name), Text: fmt.Sprintf(
				"a field that a %s does not have; it has %s", r.object["kind"], strings.Join(fields, ", "))})
		}
	}
	if r.object["apiVersion"] != "v1" {
		r.mistake(manifest.Path{}.Field("apiVersion"), "must be v1")
	}
}

// names returns the object's namespace and name.
func (r *reader) names(namespace string) (in, name string) {
	at := manifest.Path{}.Field("metadata")
	metadata, ok := r.object["metadata"].(map[string]any)
	if !ok {
		r.mistake(at, "is missing: write metadata: {name: web}")
		return "", ""
	}
	name, _ = metadata["name"].(string)
	if name == "" {
		r.mistake(at.Field("name"), "is missing or no string: write metadata: {name: web}")
	} else if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		r.mistake(at.Field("name"), "it is not a name: %s", strings.Join(problems, "; "))
	}
	written, isText := metadata["namespace"].(string)
	if given := metadata["namespace"]; given != nil && !isText {
		r.mistake(at.Field("namespace"), "must be a string: put it in quotes")
	}
	in = cmp.Or(written, namespace)
	if problems := validation.IsDNS1123Label(in); len(problems) > 0 {
		r.mistake(at.Field("namespace"), "it is not a name: %s", strings.Join(problems, "; "))
	}
	return in, name
}

func (r *reader) immutable() bool {
	value := r.object["immutable"]
	is, ok := value.(bool)
	if value != nil && !ok {
		r.mistake(manifest.Path{}.Field("immutable"), "must be true or false")
	}
	return is
}

// values reads a field that maps keys to values. A later field wins, as in the API server.
func (r *reader) values(into map[string][]byte, field string, decode func(string) ([]byte, error)) {
	at := manifest.Path{}.Field(field)
	written, ok := r.object[field].(map[string]any)
	if !ok && r.object[field] != nil {
		r.mistake(at, "must be an object: write %s: {key: value}", field)
	}
	for _, key := range slices.Sorted(maps.Keys(written)) {
		if problems := validation.IsConfigMapKey(key); len(problems) > 0 {
			r.mistakeAt(field, key, "the API server refuses a key: %s", strings.Join(problems, "; "))
			continue
		}
		text, isText := written[key].(string)
		if !isText && written[key] != nil { // The API server reads null as an empty text.
			r.mistakeAt(field, key, "a value must be a string: put it in quotes")
			continue
		}
		value, err := decode(text)
		if err != nil {
			r.mistakeAt(field, key, "%v", err)
			continue
		}
		into[key] = value
	}
}

// notTwice refuses keys that two fields share.
func (r *reader) notTwice(field, other string) {
	a, _ := r.object[field].(map[string]any)
	b, _ := r.object[other].(map[string]any)
	for _, key := range slices.Sorted(maps.Keys(a)) {
		if _, found := b[key]; found {
			r.mistakeAt(field, key, "the API server refuses a key that is in %s and in %s", other, field)
		}
	}
}

func asWritten(text string) ([]byte, error) { return []byte(text), nil }

func decodeBase64(text string) ([]byte, error) {
	value, err := base64.StdEncoding.DecodeString(text)
	if err != nil { // The error has the position, and no byte of the value.
		return nil, fmt.Errorf("%w; plain text goes into stringData of a Secret, or data of a ConfigMap", err)
	}
	return value, nil
}
