package treebuilder_test

import (
	"fmt"
	"io/fs"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

func TestBuildOwners(t *testing.T) {
	t.Parallel()
	const traversed = 0o755 | fs.ModeSetgid // 0755 with 0440 and 0110 is 0755.
	tests := map[string]struct {
		uid, gid, fsGroup *int
		wantUID, wantGID  int
		wantDirs          fs.FileMode
		wantFile          fs.FileMode // Of a file with mode 0400.
	}{
		"rule 52: without fsGroup all is root's and exact":      {nil, nil, nil, 0, 0, 0o755, 0o400},
		"rule 53: fsGroup may read, and directories pass it on": {nil, nil, new(2000), 0, 2000, traversed, 0o440},
		"rule 53: fsGroup 0 is a group":                         {nil, nil, new(0), 0, 0, traversed, 0o440},
		"a gid alone owns and leaves modes alone":               {nil, new(3000), nil, 0, 3000, 0o755, 0o400},
		"a gid wins over fsGroup, whose modes hold":             {nil, new(3000), new(2000), 0, 3000, traversed, 0o440},
		"a gid of 0 wins over fsGroup":                          {nil, new(0), new(2000), 0, 0, traversed, 0o440},
		"a uid alone keeps the group root's":                    {new(1000), nil, nil, 1000, 0, 0o755, 0o400},
		"a uid keeps modes exact under fsGroup":                 {new(1000), nil, new(2000), 1000, 2000, 0o755, 0o400},
		"a uid of 0 is set, and keeps modes exact":              {new(0), nil, new(2000), 0, 2000, 0o755, 0o400},
		"a uid and a gid are taken as they are":                 {new(1000), new(3000), nil, 1000, 3000, 0o755, 0o400},
		"a uid and a gid keep modes exact, gid over fsGroup":    {new(1000), new(3000), new(2000), 1000, 3000, 0o755, 0o400},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := spec(api.Source{Ref: web})
			s.DefaultMode, s.UID, s.GID = 0o400, tt.uid, tt.gid
			want := plain(file("d", "D", tt.wantFile))
			want.UID, want.GID, want.DirMode = tt.wantUID, tt.wantGID, tt.wantDirs

			got := build(t, s, tt.fsGroup, objects(map[api.Ref][]string{web: {"d", "D"}}))
			wantSame(t, "Build", want, got)
		})
	}
}

// TestBuildUsersOfFiles: a file with an owner of its own has its mode exactly, as in a volume with an owner.
func TestBuildUsersOfFiles(t *testing.T) {
	t.Parallel()
	s := spec(api.Source{Ref: web, Items: []api.Item{
		{Key: "k", Path: "mine", User: new(999)}, {Key: "k", Path: "ours"}, {Key: "k", Path: "roots", User: new(0)},
	}})
	s.DefaultMode = 0o400
	contents := objects(map[api.Ref][]string{web: {"k", "v"}})
	for name, tt := range map[string]struct {
		uid, fsGroup *int
		want         []string
	}{
		"alone":             {nil, nil, []string{"mine 999 0400", "ours 0 0400", "roots 0 0400"}},
		"with fsGroup":      {nil, new(2000), []string{"mine 999 0400", "ours 0 0440", "roots 0 0400"}},
		"over the volume's": {new(1000), new(2000), []string{"mine 999 0400", "ours 1000 0400", "roots 0 0400"}},
	} {
		s.UID = tt.uid
		built := build(t, s, tt.fsGroup, contents)
		var got []string
		for _, f := range built.Files {
			got = append(got, fmt.Sprintf("%s %d %04o", f.Path, built.UserOf(f), f.Mode))
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: files (-want +got):\n%s", name, diff)
		}
	}
}

// TestBuildGroupModes is rule 54: what fsGroup makes of modes.
func TestBuildGroupModes(t *testing.T) {
	t.Parallel()
	for m, want := range map[fs.FileMode]fs.FileMode{
		0o644: 0o644, 0o400: 0o440, 0o600: 0o640, 0o000: 0o440, 0o200: 0o640, 0o111: 0o551, 0o777: 0o777,
	} {
		t.Run(fmt.Sprintf("%04o becomes %04o", m, want), func(t *testing.T) {
			t.Parallel()
			s := spec(api.Source{Ref: web, Items: []api.Item{
				{Key: "k", Path: "default"}, {Key: "k", Path: "item", Mode: new(m)},
			}})
			s.DefaultMode = m
			got := build(t, s, new(2000), objects(map[api.Ref][]string{web: {"k", "v"}}))
			for _, f := range got.Files {
				if f.Mode != want {
					t.Errorf("mode of %s = %04o, want %04o", f.Path, f.Mode, want)
				}
			}
		})
	}
}

// TestBuildKeepsItsInput proves that fsGroup's modes are added to the tree and not to what it was made from: specs and
// contents are shared.
func TestBuildKeepsItsInput(t *testing.T) {
	t.Parallel()
	m := new(fs.FileMode(0o400))
	s := spec(api.Source{Ref: web, Items: []api.Item{{Key: "k", Path: "p", Mode: m}}})
	contents := objects(map[api.Ref][]string{web: {"k", "v"}})
	first := build(t, s, new(2000), contents)
	if *m != 0o400 {
		t.Errorf("mode of the item after Build = %04o, want 0400", *m)
	}
	wantSame(t, "contents after Build", objects(map[api.Ref][]string{web: {"k", "v"}}), contents)
	second := build(t, s, nil, contents)
	if got := second.Files[0].Mode; got != 0o400 {
		t.Errorf("mode without fsGroup after a Build with it = %04o, want 0400", got)
	}
	if &first.Files[0].Data[0] != &contents[web].Data["k"][0] {
		t.Error("Build copied a value, want it shared")
	}
}
