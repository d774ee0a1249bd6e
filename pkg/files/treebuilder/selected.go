package treebuilder

import (
	"cmp"
	"fmt"
	"maps"
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
	// Annotations of the object may be folders: see [api.Selection.FolderAnnotation].
	Annotations map[string]string
}

// Selected are the objects of selections, by the index of the source in the Spec. A source has one
// list for each of its ranges. Sources can have the same lists: a few bytes of text can name a
// thousand objects hundreds of times.
type Selected map[int][][]Object

// isEmpty reports whether a source has no object.
func (s Selected) isEmpty(source int) bool {
	return !slices.ContainsFunc(s[source], func(objects []Object) bool { return len(objects) > 0 })
}

// The limits of what is made of the keys of selected objects before any memory is charged: bytes of
// all paths, and directories. A few bytes of text can make thousands of them for each key.
const (
	mostPathBytes   = 16 << 20
	mostDirectories = 1 << 17
)

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
	if len(files) == 0 || d.unsupported.any() {
		return
	}
	slices.SortFunc(files, func(a, b selectedFile) int {
		x, y := a.object.Content.Ref, b.object.Content.Ref
		return cmp.Or(a.object.Created.Compare(b.object.Created), cmp.Compare(x.Namespace, y.Namespace),
			cmp.Compare(x.Name, y.Name), cmp.Compare(x.Kind, y.Kind), cmp.Compare(a.key, b.key),
			cmp.Compare(a.source, b.source))
	})
	places := newPlaces(maps.Keys(d.files))
	owners := map[string]selectedFile{}
	for _, f := range files {
		named, isNamed := d.files[f.path] // Unless it is taken: then the file is that of the owner.
		owner, isTaken := owners[f.path]
		switch {
		case isTaken && owner.object.Content.Ref == f.object.Content.Ref && owner.key == f.key:
			continue // Two selections have found it.
		case isTaken:
			d.collisions.add(fmt.Sprintf("%s, which %s has", f, owner.object.Content.Ref))
			continue
		case isNamed && named.source > f.source:
			continue
		case !isNamed && places.conflict(f.path) != "":
			d.collisions.add(fmt.Sprintf("%s, because of the file %s", f, shown(places.conflict(f.path))))
			continue
		}
		owners[f.path] = f
		places.add(f.path)
		if len(places.dirs) > mostDirectories {
			d.unsupported.add(fmt.Sprintf("the files of selected objects need more than %d directories: "+
				"use shorter paths, or more volumes", mostDirectories))
			return
		}
		file := tree.File{Path: f.path, Data: f.object.Content.Data[f.key]}
		selection := spec.Sources[f.source].Selection
		if d.marks {
			file.Source = f.sourceText(selection.FolderAnnotation)
		}
		d.addFile(file, selection.Mode)
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
		if selected.isEmpty(i) && !src.Optional {
			d.missing.add(fmt.Sprintf("no %s matches labelSelector %s", src.Ref.Kind.Resource(), shown(src.Selection.Selector)))
		}
		for _, objects := range selected[i] {
			for at := range objects {
				files = d.appendUsable(files, src, selectedFile{object: &objects[at], source: i})
			}
		}
	}
	return files
}

// appendUsable appends a file for each key of an object.
func (d *draft) appendUsable(files []selectedFile, src api.Source, f selectedFile) []selectedFile {
	content := f.object.Content
	folder := f.object.Annotations[src.Selection.FolderAnnotation]
	for key := range content.Data {
		f.key = key
		var problem string
		f.path, problem = src.Selection.PathOf(content.Ref, key, folder)
		switch {
		case problem != "":
			d.collisions.add(fmt.Sprintf("%s, which %s", f, problem))
		case !tree.Blocks(d.mountPoints, f.path):
			if d.pathBytes += len(f.path); d.pathBytes > mostPathBytes {
				d.unsupported.add(fmt.Sprintf("the paths of the files of selected objects have more than %d MiB together: "+
					"use shorter paths, or more volumes", mostPathBytes>>20))
				return files
			}
			files = append(files, f)
		default:
			d.leftOut.add(f.String())
		}
	}
	return files
}

// Collisions returns the keys of selected objects that have no file because of their paths, each
// with the reason, sorted. After 20 of them a last text counts the rest. The list is the caller's.
func (p Plan) Collisions() []string { return p.collisions.list() }

// places are the paths that files have, and the directories that they need, each with a file that
// needs it.
type places struct {
	files map[string]bool
	dirs  map[string]string
	// isBroken means that a path is in both: named files collide, and there will be no tree.
	isBroken bool
}

func newPlaces(files func(func(string) bool)) *places {
	p := &places{files: map[string]bool{}, dirs: map[string]string{}}
	for _, file := range slices.Sorted(files) { // The same files have the same messages.
		p.add(file)
	}
	for file := range p.files {
		if _, found := p.dirs[file]; found {
			p.isBroken = true
		}
	}
	return p
}

func (p *places) add(file string) {
	p.files[file] = true
	for dir := tree.Parent(file); dir != "."; dir = tree.Parent(dir) {
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
	for dir := tree.Parent(file); dir != "."; dir = tree.Parent(dir) {
		if p.files[dir] {
			return dir
		}
		if _, found := p.dirs[dir]; found && !p.isBroken {
			return "" // So it is a directory, and those above it are.
		}
	}
	return ""
}
