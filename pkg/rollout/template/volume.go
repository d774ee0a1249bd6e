package template

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/attributes"
)

// volume is one volume of ours, with valid attributes.
type volume struct {
	all       map[string]string
	namespace string
	spec      api.Spec
	// key is the attribute that names the objects.
	key string
	// written has for each source of the spec where the long form names it.
	written []writtenName
}

func newVolume(all map[string]string, namespace string, spec api.Spec) *volume {
	v := &volume{all: all, namespace: namespace, spec: spec, key: api.KeyConfigMap}
	if _, found := all[api.KeySecret]; found {
		v.key = api.KeySecret
	}
	if text, found := all[api.KeySources]; found {
		v.key, v.written = api.KeySources, locate(text, spec.Sources)
	}
	return v
}

// uses returns the uses of objects of the namespace. At is the field of the attribute. Objects that
// are selected by label have none: they trigger nothing and are not copied.
func (v *volume) uses(at string) []Use {
	var uses []Use
	for i, src := range v.spec.Sources {
		if src.Selection != nil || src.Ref.Namespace != v.namespace {
			continue
		}
		use := Use{Object: src.Ref.Local(), Field: at, Optional: src.Optional, ByPod: src.Ref.Kind == api.Secret}
		if v.key == api.KeySources {
			use.Field = fmt.Sprintf("%s[%d].%s.name", at, v.written[i].index, attributes.KeyOf(src.Ref.Kind))
		}
		uses = append(uses, use.needing(sourceKeys(src)))
	}
	return uses
}

func sourceKeys(src api.Source) []string {
	keys := make([]string, len(src.Items))
	for i, item := range src.Items {
		keys[i] = item.Key
	}
	return keys
}

// pointed returns what the attribute that names the objects shall be. It changes the names in the
// text and leaves what else a person wrote there as it is. A text that cannot be changed that way,
// such as one in which a name has an escape, is written again.
func (v *volume) pointed(names map[api.Ref]string) (string, error) {
	want := v.spec
	want.Sources = slices.Clone(v.spec.Sources)
	for i, src := range want.Sources {
		if src.Selection == nil && src.Ref.Namespace == v.namespace {
			want.Sources[i].Ref.Name = renamed(src.Ref.Local(), names)
		}
	}
	if v.key != api.KeySources {
		name := want.Sources[0].Ref.Name
		return name, v.check(name, want)
	}
	if text, ok := splice(v.all[v.key], v.written, want.Sources); ok && v.check(text, want) == nil {
		return text, nil
	}
	text, err := attributes.Sources(shortened(want.Sources, v.namespace))
	if err != nil {
		return "", err
	}
	return text, v.check(text, want)
}

// check returns an error unless the text, in the place of the attribute that names the objects,
// means what is wanted.
func (v *volume) check(text string, want api.Spec) error {
	all := maps.Clone(v.all)
	all[v.key] = text
	got, err := api.Parse(all, v.namespace)
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(got, want) {
		return errors.New("the text cannot be changed without changing its other parts")
	}
	return nil
}

// shortened returns the sources without the namespace where it need not be written.
func shortened(sources []api.Source, namespace string) []api.Source {
	short := slices.Clone(sources)
	for i := range short {
		if short[i].Ref.Namespace == namespace {
			short[i].Ref.Namespace = ""
		}
	}
	return short
}
