package preview_test

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/preview"
	"github.com/liveconfig-csi/liveconfig/pkg/expect"
	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
)

// volume returns one that holds the files, of which those named secret… are of a Secret.
func volume(t *testing.T, name string, files ...tree.File) preview.Volume {
	t.Helper()
	built, err := tree.New(files)
	expect.NoError(t, err)
	return preview.Volume{
		Name: name, Type: preview.Liveconfig, Tree: built, RootMode: built.DirMode,
		Hidden: map[string]bool{"secret": true, "d/secret": true},
	}
}

func file(path, data string, mode fs.FileMode) tree.File {
	return tree.File{Path: path, Data: []byte(data), Mode: mode}
}

func TestDifference(t *testing.T) {
	t.Parallel()
	one := func(files ...tree.File) []preview.Volume { return []preview.Volume{volume(t, "v", files...)} }
	owned := one(file("a", "1\n", 0o644))
	owned[0].Tree.GID, owned[0].Tree.DirMode, owned[0].RootMode = 5, 0o755|fs.ModeSetgid, 0o755|fs.ModeSetgid
	broken := []preview.Volume{{Name: "v", Err: errors.New("gone")}}
	for name, test := range map[string]struct {
		before, after []preview.Volume
		shown         bool // Secrets too.
		want          string
	}{
		"equal volumes do not differ": {before: one(file("a", "1\n", 0o644)), after: one(file("a", "1\n", 0o644)), want: ""},
		"lines of a ConfigMap are shown": {
			before: one(file("a", "1\n", 0o644), file("gone", "", 0o644)), after: one(file("a", "2\n", 0o600), file("d/new", "3\n", 0o644)),
			want: "file pod/p/v/a: mode 0644 -> 0600\n" +
				"--- live/pod/p/v/a\n+++ preview/pod/p/v/a\n@@ -1,1 +1,1 @@\n-1\n+2\n" +
				"--- /dev/null\n+++ preview/pod/p/v/d/new\n@@ -0,0 +1,1 @@\n+3\n" +
				"--- live/pod/p/v/gone\n+++ /dev/null\nremoved, 0 bytes\n",
		},
		"lines of a Secret are not": {
			before: one(file("secret", "hush\n", 0o644)), after: one(file("secret", "hush hush\n", 0o644)),
			want: "--- live/pod/p/v/secret\n+++ preview/pod/p/v/secret\nchanged, 5 bytes -> 10 bytes\n",
		},
		"unless they are wanted": {
			before: one(file("secret", "hush\n", 0o644)), after: one(file("secret", "hish\n", 0o644)), shown: true,
			want: "--- live/pod/p/v/secret\n+++ preview/pod/p/v/secret\n@@ -1,1 +1,1 @@\n-hush\n+hish\n",
		},
		"a volume that comes is all added": {
			after: one(file("a", "1\n", 0o644)),
			want:  "volume pod/p/v: added\n--- /dev/null\n+++ preview/pod/p/v/a\n@@ -0,0 +1,1 @@\n+1\n",
		},
		"a volume that goes is all removed": {
			before: one(file("a", "1\n", 0o644)),
			want:   "volume pod/p/v: removed\n--- live/pod/p/v/a\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-1\n",
		},
		"an empty volume that comes is a difference": {after: one(), want: "volume pod/p/v: added\n"},
		"what changes for all files is shown once": {
			before: one(file("a", "1\n", 0o644)), after: owned,
			want: "volume pod/p/v: owner 0:0 -> 0:5, mode 0755 -> 2755, mode of directories 0755 -> 2755\n",
		},
		"one of which nothing is known holds nothing": {
			before: broken, after: one(file("a", "1\n", 0o644)), want: "--- /dev/null\n+++ preview/pod/p/v/a\n@@ -0,0 +1,1 @@\n+1\n",
		},
		"odd paths are quoted": {
			after: one(file("a\x1b[2J", "", 0o644)), before: one(),
			want: "--- /dev/null\n+++ preview/pod/p/v/\"a\\x1b[2J\"\nadded, 0 bytes\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if test.shown {
				test.before[0].Hidden, test.after[0].Hidden = nil, nil
			}
			got := preview.Difference(preview.Pod{Kind: "Pod", Name: "p"}, test.before, test.after)
			wantSame(t, "Difference", test.want, got)
		})
	}
}
