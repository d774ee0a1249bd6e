// Package treebuilder turns a volume's Spec and the contents of its sources into the tree of files
// the volume shall hold.
//
// It is pure: it does not know clients, clocks, disks, goroutines or the state a volume is in.
package treebuilder

import (
	"cmp"
	"fmt"
	"io/fs"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
)

// fsGroup gives group members what a read-only volume can give: reading files, and listing and
// entering directories. New entries of a directory inherit its group.
const (
	groupReads     fs.FileMode = 0o440
	groupTraverses fs.FileMode = 0o110
	plainDir       fs.FileMode = 0o755
)

// Build is [Prepare] and [Plan.Tree] in one, for callers that need not ask for memory in between.
func Build(spec api.Spec, fsGroup *int, contents map[api.Ref]api.Content) (tree.Tree, error) {
	plan, err := Prepare(spec, fsGroup, contents)
	if err != nil {
		return tree.Tree{}, err
	}
	return plan.Tree(), nil
}

// Plan is a tree whose rendered files are not rendered yet. It shares the bytes of the contents.
type Plan struct {
	tree     tree.Tree
	rendered map[string]renderedFile // By path.
	secrets  []string                // See HasSecretValues.
	leftOut  shortList               // See LeftOut.
	// See Collisions.
	collisions shortList
}

// Prepare merges the sources of spec, in order, into one tree. A ref that is not in contents does
// not exist. fsGroup is the pod's, nil when it has none.
//
// It builds all or nothing. The error is a *[MissingError] that lists every missing object and key,
// or a name without a value, an *[UnsupportedError] if there are more than [MostKeys], if selected
// objects have paths that are too long, or if a rendered file cannot hold a key or value, or a
// *[tree.ConflictError] if the paths of two files collide.
func Prepare(spec api.Spec, fsGroup *int, contents map[api.Ref]api.Content) (Plan, error) {
	return PrepareSelected(spec, fsGroup, contents, nil)
}

// PrepareSelected is [Prepare] for a spec that has selections.
func PrepareSelected(
	spec api.Spec, fsGroup *int, contents map[api.Ref]api.Content, selected Selected,
) (Plan, error) {
	if err := checkKeys(spec, contents, selected); err != nil {
		return Plan{}, err
	}
	d := draft{
		defaultMode: spec.DefaultMode, files: map[string]draftFile{}, mountPoints: spec.MountPoints,
		marks: needsSources(spec),
	}
	if fsGroup != nil && spec.UID == nil {
		d.added = groupReads
	}
	d.readValues(spec, contents)
	for i, src := range spec.Sources {
		d.source, d.field = i, fieldOfItems(spec, i)
		content, found := contents[src.Ref]
		switch {
		case src.Selection != nil: // See addSelected.
		case !found && !src.Optional:
			d.missing.add(fmt.Sprintf("%s %q not found", src.Ref.Kind.Resource(), src.Ref.Name))
		case src.As == nil:
			d.addKeys(src, content)
		case found:
			d.addCombined(src, content)
		}
	}
	d.addSelected(spec, selected)
	switch {
	case d.missing.any():
		return Plan{}, &MissingError{d.missing}
	case d.unsupported.any():
		return Plan{}, &UnsupportedError{d.unsupported}
	}
	files := make([]tree.File, 0, len(d.files))
	for _, f := range d.files {
		files = append(files, f.File)
	}
	t, err := tree.New(files)
	if err != nil {
		return Plan{}, err
	}
	setOwners(&t, spec, fsGroup)
	t.MountPoints = mountPoints(spec, t)
	return Plan{
		tree: t, rendered: d.rendered, secrets: d.secrets, leftOut: d.leftOut, collisions: d.collisions,
	}, nil
}

// draft is what the sources so far make of a volume, by path. A later file replaces an earlier one.
type draft struct {
	defaultMode fs.FileMode // Of files for which no item has one.
	added       fs.FileMode // Added to the modes of files for which no item has an owner.
	files       map[string]draftFile
	mountPoints []string  // Where no file may be.
	leftOut     shortList // The keys whose places these are.
	field       string    // Where the items of the source at hand stand in the attributes.
	collisions  shortList // See [Plan.Collisions].
	pathBytes   int       // Of the paths of selected files.
	source      int       // The one that is being added.
	marks       bool      // Files have their [tree.File.Source]: see [needsSources].
	rendered    map[string]renderedFile
	secrets     []string
	values      values
	missing     problems
	unsupported problems
	// combined is how many bytes the combined files have, also those that were replaced. isFull
	// means that they are too many.
	combined int
	isFull   bool
	// expanded is the same for files with values, and texts is what they are made of: a value may
	// be empty.
	expanded, texts int
}

// draftFile is a file with the index of its source, if that names an object.
type draftFile struct {
	tree.File

	source int
}

// addFile adds a file, in place of one with the same path. Without a mode it has the default one.
func (d *draft) addFile(f tree.File, mode *fs.FileMode) {
	f.Mode = d.defaultMode
	if mode != nil {
		f.Mode = *mode
	}
	if f.User == nil {
		f.Mode |= d.added
	}
	if d.marks {
		f.Source = cmp.Or(f.Source, sourceOfNamed)
	}
	d.files[f.Path] = draftFile{f, d.source}
	delete(d.rendered, f.Path)
}

// render has a file that was added be rendered later.
func (d *draft) render(path string, r renderedFile) {
	if d.rendered == nil {
		d.rendered = map[string]renderedFile{}
	}
	d.rendered[path] = r
}

// addKeys adds a file for each key of a source. A required key that does not exist is missing.
func (d *draft) addKeys(src api.Source, content api.Content) {
	if len(src.Items) == 0 {
		for key, data := range content.Data {
			if d.isFree(src, key, key) {
				d.addKey(src, tree.File{Path: key, Data: data}, api.Item{Key: key})
			}
		}
		return
	}
	for i, item := range src.Items {
		if data, found := d.find(src, i, content); found && d.isFree(src, item.Key, item.Path) {
			d.addKey(src, tree.File{Path: item.Path, Data: data, User: item.User}, item)
		}
	}
}

// addKey adds the file of one key, with values if the source or the item has that.
func (d *draft) addKey(src api.Source, f tree.File, item api.Item) {
	e := cmp.Or(item.Expand, src.Expand)
	if e == nil {
		d.addFile(f, item.Mode)
		return
	}
	d.addExpanded(src, f, item, *e)
}

// find returns the value of the key that an item names. A required key that does not exist is
// missing.
func (d *draft) find(src api.Source, item int, content api.Content) (data []byte, found bool) {
	key := src.Items[item].Key
	data, found = content.Data[key]
	if !found && !src.Optional {
		m := missingKey{ref: src.Ref, key: key}
		d.missing.addOnce(m.id(), m.text(fmt.Sprintf("%s[%d]", d.field, item)))
	}
	return data, found
}

// setOwners sets the owners, and adds to the mode of directories what fsGroup needs. With an
// explicit owner modes stay exact: the owner can read the files, and programs such as sshd refuse a
// key that its group can read.
func setOwners(t *tree.Tree, spec api.Spec, fsGroup *int) {
	t.DirMode = plainDir
	if spec.UID != nil {
		t.UID = *spec.UID
	}
	switch {
	case spec.GID != nil:
		t.GID = *spec.GID
	case fsGroup != nil:
		t.GID = *fsGroup
	}
	if fsGroup != nil && spec.UID == nil {
		t.DirMode |= groupReads | groupTraverses | fs.ModeSetgid
	}
}
