package tree_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
)

// file returns a file whose content is its path.
func file(path string) tree.File {
	return tree.File{Path: path, Data: []byte(path), Mode: 0o644}
}

func files(paths ...string) []tree.File {
	var all []tree.File
	for _, p := range paths {
		all = append(all, file(p))
	}
	return all
}

// grow is New for files that do not conflict.
func grow(t *testing.T, paths ...string) tree.Tree {
	t.Helper()
	made, err := tree.New(files(paths...))
	if err != nil {
		t.Fatalf("New(%q) = %v", paths, err)
	}
	return made
}

func paths(t tree.Tree) []string {
	var all []string
	for _, f := range t.Files {
		all = append(all, f.Path)
	}
	return all
}

func TestNew(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ in, want []string }{
		"nothing":                            {nil, nil},
		"one file":                           {[]string{"a"}, []string{"a"}},
		"files are sorted":                   {[]string{"c", "a", "b"}, []string{"a", "b", "c"}},
		"a directory's files stay together":  {[]string{"a/b", "a-b", "a.b", "a/a"}, []string{"a/a", "a/b", "a-b", "a.b"}},
		"a name that begins like another":    {[]string{"ab", "a", "abc/d"}, []string{"a", "ab", "abc/d"}},
		"a name that begins like a parent's": {[]string{"a/b", "a/bc", "ab/c"}, []string{"a/b", "a/bc", "ab/c"}},
		"case counts":                        {[]string{"b", "B", "a"}, []string{"B", "a", "b"}},
		"dots that are only names":           {[]string{"a/..b", ".hidden", "a/..."}, []string{".hidden", "a/...", "a/..b"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := grow(t, tc.in...)
			if diff := cmp.Diff(tc.want, paths(got)); diff != "" {
				t.Errorf("paths (-want +got):\n%s", diff)
			}
			if got.DirMode != 0o755 || got.UID != 0 || got.GID != 0 {
				t.Errorf("directories are %o of %d:%d, want 755 of 0:0", got.DirMode, got.UID, got.GID)
			}
			for _, f := range got.Files {
				if !bytes.Equal(f.Data, []byte(f.Path)) || f.Mode != 0o644 {
					t.Errorf("%s = %q %o, want what was given", f.Path, f.Data, f.Mode)
				}
			}
		})
	}
}

func TestNewRefusesWhatCannotStandTogether(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		in          []string
		path, below string
	}{
		"a file over a directory":            {[]string{"a/b", "a"}, "a", "a/b"},
		"far above":                          {[]string{"a", "a/b/c/d"}, "a", "a/b/c/d"},
		"inside a directory":                 {[]string{"x/a/b", "x/a", "x/b"}, "x/a", "x/a/b"},
		"a neighbour sorts between as bytes": {[]string{"a", "a-b", "a.c", "a/b"}, "a", "a/b"},
		"the first of several":               {[]string{"b", "b/c", "a", "a/c"}, "a", "a/c"},
		"one path twice":                     {[]string{"a", "b", "b"}, "b", "b"},
		"one path twice, and below it":       {[]string{"a/b", "a", "a"}, "a", "a"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range 20 {
				in := files(tc.in...)
				rand.Shuffle(len(in), func(i, j int) { in[i], in[j] = in[j], in[i] })
				got, err := tree.New(in)
				var conflict *tree.ConflictError
				if !errors.As(err, &conflict) {
					t.Fatalf("New = %v, %v, want a conflict", got, err)
				}
				if conflict.Path != tc.path || conflict.Below != tc.below {
					t.Fatalf("conflict of %q and %q, want %q and %q", conflict.Path, conflict.Below, tc.path, tc.below)
				}
				if len(got.Files) > 0 {
					t.Errorf("New = %d files beside an error, want none", len(got.Files))
				}
			}
		})
	}
}

func TestConflictErrorNamesBothFiles(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		err  tree.ConflictError
		want string
	}{
		"one below the other": {
			tree.ConflictError{Path: "conf", Below: "conf/a \"b\""},
			`path "conf" cannot be a file and, for "conf/a \"b\"", a directory`,
		},
		"the same": {tree.ConflictError{Path: "conf", Below: "conf"}, `path "conf" is that of two files`},
	}
	for name, tc := range tests {
		if got := tc.err.Error(); got != tc.want {
			t.Errorf("%s: Error() = %s, want %s", name, got, tc.want)
		}
	}
}

func TestNewRefusesPathsThatAreNotClean(t *testing.T) {
	t.Parallel()
	for _, p := range []string{"", ".", "..", "a//b", "a/", "/a", "./a", "a/.", "a/./b", "a/..", "a/../b", "../a"} {
		got, err := tree.New(files("a/b", p))
		want := `path ` + strconv.Quote(p) + ` is not a clean relative path`
		if err == nil || err.Error() != want || len(got.Files) > 0 {
			t.Errorf("%s: New = %v, %v, want the error %s", p, got, err, want)
		}
	}
}

// TestNewFindsEveryConflict compares New with the definition on random trees of few names.
func TestNewFindsEveryConflict(t *testing.T) {
	t.Parallel()
	names := []string{"a", "b", "a-", "a.", "ab"}
	for range 2000 {
		distinct := map[string]bool{}
		for range 1 + rand.IntN(6) {
			var elements []string
			for range 1 + rand.IntN(3) {
				elements = append(elements, names[rand.IntN(len(names))])
			}
			distinct[strings.Join(elements, "/")] = true
		}
		var in []string
		conflict := false
		for p := range distinct { // In any order.
			in = append(in, p)
			for q := range distinct {
				conflict = conflict || strings.HasPrefix(q, p+"/")
			}
		}
		got, err := tree.New(files(in...))
		if (err != nil) != conflict {
			t.Fatalf("New(%q) = %v, want a conflict: %t", in, err, conflict)
		}
		if err == nil && len(got.Files) != len(in) {
			t.Fatalf("New(%q) has %d files", in, len(got.Files))
		}
	}
}

func TestDirs(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ in, want []string }{
		"nothing":                    {nil, nil},
		"no directories":             {[]string{"a", "b"}, nil},
		"one for two files":          {[]string{"a/x", "a/y"}, []string{"a"}},
		"parents before children":    {[]string{"a/b/c/x"}, []string{"a", "a/b", "a/b/c"}},
		"each once":                  {[]string{"a/b/x", "a/c/x", "a/x", "b/x"}, []string{"a", "a/b", "a/c", "b"}},
		"one name on several levels": {[]string{"a/a/a/a"}, []string{"a", "a/a", "a/a/a"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, grow(t, tc.in...).Dirs()); diff != "" {
				t.Errorf("Dirs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ in, want []string }{
		"nothing":                {nil, nil},
		"files":                  {[]string{"b", "a"}, []string{"a", "b"}},
		"directories count once": {[]string{"a/x", "a/y/z", "b"}, []string{"a", "b"}},
		"sorted as names":        {[]string{"a/x", "a-b", "a.b"}, []string{"a", "a-b", "a.b"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := grow(t, tc.in...).Names()
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("Names (-want +got):\n%s", diff)
			}
			if !slices.IsSorted(got) {
				t.Errorf("Names = %q, want them sorted", got)
			}
		})
	}
}

func TestSize(t *testing.T) {
	t.Parallel()
	made, err := tree.New([]tree.File{
		{Path: "empty"}, {Path: "a", Data: []byte("123")}, {Path: "b/c", Data: []byte("é")}, {Path: "d", Data: []byte{0}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := made.Size(), 6; got != want {
		t.Errorf("Size = %d, want %d", got, want)
	}
	if got := (tree.Tree{}).Size(); got != 0 {
		t.Errorf("Size of nothing = %d, want 0", got)
	}
}
