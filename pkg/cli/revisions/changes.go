package revisions

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/template"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
)

// Change is a source of which two revisions use different things. A side is nil where a revision
// uses nothing of it.
type Change struct {
	Source   api.Ref
	From, To *Item
}

// Changes returns what config one revision has otherwise than another, by source.
func Changes(from, to []Item) []Change {
	before, after := bySource(from), bySource(to)
	var changes []Change
	for _, source := range union(slices.Collect(maps.Keys(before)), slices.Collect(maps.Keys(after))) {
		b, a := before[source], after[source]
		if b != nil && a != nil && *b == *a {
			continue
		}
		changes = append(changes, Change{Source: source, From: b, To: a})
	}
	return changes
}

func bySource(items []Item) map[api.Ref]*Item {
	found := make(map[api.Ref]*Item, len(items))
	for i := range items {
		found[items[i].Source] = &items[i]
	}
	return found
}

// OtherChanges returns the fields of the pod template that differ between two revisions beside
// their config, in order, such as spec.containers[0].image. It returns no values.
func OtherChanges(from, to Revision, in template.Place) ([]string, error) {
	a, err := neutral(from, in)
	if err != nil {
		return nil, err
	}
	b, err := neutral(to, in)
	if err != nil {
		return nil, err
	}
	var fields []string
	compare("", a, b, &fields)
	return fields, nil
}

// neutral returns a template as JSON has it, in which copies have the names of their sources,
// without the annotation of the config.
func neutral(r Revision, in template.Place) (any, error) {
	plain := Plain(r.Template)
	names := map[api.Ref]string{}
	for source, name := range r.Config.Copies() {
		names[source.Named(name)] = source.Name
	}
	changes, _ := template.Point(plain, in, names) // A volume that cannot be read is compared as it is.
	delete(plain.Annotations, trigger.ConfigAnnotation)
	text, err := json.Marshal(plain)
	if err != nil {
		return nil, fmt.Errorf("encode the template of revision %d: %w", r.Number, err)
	}
	var data any
	if err := json.Unmarshal(text, &data); err != nil {
		return nil, fmt.Errorf("read the template of revision %d: %w", r.Number, err)
	}
	texts := map[string]string{}
	for _, c := range changes {
		texts[c.Pointer] = c.To
	}
	return replaced("", data, texts), nil
}

// replaced returns data in which some texts are others, by their JSON pointers.
func replaced(pointer string, data any, by map[string]string) any {
	switch is := data.(type) {
	case map[string]any:
		for key := range is {
			is[key] = replaced(pointer+"/"+key, is[key], by)
		}
	case []any:
		for i := range is {
			is[i] = replaced(fmt.Sprintf("%s/%d", pointer, i), is[i], by)
		}
	case string:
		if text, found := by[pointer]; found {
			return text
		}
	}
	return data
}

// compare adds the fields in which two values differ. Of lists of different lengths the list is the
// field.
func compare(field string, a, b any, fields *[]string) {
	if isEmpty(a) && isEmpty(b) {
		return
	}
	switch was := a.(type) {
	case map[string]any:
		if is, ok := b.(map[string]any); ok {
			compareMaps(field, was, is, fields)
			return
		}
	case []any:
		if is, ok := b.([]any); ok && len(is) == len(was) {
			for i := range was {
				compare(fmt.Sprintf("%s[%d]", field, i), was[i], is[i], fields)
			}
			return
		}
	default:
		if a == b {
			return
		}
	}
	*fields = append(*fields, field)
}

func compareMaps(field string, a, b map[string]any, fields *[]string) {
	keys := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		compare(below(field, key), a[key], b[key], fields)
	}
}

// below returns how people name a key of a field.
func below(field, key string) string {
	switch {
	case strings.ContainsAny(key, "./"):
		return field + "[" + key + "]"
	case field == "":
		return key
	default:
		return field + "." + key
	}
}

// isEmpty reports whether a value is what leaving it out is too: the key of the annotation that was
// taken out was perhaps the only one.
func isEmpty(value any) bool {
	switch is := value.(type) {
	case nil:
		return true
	case map[string]any:
		return len(is) == 0
	default:
		return false
	}
}
