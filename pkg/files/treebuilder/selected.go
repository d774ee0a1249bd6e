package treebuilder

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
)

// Object is one object that a selection has found.
type Object struct {
	Content api.Content
	// Created decides which object has a path that several ask for.
	Created time.Time
	// Folder goes before the paths of the object's files; empty for none.
	Folder string
}

// Selected are the objects of selections, each by the index of its source in the Spec.
type Selected map[int][]Object

// selectedFile is a file that a selected object asks for.
type selectedFile struct {
	object *Object
	source int
	key    string
	path   string
}

func (f selectedFile) String() string {
	return fmt.Sprintf("key %s of %s at path %s", shown(f.key), f.object.Content.Ref, shown(f.path))
}

// addSelected adds the files of all selections. Files that cannot have their path are left out, and
// the others stay: a label on one object must not harm the files of other objects. Of two selected
// objects with one path, the older one has it. Between a selected object and a named one, the later
// source has it.
func (d *draft) addSelected(spec api.Spec, selected Selected) {
	files := d.usable(spec, selected)
	if len(files) == 0 {
		return
	}
	named := d.named
	d.named = nil
	slices.SortFunc(files, func(a, b selectedFile) int {
		x, y := a.object.Content.Ref, b.object.Content.Ref
		return cmp.Or(a.object.Created.Compare(b.object.Created), cmp.Compare(x.Namespace, y.Namespace),
			cmp.Compare(x.Name, y.Name), cmp.Compare(x.Kind, y.Kind), cmp.Compare(a.key, b.key),
			cmp.Compare(a.source, b.source))
	})
	places := newPlaces(maps.Keys(d.files))
	owners := map[string]selectedFile{}
	for _, f := range files {
		by, isNamed := named[f.path]
		owner, isTaken := owners[f.path]
		switch {
		case isTaken && owner.object.Content.Ref == f.object.Content.Ref && owner.key == f.key:
			continue // Two selections have found it.
		case isTaken:
			d.collisions = append(d.collisions, fmt.Sprintf("%s, which %s has", f, owner.object.Content.Ref))
			continue
		case isNamed && by > f.source:
			continue
		case !isNamed && places.conflict(f.path) != "":
			d.collisions = append(d.collisions, fmt.Sprintf("%s, because of the file %s", f, shown(places.conflict(f.path))))
			continue
		}
		owners[f.path] = f
		places.add(f.path)
		d.addFile(tree.File{Path: f.path, Data: f.object.Content.Data[f.key]}, spec.Sources[f.source].Selection.Mode)
	}
}

// usable returns the files that selected objects ask for, without those whose paths no volume can
// have. A required selection without an object is missing.
func (d *draft) usable(spec api.Spec, selected Selected) []selectedFile {
	var files []selectedFile
	for i, src := range spec.Sources {
		if src.Selection == nil {
			continue
		}
		if len(selected[i]) == 0 && !src.Optional {
			d.missing.add(fmt.Sprintf("no %s matches labelSelector %s", src.Ref.Kind.Resource(), shown(src.Selection.Selector)))
		}
		for at := range selected[i] {
			files = d.appendUsable(files, src, selectedFile{object: &selected[i][at], source: i})
		}
	}
	return files
}

// appendUsable appends a file for each key of an object.
func (d *draft) appendUsable(files []selectedFile, src api.Source, f selectedFile) []selectedFile {
	content := f.object.Content
	for key := range content.Data {
		f.key = key
		var problem string
		f.path, problem = src.Selection.PathOf(content.Ref, key, f.object.Folder)
		switch {
		case problem != "":
			d.collisions = append(d.collisions, fmt.Sprintf("%s, which %s", f, problem))
		case !tree.Blocks(d.mountPoints, f.path):
			files = append(files, f)
		default:
			d.leftOut = append(d.leftOut, f.String())
		}
	}
	return files
}

// Collisions returns the keys of selected objects that have no file because of their paths, each
// with the reason, sorted. After 20 of them a last text counts the rest. The list is the caller's.
func (p Plan) Collisions() []string { return bounded(p.collisions) }

// bounded returns the first of the texts, sorted, each once, and a last text that counts the rest.
func bounded(texts []string) []string {
	if len(texts) == 0 {
		return nil
	}
	all := slices.Compact(slices.Sorted(slices.Values(texts)))
	if more := len(all) - maxProblems; more > 0 {
		all = append(all[:maxProblems], fmt.Sprintf("and %d more", more))
	}
	return all
}

// places are the paths that files have, and the directories that they need, each with a file that
// needs it.
type places struct {
	files map[string]bool
	dirs  map[string]string
}

func newPlaces(files func(func(string) bool)) *places {
	p := &places{files: map[string]bool{}, dirs: map[string]string{}}
	for _, file := range slices.Sorted(files) { // The same files have the same messages.
		p.add(file)
	}
	return p
}

func (p *places) add(file string) {
	p.files[file] = true
	for dir := path.Dir(file); dir != "."; dir = path.Dir(dir) {
		if _, found := p.dirs[dir]; found {
			return
		}
		p.dirs[dir] = file
	}
}

// conflict returns a file that cannot stand beside another one, in whose place there is a directory
// or the other way round; empty for none.
func (p *places) conflict(file string) string {
	if below, found := p.dirs[file]; found {
		return below
	}
	for dir := path.Dir(file); dir != "."; dir = path.Dir(dir) {
		if p.files[dir] {
			return dir
		}
	}
	return ""
}
