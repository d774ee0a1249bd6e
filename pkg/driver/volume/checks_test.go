package volume_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/identity"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/source"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/state"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/volume"
)

func (n *node) must(err error) {
	n.Helper()
	if err != nil {
		n.Fatal(err)
	}
}

func wantSame[T any](n *node, what string, want, got T, options ...cmp.Option) {
	n.Helper()
	options = append(options, cmp.Exporter(func(reflect.Type) bool { return true }))
	if diff := cmp.Diff(want, got, options...); diff != "" {
		n.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// wantRefused checks that a publish fails with an error of the kind and, if there is one, the text.
func (d *driver) wantRefused(r state.Record, kind volume.Kind, text ...string) {
	d.n.Helper()
	got := d.n.wantKind(d.Publish(d.n.ctx, r, access.Token{}), kind)
	if len(text) > 0 {
		wantSame(d.n, "the error of Publish", text[0], got)
	}
}

func (d *driver) wantStuck(want string) {
	d.n.Helper()
	if err := d.Healthy(); err == nil || !strings.HasPrefix(err.Error(), want) {
		d.n.Errorf("Healthy() = %v, want %s", err, want)
	}
}

func (n *node) wantNoUsers() {
	n.Helper()
	wantSame(n, "users of sources", map[api.Ref]int{}, n.cluster.users())
}

// wantReportedOnce checks that there is one Event, by its beginning.
func (n *node) wantReportedOnce(prefix string) {
	n.Helper()
	if told := n.seen.told(); len(told) != 1 || !strings.HasPrefix(told[0], prefix) {
		n.Errorf("Events = %q, want one that begins with %q", told, prefix)
	}
}

// wantFiles checks what a container sees; nil means no mount at all.
func (n *node) wantFiles(r state.Record, want map[string]string) {
	n.Helper()
	wantSame(n, "files of "+r.VolumeID, want, n.files(r.TargetPath))
}

// wantUpdate gives the key «a» of the ConfigMap web a value, and checks that the files follow.
func (n *node) wantUpdate(r state.Record, value string) {
	n.Helper()
	n.set(web, "a", value)
	n.wantFiles(r, map[string]string{"a": value})
}

func (n *node) wantMode(r state.Record, path string, want fs.FileMode) {
	n.Helper()
	info, err := os.Stat(filepath.Join(r.TargetPath, path))
	n.must(err)
	if info.Mode() != want {
		n.Errorf("mode of %q = %v, want %v", path, info.Mode(), want)
	}
}

// files returns the contents of all visible files by path, following the links; nil when there is no directory.
func (n *node) files(dir string) map[string]string {
	n.Helper()
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	n.must(err)
	files := map[string]string{}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "..") {
			continue
		}
		top, err := filepath.EvalSymlinks(filepath.Join(dir, e.Name()))
		n.must(err) // A name that is listed can be opened.
		n.must(filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			data, err := os.ReadFile(path)
			files[e.Name()+strings.TrimPrefix(path, top)] = string(data)
			return err
		}))
	}
	return files
}

// wantNothing checks that no trace of any volume is left: in memory, among the sources, on disk.
func (n *node) wantNothing(d *driver) {
	n.Helper()
	wantSame(n, "Volumes()", 0, d.Volumes())
	wantSame(n, "the manager holds users of sources", 0, d.UsedSources())
	n.wantNoUsers()
	n.wantRecords()
	for _, pattern := range []string{"mounts/*", "pods/*/volumes/*/*/*"} {
		left, err := filepath.Glob(filepath.Join(n.dir, pattern))
		n.must(err)
		if len(left) != 0 {
			n.Errorf("left on disk: %v, want nothing", left)
		}
	}
}

func (n *node) wantRecords(want ...state.Record) {
	n.Helper()
	got, err := n.records.all()
	if err != nil {
		n.Errorf("Each() = %v, want nil", err)
	}
	byID := cmpopts.SortSlices(func(a, b state.Record) bool { return a.VolumeID < b.VolumeID })
	wantSame(n, "records", want, got, byID, cmpopts.EquateEmpty())
}

// wantKind checks that err is an Error of the kind, and returns its text.
func (n *node) wantKind(err error, want volume.Kind) string {
	n.Helper()
	var e *volume.Error
	if !errors.As(err, &e) {
		n.Fatalf("got error %v, want one of kind %s", err, want)
	}
	if e.Kind != want {
		n.Errorf("got kind %s (%v), want %s", e.Kind, err, want)
	}
	return e.Error()
}

// wantProblem checks the reported problem of a live volume; empty for nothing.
func (n *node) wantProblem(r state.Record, want string) {
	n.Helper()
	problem, err := n.driver.Condition(r.VolumeID, r.TargetPath)
	if err != nil {
		n.Fatalf("Condition(%s) = %v, want no error", r.VolumeID, err)
	}
	got := ""
	if problem != nil {
		got = problem.Error()
	}
	if got != want {
		n.Errorf("Condition(%s) = %q, want %q", r.VolumeID, got, want)
	}
}

func (n *node) wantProblemIs(r state.Record, want error) {
	n.Helper()
	if problem, err := n.driver.Condition(r.VolumeID, ""); !errors.Is(problem, want) || err != nil {
		n.Errorf("Condition() = %v, %v, want %v, nil", problem, err, want)
	}
}

// wantShown checks the files of a live volume and what is wrong with it; empty for nothing.
func (n *node) wantShown(r state.Record, files map[string]string, problem string) {
	n.Helper()
	n.wantFiles(r, files)
	n.wantProblem(r, problem)
}

// wantEach checks that volumes have the same files, which are current.
func (n *node) wantEach(files map[string]string, volumes ...state.Record) {
	n.Helper()
	for _, r := range volumes {
		n.wantShown(r, files, "")
	}
}

func (n *node) wantReported(want ...string) {
	n.Helper()
	wantSame(n, "Events", want, n.seen.told())
}

func keyOf(ref api.Ref) source.Key { return source.Key{Identity: identity.Driver(), Ref: ref} }
