// Package volumes has directories for tests that are written as the driver writes volumes. It does
// not know what the tests read.
package volumes

import (
	"os"
	"testing"

	"github.com/liveconfig-csi/liveconfig/pkg/files/atomicdir"
	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
)

// Layouts returns the writers of the driver by name.
func Layouts() map[string]atomicdir.Writer {
	return map[string]atomicdir.Writer{
		"Atomic": atomicdir.Atomic{}, "Replace": atomicdir.Replace{}, "InPlace": atomicdir.InPlace{},
	}
}

// Volume is a directory that a writer has written.
type Volume struct {
	Path   string
	root   *os.File
	writer atomicdir.Writer
}

// New returns an empty volume.
func New(t testing.TB, writer atomicdir.Writer) Volume {
	t.Helper()
	path := t.TempDir()
	root, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return Volume{path, root, writer}
}

// Write replaces the files of the volume by these contents, which have the mode 0644.
func (v Volume) Write(contents map[string]string) error {
	var files []tree.File
	for path, data := range contents {
		files = append(files, tree.File{Path: path, Data: []byte(data), Mode: 0o644})
	}
	made, err := tree.New(files)
	if err != nil {
		return err
	}
	made.DirMode, made.UID, made.GID = 0o755, os.Getuid(), os.Getgid()
	_, err = v.writer.Write(v.root, made)
	return err
}
