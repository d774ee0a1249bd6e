// Package projection turns a volume's Spec and the contents of its sources into the tree of files the volume shall hold.
//
// It is pure: it does not know clients, clocks, disks, goroutines or the state a volume is in.
package projection

import (
	"fmt"
	"io/fs"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
)

// fsGroup gives group members what a read-only volume can give: reading files, and listing and entering directories.
// New entries of a directory inherit its group.
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

// Plan is a tree whose combined files are not rendered yet. It shares the bytes of the contents.
type Plan struct {
	tree     tree.Tree
	combined map[string]combinedFile // By path.
}

// Prepare merges the sources of spec, in order, into one tree. A ref that is not in contents does not exist. fsGroup is
// the pod's, nil when it has none.
//
// It builds all or nothing. The error is a *[MissingError] that lists every missing object and key, an *[UnsupportedError]
// if a combined file cannot hold a key, or a *[tree.ConflictError] if the paths of two files collide.
func Prepare(spec api.Spec, fsGroup *int, contents map[api.Ref]api.Content) (Plan, error) {
	d := draft{files: map[string]tree.File{}}
	for _, src := range spec.Sources {
		content, found := contents[src.Ref]
		switch {
		case !found && !src.Optional:
			d.missing.add(fmt.Sprintf("%s %q not found", src.Ref.Kind.Resource(), src.Ref.Name))
		case src.As == nil:
			d.addKeys(src, content, spec.DefaultMode)
		case found:
			d.addCombined(src, content, spec.DefaultMode)
		}
	}
	switch {
	case d.missing.any():
		return Plan{}, &MissingError{d.missing}
	case d.unsupported.any():
		return Plan{}, &UnsupportedError{d.unsupported}
	}
	files := make([]tree.File, 0, len(d.files))
	for _, f := range d.files {
		files = append(files, f)
	}
	t, err := tree.New(files)
	if err != nil {
		return Plan{}, err
	}
	setOwners(&t, spec, fsGroup)
	return Plan{tree: t, combined: d.combined}, nil
}

// draft is what the sources so far make of a volume, by path. A later file replaces an earlier one.
type draft struct {
	files       map[string]tree.File
	combined    map[string]combinedFile
	missing     problems
	unsupported problems
	// rendered is how many bytes the combined files have, also those that were replaced. isFull says that they are too many.
	rendered int
	isFull   bool
}

// addFile adds a file, in place of one with the same path.
func (d *draft) addFile(path string, data []byte, mode fs.FileMode) {
	d.files[path] = tree.File{Path: path, Data: data, Mode: mode}
	delete(d.combined, path)
}

// addKeys adds a file for each key of a source. A required key that does not exist is missing.
func (d *draft) addKeys(src api.Source, content api.Content, defaultMode fs.FileMode) {
	if len(src.Items) == 0 {
		for key, data := range content.Data {
			d.addFile(key, data, defaultMode)
		}
		return
	}
	for _, item := range src.Items {
		if data, found := d.find(src, item.Key, content); found {
			d.addFile(item.Path, data, modeOf(item.Mode, defaultMode))
		}
	}
}

// find returns the value of a key that an item names. A required key that does not exist is missing.
func (d *draft) find(src api.Source, key string, content api.Content) (data []byte, found bool) {
	data, found = content.Data[key]
	if !found && !src.Optional {
		d.missing.add(missingKey(src.Ref.Kind, key))
	}
	return data, found
}

func modeOf(mode *fs.FileMode, defaultMode fs.FileMode) fs.FileMode {
	if mode != nil {
		return *mode
	}
	return defaultMode
}

// setOwners sets the owners, and adds to the modes what fsGroup needs. With an explicit uid the modes stay exact: the owner
// can read the files, and programs such as sshd refuse a key that its group can read.
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
	if fsGroup == nil || spec.UID != nil {
		return
	}
	t.DirMode |= groupReads | groupTraverses | fs.ModeSetgid
	for i := range t.Files {
		t.Files[i].Mode |= groupReads
	}
}
