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
	"github.com/liveconfig-csi/liveconfig/pkg/expect"
)

// TestTheDirectoryIsSwapped as the kubelet swaps one: by the link ..data.
func TestTheDirectoryIsSwapped(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	swap := func(i int) {
		t.Helper()
		generation := fmt.Sprintf("..%d", i)
		write(t, filepath.Join(dir, generation), map[string]string{"web.yaml": configMap("web", fmt.Sprint(i))})
		link(t, generation, filepath.Join(dir, "..data"))
	}
	swap(1)
	link(t, "..data/web.yaml", filepath.Join(dir, "web.yaml"))
	f := followDir(t, dir)
	f.use(web())
	f.await(web(), "the first", holds("1"))
	for i := 2; i < 10; i++ {
		swap(i)
		f.await(web(), "the next", holds(fmt.Sprint(i)))
		expect.NoError(t, os.RemoveAll(filepath.Join(dir, fmt.Sprintf("..%d", i-1))))
	}
}

// twoReleases returns a directory with two directories of manifests, 1 and 2.
func twoReleases(t *testing.T) string {
	t.Helper()
	top := t.TempDir()
	for _, release := range []string{"1", "2"} {
		write(t, filepath.Join(top, release), map[string]string{"web.yaml": configMap("web", release)})
	}
	return top
}

// TestALinkToTheDirectory is followed when it is turned to another one.
func TestALinkToTheDirectory(t *testing.T) {
	t.Parallel()
	current := filepath.Join(twoReleases(t), "..data")
	link(t, "1", current)
	f := followDir(t, current)
	f.use(web())
	f.await(web(), "the first", holds("1"))
	link(t, "2", current)
	f.await(web(), "the second", holds("2"))
}

// TestLinksOfFiles are followed below the directory, also when they are turned to another file.
func TestLinksOfFiles(t *testing.T) {
	t.Parallel()
	dir := twoReleases(t)
	link(t, "1", filepath.Join(dir, "current"))
	link(t, "current/web.yaml", filepath.Join(dir, "web.yaml"))
	link(t, "x", filepath.Join(dir, "x"))            // It leads to itself.
	link(t, "web.yaml/x", filepath.Join(dir, "odd")) // It leads through a file.
	f := followDir(t, dir)
	f.use(web())
	f.await(web(), "the first", holds("1"))
	link(t, "2", filepath.Join(dir, "current"))
	f.await(web(), "the second", holds("2"))
	write(t, filepath.Join(dir, "2"), map[string]string{"web.yaml": ""})
	f.await(web(), "the file is gone", isGone)
	write(t, filepath.Join(dir, "2"), map[string]string{"web.yaml": configMap("web", "3")})
	f.await(web(), "the file is back", holds("3"))
}

// TestLinksThatLeadOut are not followed: the problem names the link, the content before stays, and a good link ends the problem.
func TestLinksThatLeadOut(t *testing.T) {
	t.Parallel()
	for name, to := range map[string]func(outside string) (target, path string){
		"a file, by an absolute link": func(outside string) (string, string) { return outside + "/1/web.yaml", "web.yaml" },
		"a file, by two dots": func(outside string) (string, string) {
			return "../" + filepath.Base(outside) + "/1/web.yaml", "web.yaml"
		},
		"a file of the node": func(string) (string, string) { return "/etc/passwd", "web.yaml" },
		"a generation":       func(outside string) (string, string) { return outside + "/1", "..data" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			top := t.TempDir()
			outside, dir := filepath.Join(top, "outside"), filepath.Join(top, "dir")
			write(t, filepath.Join(outside, "1"), map[string]string{"web.yaml": configMap("web", "outside")})
			write(t, filepath.Join(dir, "..good"), map[string]string{"web.yaml": configMap("web", "1")})
			target, path := to(outside)
			good := map[string]string{"web.yaml": "..good/web.yaml", "..data": "..good"}[path]
			if path == "..data" {
				link(t, "..data/web.yaml", filepath.Join(dir, "web.yaml"))
			}
			link(t, good, filepath.Join(dir, path))
			f := followDir(t, dir)
			f.use(web())
			f.await(web(), "a link that stays inside", holds("1"))
			link(t, target, filepath.Join(dir, path))
			s := f.await(web(), "a link that leads out", fails)
			if !s.Found || string(s.Content.Data["key"]) != "1" {
				t.Errorf("with a link that leads out the object is %+v, want what it was", s)
			}
			for _, want := range []string{path, fmt.Sprintf("it is a link to %q, which leads out of the directory", target)} {
				if !strings.Contains(s.Err.Error(), want) {
					t.Errorf("problem: %v, want %s", s.Err, want)
				}
			}
			link(t, good, filepath.Join(dir, path))
			f.await(web(), "a link that stays inside again", holds("1"))
		})
	}
}

// link makes a link, in the place of another one if there is one.
func link(t *testing.T, to, path string) {
	t.Helper()
	expect.NoError(t, os.Symlink(to, path+".new"))
	expect.NoError(t, os.Rename(path+".new", path))
}

// TestADirectoryThatGoesTakesNothingAlong and that comes back is followed again.
func TestADirectoryThatGoesTakesNothingAlong(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "manifests")
	write(t, dir, map[string]string{"web.yaml": configMap("web", "1")})
	f := followDir(t, dir)
	f.use(web())
	expect.NoError(t, os.Rename(dir, dir+".gone")) // In one step: a file that goes before its directory takes its objects along.
	s := f.await(web(), "the directory is gone", fails)
	if !s.Found || string(s.Content.Data["key"]) != "1" {
		t.Errorf("without its directory the object is %+v, want what it was", s)
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
