package volume

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/files/atomicdir"
	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
	"github.com/liveconfig-csi/liveconfig/test/kit/soak"
)

const (
	// readerProcesses is how many containers look at a volume.
	readerProcesses = 16
	// updatesPerView spares most updates the wait for busy processors that opening a view is.
	updatesPerView = 25
	// nobody is the user of readers where there is more than one user.
	nobody = 65534
)

// grace is the driver's.
func grace() atomicdir.Grace { return atomicdir.Grace{Time: 250 * time.Millisecond, Bytes: 1 << 20} }

// TestReaders updates a volume while processes read it as containers do.
//
// The tests run one after the other: they would take each other's time. This is fault 5.
func TestReaders(t *testing.T) {
	tests := map[string]struct {
		writer   atomicdir.Writer
		mounts   int
		versions int
	}{
		"ours":           {atomicdir.Atomic{Grace: grace()}, 1, soak.Rounds(250, 10000)},
		"ours-shared":    {atomicdir.Atomic{Grace: grace()}, 4, soak.Rounds(250, 10000)},
		"replace":        {atomicdir.Replace{}, 1, soak.Rounds(600, 5000)},
		"replace-shared": {atomicdir.Replace{}, 4, soak.Rounds(600, 5000)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, isReplace := test.writer.(atomicdir.Replace)
			do := readTask{Linked: !isReplace, Grace: time.Hour} // However long it takes.
			if ours, ok := test.writer.(atomicdir.Atomic); ok {
				do.Grace = ours.Grace.Time
			}
			total := watch(t, test.writer, do, test.versions, test.mounts)
			report(t, name, test.versions, total)
			mustHaveNoFaults(t, total)
			if total.Versions < 2*readerProcesses {
				t.Errorf("all readers together have seen only %d versions: they did not look while it changed", total.Versions)
			}
		})
	}
}

// TestReadersSeeFaults: a writer without links is none whose files are of one version.
func TestReadersSeeFaults(t *testing.T) {
	total := watch(t, atomicdir.Replace{}, readTask{Linked: true, Grace: time.Hour}, 100, 1)
	if total.Mixed == 0 || total.faults() == 0 {
		t.Errorf("readers have seen %+v, want files of several versions", total)
	}
}

// writeVersions writes the versions from first to last through one view.
func (v *live) writeVersions(t *testing.T, o owners, first, last int) {
	t.Helper()
	view, err := v.fs.Open(v.target)
	if err != nil {
		t.Fatal(err)
	}
	defer view.Close()
	for n := first; n <= last; n++ {
		if err := v.writeInTime(view.Dir, mustMake(t, o, n)); err != nil {
			t.Fatal(err)
		}
	}
}

// writeInTime waits, as the driver does, when it is too early for new files.
func (v *live) writeInTime(root *os.File, made tree.Tree) error {
	for {
		_, err := v.writer.Write(root, made)
		early, ok := errors.AsType[*atomicdir.EarlyError](err)
		if !ok {
			return err
		}
		<-time.After(time.Until(early.Until))
	}
}

func mustHaveNoFaults(t testing.TB, c counts) {
	t.Helper()
	if c.faults() > 0 {
		t.Errorf("readers have seen %d faults, want none; the first:\n%s", c.faults(), strings.Join(c.Examples, "\n"))
	}
}

// watch writes so many versions while readers are at work, and returns what they have counted together. The files are
// mounted so many times, and each mount has its readers.
func watch(t *testing.T, w atomicdir.Writer, do readTask, versions, mounts int) counts {
	t.Helper()
	do.Owners = whoReads(t)
	v := publish(t, w, roomy(), mustMake(t, do.Owners, 1))
	targets := []string{v.target}
	for len(targets) < mounts {
		targets = append(targets, v.share(t))
	}
	do.View = t.TempDir()
	readers := make([]*process, readerProcesses)
	for i := range readers {
		do.Target = targets[i%mounts]
		readers[i] = start(t, do)
	}
	for _, r := range readers {
		r.awaitReady(t)
	}
	for n := 2; n <= versions; n += updatesPerView {
		v.writeVersions(t, do.Owners, n, min(n+updatesPerView-1, versions))
	}
	var total counts
	for _, r := range readers {
		var c counts
		r.result(t, &c)
		if c.Last != versions {
			t.Errorf("a reader has last seen version %d, want %d", c.Last, versions)
		}
		total.add(c)
	}
	return total
}

// report prints the counts for people and, as attributes, for programs.
func report(t *testing.T, name string, versions int, c counts) {
	t.Helper()
	t.Logf("%s: %d versions, %d readers: %+v", name, versions, readerProcesses, c)
	for key, count := range map[string]int{
		"versions": versions, "readers": readerProcesses, "opens": c.Opens, "reads": c.Reads, "sets": c.Sets,
		"mixed-sets": c.Mixed, "failed-opens": c.FailedOpens, "wrong-modes-or-owners": c.Wrong, "torn-reads": c.Torn,
		"symlinks": c.Symlinks, "late-opens": c.Late,
	} {
		t.Attr("readers/"+name+"/"+key, strconv.Itoa(count))
	}
}

func mustMake(t *testing.T, o owners, n int) tree.Tree {
	t.Helper()
	made, err := o.version(n)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// whoReads returns an ordinary user. In a user namespace that has only user 0, it is that one, without capabilities.
func whoReads(t *testing.T) owners {
	t.Helper()
	for _, file := range []string{"/proc/self/uid_map", "/proc/self/gid_map"} {
		ids, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		fields := strings.Fields(string(ids))
		if count, err := strconv.Atoi(fields[len(fields)-1]); err != nil || count <= nobody {
			t.Logf("%s has %s: readers run as user 0 without capabilities", file, strings.Join(fields, " "))
			return owners{Reader: 0}
		}
	}
	return owners{Reader: nobody, Alternates: true}
}
