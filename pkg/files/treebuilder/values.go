package treebuilder

import (
	"fmt"
	"io/fs"
	"slices"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/files/expansion"
	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
)

// Limits of files with values.
const (
	// MaxExpanded is how many bytes one file may have.
	MaxExpanded = 4 << 20
	// MaxExpandedOfAll is how many bytes all of them may have together, and also the texts that
	// they are made of.
	MaxExpandedOfAll = 16 << 20
)

// readable are the bits of a mode that let somebody read.
const readable fs.FileMode = 0o444

// values are those that files can name.
type values map[string]value

type value struct {
	data     []byte
	isSecret bool
}

func (v values) of(name string) ([]byte, bool) {
	found, ok := v[name]
	return found.data, ok
}

// readValues reads the values of a volume, of which a later one replaces an earlier one. It does
// that only if a file has values: their objects may have thousands of keys.
func (d *draft) readValues(spec api.Spec, contents map[api.Ref]api.Content) {
	isUsed := spec.HasExpand()
	for i, v := range spec.Values {
		d.field = fmt.Sprintf("%s[%d].%s.%s", api.KeyValues, i, fieldOf(v.Source.Ref.Kind), api.KeyItems)
		if v.Source.Ref.Kind == "" {
			for name, text := range v.Texts {
				d.setValue(name, value{data: []byte(text)})
			}
			continue
		}
		content, found := contents[v.Source.Ref]
		switch {
		case !found && !v.Source.Optional:
			d.missing.add(fmt.Sprintf("%s %q not found", v.Source.Ref.Kind.Resource(), v.Source.Ref.Name))
		case isUsed:
			d.addValues(v, content)
		}
	}
}

// addValues adds the values of one object. A required key that does not exist is missing.
func (d *draft) addValues(v api.Value, content api.Content) {
	isSecret := v.Source.Ref.Kind == api.Secret
	if len(v.Source.Items) == 0 {
		for key, data := range content.Data {
			d.setValue(v.Prefix+key, value{data, isSecret})
		}
		return
	}
	for i, item := range v.Source.Items {
		if data, found := d.find(v.Source, i, content); found {
			d.setValue(v.Prefix+item.Path, value{data, isSecret})
		}
	}
}

func (d *draft) setValue(name string, v value) {
	if d.values == nil {
		d.values = values{}
	}
	d.values[name] = v
}

// addExpanded adds a file with values, if each place has one that fits.
func (d *draft) addExpanded(src api.Source, f tree.File, item api.Item, e api.Expand) {
	text, all, isSecret := f.Data, d.values, false
	if d.texts += len(text); d.texts > MaxExpandedOfAll {
		d.unsupported.add(fmt.Sprintf("the texts of the files with values have more than %d MiB together, which is the most "+
			"for a volume: expand fewer of them", MaxExpandedOfAll>>20))
		return
	}
	most := min(MaxExpanded, MaxExpandedOfAll-d.expanded)
	used := func(name string) { isSecret = isSecret || all[name].isSecret }
	size, mistakes := expansion.Size(text, e, all.of, most, used)
	for _, m := range mistakes {
		d.mistaken(src, item.Key, m)
	}
	switch {
	case len(mistakes) > 0:
		return
	case size > most:
		d.unsupported.add(fmt.Sprintf("key %s of %s has with its values more than %d MiB, or all such files of the volume "+
			"more than %d MiB", shown(item.Key), src.Ref, MaxExpanded>>20, MaxExpandedOfAll>>20))
		return
	}
	d.expanded += size
	f.Data = nil
	mode := item.Mode
	if isSecret {
		mode = d.noWider(mode)
		d.secrets = append(d.secrets, f.Path)
	}
	d.addFile(f, mode)
	d.render(f.Path, renderedFile{
		bytes: size, memory: size,
		render: func() []byte { return expansion.Append(make([]byte, 0, size), text, e, all.of) },
	})
}

// noWider returns a mode by which nobody can read a file who could not by the default mode.
func (d *draft) noWider(mode *fs.FileMode) *fs.FileMode {
	if mode == nil {
		return nil
	}
	return new(*mode &^ (readable &^ d.defaultMode))
}

// mistaken notes a place without a value as missing, and one that cannot hold its value as
// unsupported.
func (d *draft) mistaken(src api.Source, key string, m expansion.Mistake) {
	text := fmt.Sprintf("%s, key %s, %v", src.Ref, shown(key), m)
	if m.Err == nil {
		d.missing.add(text)
		return
	}
	d.unsupported.add(text)
}

// HasSecretValues reports whether the file at a path has the value of a Secret put in.
func (p Plan) HasSecretValues(path string) bool { return slices.Contains(p.secrets, path) }
