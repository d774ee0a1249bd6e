package check

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/files/expansion"
	"github.com/liveconfig-csi/liveconfig/pkg/files/treebuilder"
	"github.com/liveconfig-csi/liveconfig/pkg/manifest"
)

// givenObject is an object that the manifests have, and where.
type givenObject struct {
	review

	at      manifest.Path
	content api.Content
	labels  map[string]string
}

// expanded is a volume whose files get values.
type expanded struct {
	object string
	spec   api.Spec
}

// Values finds names without values in files that get some, as far as the manifests have the
// objects. It is called after all files.
func (c *Checker) Values() {
	before := len(c.Findings)
	for _, volume := range c.expanded {
		known := c.valuesOf(volume.spec)
		for _, src := range volume.spec.Sources {
			if object, isGiven := c.given[src.Ref]; isGiven {
				object.checkFiles(src, known, volume.object)
			}
		}
	}
	c.sortFrom(before)
}

// sortFrom sorts the findings from an index on.
func (c *Checker) sortFrom(first int) {
	slices.SortStableFunc(c.Findings[first:], func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
}

// knownValues are the values of a volume, as far as they can be known here.
type knownValues struct {
	byName map[string][]byte
	// prefixes are those of objects that the manifests do not have: any name after them may have a
	// value.
	prefixes []string
}

// unknown stands for a value that is not known. Every quoting can hold it.
const unknown = "x"

func (v *knownValues) of(name string) ([]byte, bool) {
	if data, found := v.byName[name]; found {
		return data, true
	}
	mayHave := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
	return []byte(unknown), slices.ContainsFunc(v.prefixes, mayHave)
}

func (c *Checker) valuesOf(spec api.Spec) *knownValues {
	known := &knownValues{byName: map[string][]byte{}}
	for _, v := range spec.Values {
		for name := range maps.Values(v.Facts) {
			known.byName[name] = []byte(unknown)
		}
		if v.Source.Ref.Kind != "" {
			c.addValues(known, v)
		}
	}
	return known
}

// addValues adds the values of one object.
func (c *Checker) addValues(known *knownValues, v api.Value) {
	object, isGiven := c.given[v.Source.Ref]
	for _, item := range v.Source.Items {
		data, found := object.content.Data[item.Key]
		if !found {
			data = []byte(unknown)
		}
		known.byName[v.Prefix+item.Path] = data
	}
	switch {
	case len(v.Source.Items) > 0:
	case !isGiven:
		known.prefixes = append(known.prefixes, v.Prefix)
	default:
		for key, data := range object.content.Data {
			known.byName[v.Prefix+key] = data
		}
	}
}

// checkFiles checks the files of a source that has this object.
func (o *givenObject) checkFiles(src api.Source, known *knownValues, volume string) {
	for _, item := range src.Items {
		if e := cmp.Or(item.Expand, src.Expand); e != nil {
			o.checkFile(item.Key, *e, known, volume)
		}
	}
	if len(src.Items) > 0 || src.Expand == nil {
		return
	}
	for key := range o.content.Data {
		o.checkFile(key, *src.Expand, known, volume)
	}
}

// checkFile checks one key, whose text has values of a volume.
func (o *givenObject) checkFile(key string, e api.Expand, known *knownValues, volume string) {
	_, mistakes := expansion.Size(o.content.Data[key], e, known.of, treebuilder.MaxExpanded, func(string) {})
	for _, m := range mistakes {
		at, line := o.lineOf(key, m.Line)
		found := Finding{
			File: o.file, Line: line, Object: o.object, Field: at.String(), Severity: Mistake,
			Message: m.Error() + ", in a volume of " + volume,
		}
		isSame := func(f Finding) bool {
			return f.File == found.File && f.Line == found.Line && strings.HasPrefix(f.Message, m.Error())
		}
		if !slices.ContainsFunc(o.Findings, isSame) {
			o.Findings = append(o.Findings, found)
		}
	}
}

// lineOf returns the path of a key and the line in the manifest that has a line of its text. Base64
// has no lines of the text.
func (o *givenObject) lineOf(key string, line int) (manifest.Path, int) {
	texts, encoded := []string{"data", "stringData"}, "binaryData"
	if o.content.Ref.Kind == api.Secret {
		texts, encoded = []string{"stringData"}, "data"
	}
	for _, field := range texts {
		if at := o.at.Field(field, key); o.document.Written(at) != "" {
			return at, o.document.LineOfText(at, line)
		}
	}
	at := o.at.Field(encoded, key)
	return at, o.document.Line(at)
}
