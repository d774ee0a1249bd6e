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

// Build is [Prepare] and [Plan.Tree] in one, for whoever has the memory for both.
func Build(spec api.Spec, fsGroup *int, contents map[api.Ref]api.Content) (tree.Tree, error) {
	plan, err := Prepare(spec, fsGroup, contents)
	if err != nil {
		return tree.Tree{}, err
	}
	return plan.Tree(), nil
}

// Plan is a tree of which the files that hold several keys are still to be rendered. It shares the contents' bytes.
type Plan struct {
	tree   tree.Tree
	sheets map[string]sheet // By the paths of their files.
}

// Prepare merges the sources of spec, in order, into one tree. A ref that is not in contents does not exist. fsGroup is
// the pod's, nil when it has none.
//
// Either everything required is there or nothing is built: the error is a *[MissingError] with all that is missing, an
// *[UnfitError] when a file of several keys cannot hold one of them, or a *[tree.ConflictError] when what the objects hold
// cannot stand in one directory.
func Prepare(spec api.Spec, fsGroup *int, contents map[api.Ref]api.Content) (Plan, error) {
	d := draft{files: map[string]tree.File{}}
	for _, src := range spec.Sources {
		content, found := contents[src.Ref]
		switch {
		case !found && !src.Optional:
			d.missing.add(fmt.Sprintf("%s %q not found", src.Ref.Kind.Resource(), src.Ref.Name))
		case src.As == nil:
			d.project(src, content, spec.DefaultMode)
		case found:
			d.gather(src, content, spec.DefaultMode)
		}
	}
	switch {
	case d.missing.any():
		return Plan{}, &MissingError{d.missing}
	case d.unfit.any():
		return Plan{}, &UnfitError{d.unfit}
	}
	files := make([]tree.File, 0, len(d.files))
	for _, f := range d.files {
		files = append(files, f)
	}
	t, err := tree.New(files)
	if err != nil {
		return Plan{}, err
	}
	own(&t, spec, fsGroup)
	return Plan{tree: t, sheets: d.sheets}, nil
}

// draft is what the sources so far make of a volume, by paths: a later one takes the place of an earlier one.
type draft struct {
	files   map[string]tree.File
	sheets  map[string]sheet
	missing problems
	unfit   problems
	// rendered is how many bytes sheets make, also those whose place was taken. IsFull says that there are too many.
	rendered int
	isFull   bool
}

// place puts a file into the draft.
func (d *draft) place(path string, data []byte, mode fs.FileMode) {
	d.files[path] = tree.File{Path: path, Data: data, Mode: mode}
	delete(d.sheets, path)
}

// project places a file for each key of a source; required keys that do not exist are missing.
func (d *draft) project(src api.Source, content api.Content, defaultMode fs.FileMode) {
	if len(src.Items) == 0 {
		for key, data := range content.Data {
			d.place(key, data, defaultMode)
		}
		return
	}
	for _, item := range src.Items {
		if data, found := d.find(src, item.Key, content); found {
			d.place(item.Path, data, modeOf(item.Mode, defaultMode))
		}
	}
}

// find returns the value of a key that an item names. One that is required and does not exist is missing.
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

// own sets owners and what fsGroup adds to the modes. With an explicit uid the modes stay exact: the owner can read its
// files, and programs such as sshd refuse a key that its group can read.
func own(t *tree.Tree, spec api.Spec, fsGroup *int) {
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
