package preview_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/preview"
	"github.com/liveconfig-csi/liveconfig/pkg/expect"
)

// seen returns modes and contents of all that is below a folder.
func seen(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(strings.TrimPrefix(path, dir), "/")
		if entry.IsDir() {
			found[name] = info.Mode().String()
			return nil
		}
		text, err := os.ReadFile(path)
		found[name] = info.Mode().String() + " " + string(text)
		return err
	})
	expect.NoError(t, err)
	return found
}

func newFolder(t *testing.T, dir string) *preview.Folder {
	t.Helper()
	folder, err := preview.NewFolder(dir)
	expect.NoError(t, err)
	t.Cleanup(func() { folder.Close() })
	return folder
}

func TestFolder(t *testing.T) {
	t.Parallel()
	for name, secret := range map[string]string{"hidden": "-rw-------", "shown": "-rw-r--r--"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "new")
			folder := newFolder(t, dir)
			v := volume(t, "v", file("a", "1", 0o666), file("d/secret", "hush", 0o644), file("d/e/none", "", 0))
			if name == "shown" {
				v.Hidden = nil
			}
			v.RootMode, v.Tree.DirMode = 0o777, 0o755|fs.ModeSetgid
			v.Tree.UID, v.Tree.GID = 12345, 12345 // Without Owns they mean nothing.
			expect.NoError(t, folder.Write("v", v))
			if err := os.Chmod(filepath.Join(dir, "v/d/e/none"), 0o400); err != nil { // Root does not need it.
				t.Fatal(err)
			}
			want := map[string]string{
				"": "drwx------", "v": "drwxr-xr-x", "v/a": "-rw-rw-rw- 1", "v/d": "dgrwxr-xr-x", "v/d/secret": secret + " hush",
				"v/d/e": "dgrwxr-xr-x", "v/d/e/none": "-r-------- ",
			}
			wantSame(t, "files", want, seen(t, dir))
		})
	}
}

// TestFolderKeepsWhatIsThere: nothing that anybody has is written over.
func TestFolderKeepsWhatIsThere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	expect.NoError(t, os.WriteFile(filepath.Join(dir, "mine"), []byte("mine"), 0o600))
	_, err := preview.NewFolder(dir)
	if want := "is not empty, it has mine"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("NewFolder = %v, want %q", err, want)
	}
	if _, err := preview.NewFolder(filepath.Join(dir, "mine")); err == nil {
		t.Error("a file is taken for a folder")
	}
	if _, err := preview.NewFolder(filepath.Join(dir, "none", "deeper")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("NewFolder below nothing = %v, want %v", err, fs.ErrNotExist)
	}
}

func TestFolderIsNotLeft(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	dir := filepath.Join(outside, "in")
	folder := newFolder(t, dir)
	expect.NoError(t, os.Symlink("..", filepath.Join(dir, "link")))
	v := volume(t, "v", file("a", "1", 0o644))
	expect.NoError(t, folder.Write("v", v))
	for _, path := range []string{"../v", "link/v", "deep/../../v", filepath.Join(outside, "v"), "v"} {
		if err := folder.Write(path, v); err == nil {
			t.Errorf("Write(%q) = nil, want an error", path)
		}
	}
	entries, err := os.ReadDir(outside)
	if got := fmt.Sprint(entries); err != nil || got != "[d in/]" {
		t.Errorf("outside of the folder are %s, %v, want the folder alone", got, err)
	}
}
