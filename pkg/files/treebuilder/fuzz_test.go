package treebuilder_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/expect"
	"github.com/liveconfig-csi/liveconfig/pkg/files/atomicdir"
	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
	"github.com/liveconfig-csi/liveconfig/pkg/files/treebuilder"
)

// FuzzBuild lets a file system judge: whatever users type, and whatever keys an API server might come to allow, the tree
// is a set of files below the volume's root, each of which can be written, and nothing beside it.
func FuzzBuild(f *testing.F) {
	for _, seed := range [][3]string{
		{`[{configMap: {name: a}}]`, "a", "b"},
		{`[{configMap: {name: a}}, {secret: {name: b, optional: true}}]`, "..data", "../../x"},
		{`[{configMap: {name: a, items: [{key: a, path: b/c}]}}, {secret: {name: a}}]`, "a", "b"},
		{`[{configMap: {name: a, items: [{key: a, path: "./x//y/"}]}}]`, "a", "/etc/passwd"},
		{`[{configMap: {name: a}}, {secret: {name: a}}]`, ".", ""},
		{`[{configMap: {name: a}}]`, "a/b", "a\x00b"},
		{`[{configMap: {name: a}}]`, strings.Repeat("x", 256), "...."},
		{`[{configMap: {name: a, as: {path: x/y.env, format: dotenv}}}, {secret: {name: b}}]`, "a", "x"},
		{`[{configMap: {name: a, items: [{key: a}, {key: b, path: c}], as: {path: "./x//y", format: json}}}]`, "a", "b"},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	f.Fuzz(func(t *testing.T, sources, first, second string) {
		spec, err := api.Parse(map[string]string{api.KeySources: sources}, "default")
		if err != nil {
			return
		}
		contents := map[api.Ref]api.Content{}
		for _, ref := range spec.Refs() {
			contents[ref] = api.Content{Ref: ref, Data: map[string][]byte{first: []byte("1"), second: []byte("2")}}
		}
		built, err := treebuilder.Build(spec, nil, contents)
		if err != nil {
			return
		}
		built.UID, built.GID = os.Getuid(), os.Getgid() // An ordinary user can give files to nobody else.
		for _, w := range []atomicdir.Writer{atomicdir.Replace{}, atomicdir.Atomic{}} {
			checkStaysInside(t, w, built)
		}
	})
}

// checkStaysInside writes the tree into a directory and wants its files there, and nothing anywhere else.
func checkStaysInside(t *testing.T, w atomicdir.Writer, built tree.Tree) {
	t.Helper()
	outside := t.TempDir()
	volume := filepath.Join(outside, "deep", "volume")
	expect.NoError(t, os.MkdirAll(volume, 0o755))
	root, err := os.Open(volume)
	expect.NoError(t, err)
	defer root.Close()
	if _, err := w.Write(root, built); err != nil {
		if isRefused(err) {
			return
		}
		t.Fatalf("%T: Write: %v", w, err)
	}
	shown, err := os.OpenRoot(volume) // A path may be longer than a system call takes.
	expect.NoError(t, err)
	defer shown.Close()
	for _, file := range built.Files {
		got, err := shown.ReadFile(file.Path)
		if err != nil || !slices.Equal(got, file.Data) {
			t.Errorf("%T: %q holds %q, %v; want %q", w, file.Path, got, err, file.Data)
		}
	}
	if diff := cmp.Diff([]string{"deep", "deep/volume"}, directoriesAround(t, outside, volume)); diff != "" {
		t.Errorf("%T: what is around the volume (-want +got):\n%s", w, diff)
	}
}

// isRefused recognises errors of keys that no API server lets through today: the writer refuses before it has shown anything.
func isRefused(err error) bool {
	for _, text := range []string{"is reserved", "file name too long", "invalid argument"} {
		if strings.Contains(err.Error(), text) {
			return true
		}
	}
	return false
}

func directoriesAround(t *testing.T, dir, volume string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, err := filepath.Rel(dir, path)
		found = append(found, name)
		if path == volume {
			return filepath.SkipDir
		}
		return err
	})
	expect.NoError(t, err)
	return found
}
