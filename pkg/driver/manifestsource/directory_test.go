package manifestsource_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/liveconfig-csi/liveconfig/pkg/driver/budget"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/manifestsource"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/source"
)

// TestTheDirectoryIsSwapped as the kubelet swaps one: by the link ..data.
func TestTheDirectoryIsSwapped(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	swap := func(generation string, files map[string]string) {
		t.Helper()
		if err := os.Mkdir(filepath.Join(dir, generation), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, generation), files)
		if err := os.Symlink(generation, filepath.Join(dir, "..data_tmp")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	swap("..1", map[string]string{"web.yaml": configMap("web", "1")})
	if err := os.Symlink("..data/web.yaml", filepath.Join(dir, "web.yaml")); err != nil {
		t.Fatal(err)
	}
	f := followDir(t, dir)
	f.use(web())
	f.await(web(), "the first", holds("1"))
	for i := 2; i < 10; i++ {
		swap(fmt.Sprintf("..%d", i), map[string]string{"web.yaml": configMap("web", fmt.Sprint(i))})
		f.await(web(), "the next", holds(fmt.Sprint(i)))
		if err := os.RemoveAll(filepath.Join(dir, fmt.Sprintf("..%d", i-1))); err != nil {
			t.Fatal(err)
		}
	}
}

// TestALinkToTheDirectory is followed when it is turned to another one.
func TestALinkToTheDirectory(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	for _, generation := range []string{"1", "2"} {
		if err := os.Mkdir(filepath.Join(top, generation), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(top, generation), map[string]string{"web.yaml": configMap("web", generation)})
	}
	link := filepath.Join(top, "..data")
	if err := os.Symlink("1", link); err != nil {
		t.Fatal(err)
	}
	f := followDir(t, link)
	f.use(web())
	f.await(web(), "the first", holds("1"))
	if err := os.Symlink("2", link+"_tmp"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(link+"_tmp", link); err != nil {
		t.Fatal(err)
	}
	f.await(web(), "the second", holds("2"))
}

// TestLinksOfFiles are followed wherever they lead.
func TestLinksOfFiles(t *testing.T) {
	t.Parallel()
	dir, elsewhere := t.TempDir(), t.TempDir()
	for _, release := range []string{"1", "2"} {
		if err := os.Mkdir(filepath.Join(elsewhere, release), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(elsewhere, release), map[string]string{"web.yaml": configMap("web", release)})
	}
	link(t, "1", filepath.Join(elsewhere, "current"))
	link(t, filepath.Join(elsewhere, "current", "web.yaml"), filepath.Join(dir, "web.yaml"))
	link(t, "x", filepath.Join(dir, "x"))            // It leads to itself.
	link(t, "web.yaml/x", filepath.Join(dir, "odd")) // It leads through a file.
	f := followDir(t, dir)
	f.use(web())
	f.await(web(), "the first", holds("1"))
	link(t, "2", filepath.Join(elsewhere, "current"))
	f.await(web(), "the second", holds("2"))
	write(t, filepath.Join(elsewhere, "2"), map[string]string{"web.yaml": ""})
	f.await(web(), "the file is gone", func(s source.Snapshot) bool { return s.Synced && !s.Found })
	write(t, filepath.Join(elsewhere, "2"), map[string]string{"web.yaml": configMap("web", "3")})
	f.await(web(), "the file is back", holds("3"))
}

// link makes a link, in the place of another one if there is one.
func link(t *testing.T, to, path string) {
	t.Helper()
	if err := os.Symlink(to, path+".new"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// TestADirectoryThatGoesTakesNothingAlong and that comes back is followed again.
func TestADirectoryThatGoesTakesNothingAlong(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "manifests")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, dir, map[string]string{"web.yaml": configMap("web", "1")})
	f := followDir(t, dir)
	f.use(web())
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	s := f.await(web(), "the directory is gone", func(s source.Snapshot) bool { return s.Err != nil })
	if !s.Found || string(s.Content.Data["key"]) != "1" {
		t.Errorf("without its directory the object is %+v, want what it was", s)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, dir, map[string]string{"web.yaml": configMap("web", "2")})
	f.await(web(), "the directory is back", holds("2"))
}

func TestADirectoryThatIsNotThere(t *testing.T) {
	t.Parallel()
	b := budget.New(1 << 20)
	_, err := manifestsource.New(manifestsource.Config{
		Dir: filepath.Join(t.TempDir(), "not"), Changed: func(source.Key) {}, Room: b.Part(func(int64) {}),
	})
	if err == nil || !strings.Contains(err.Error(), "no such file or directory") {
		t.Errorf("New = %v, want that there is no such directory", err)
	}
}
