package driver

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
)

// holdsOnly returns an error unless the volume holds the content and no other name. What starts with two dots must be
// one generation and the link to it, if there is such a link.
func holdsOnly(volume string, content map[string]string) error {
	entries, err := os.ReadDir(volume)
	if err != nil {
		return err
	}
	var names, reserved []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "..") {
			reserved = append(reserved, e.Name())
		} else {
			names = append(names, e.Name())
		}
	}
	if err := holds(volume, names, content); err != nil {
		return err
	}
	if len(reserved) == 0 {
		return nil
	}
	live, err := os.Readlink(filepath.Join(volume, "..data"))
	if err != nil {
		return err
	}
	files, err := os.ReadDir(filepath.Join(volume, live))
	if err != nil || len(files) != len(names) {
		return fmt.Errorf("..data leads to %d names, %w, want %d", len(files), err, len(names))
	}
	if slices.Sort(reserved); !slices.Equal(reserved, slices.Sorted(slices.Values([]string{live, "..data"}))) {
		return fmt.Errorf("%s holds %q, want ..data and %s", volume, reserved, live)
	}
	return nil
}

// holds returns an error unless the names in dir are those of the content, with its bytes.
func holds(dir string, names []string, content map[string]string) error {
	if len(names) != len(content) {
		return fmt.Errorf("%s holds %q, want %d names", dir, names, len(content))
	}
	for _, name := range names {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		text := environment.Unmarked(string(got))
		if want, ok := content[name]; !ok || text != want {
			return fmt.Errorf("%s holds %d bytes (%.30q), want %d (%.30q)", name, len(text), text, len(want), want)
		}
	}
	return nil
}

// wantWhole wants the live generation of an Atomic volume to be a version from first to last, complete, and every name
// that is listed to lead somewhere.
func wantWhole(t testing.TB, volume string, first, last int, when string) {
	t.Helper()
	live, err := os.Readlink(filepath.Join(volume, "..data"))
	if err != nil {
		t.Errorf("%s: %v", when, err)
		return
	}
	generation := filepath.Join(volume, live)
	entries, err := os.ReadDir(generation)
	if err != nil {
		t.Errorf("%s: %v", when, err)
		return
	}
	err = errors.New("no version")
	for version := last; version >= first && err != nil; version-- {
		err = holds(generation, namesOf(entries), contentOf(version))
	}
	if err != nil {
		t.Errorf("%s: the live files are not of any version from %d to %d: %v", when, first, last, err)
	}
	wantNoDeadName(t, volume, when)
}

func wantNoDeadName(t testing.TB, volume, when string) {
	t.Helper()
	entries, err := os.ReadDir(volume)
	if err != nil {
		t.Errorf("%s: %v", when, err)
	}
	for _, name := range namesOf(entries) {
		isOurs := strings.HasPrefix(name, "..") && name != "..data"
		if _, err := os.Stat(filepath.Join(volume, name)); err != nil && !isOurs {
			t.Errorf("%s: a name that is listed cannot be opened: %v", when, err)
		}
	}
}

func namesOf(entries []fs.DirEntry) []string {
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// wantEachFileWhole wants each file of a volume without links to be one version's, old or new.
func wantEachFileWhole(t testing.TB, volume string, first, last int, when string) {
	t.Helper()
	entries, err := os.ReadDir(volume)
	if err != nil {
		t.Errorf("%s: %v", when, err)
	}
	for _, name := range namesOf(entries) {
		if strings.HasPrefix(name, "..") {
			continue
		}
		got, err := os.ReadFile(filepath.Join(volume, name))
		if err != nil {
			t.Errorf("%s: %v", when, err)
		}
		if text := environment.Unmarked(string(got)); text != contentOf(first)[name] && text != contentOf(last)[name] {
			t.Errorf("%s: %s (%.30q) is neither of version %d nor of %d", when, name, text, first, last)
		}
	}
}

// wantNoFileEmpty is what InPlace promises of a file that is being rewritten.
func wantNoFileEmpty(t testing.TB, volume string, _, _ int, when string) {
	t.Helper()
	entries, err := os.ReadDir(volume)
	if err != nil {
		t.Errorf("%s: %v", when, err)
	}
	for _, name := range namesOf(entries) {
		if strings.HasPrefix(name, "..") {
			continue
		}
		if info, err := os.Stat(filepath.Join(volume, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %s is empty or gone: %v", when, name, err)
		}
	}
}
