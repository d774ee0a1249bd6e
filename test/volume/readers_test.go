package volume

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/files/atomicdir"
	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
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
	expect.NoError(t, err)
	defer view.Close()
	for n := first; n <= last; n++ {
		expect.NoError(t, v.writeInTime(view.Dir, mustMake(t, o, n)))
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
	expect.NoError(t, err)
	return made
}

// whoReads returns an ordinary user. In a user namespace that has only user 0, it is that one, without capabilities.
func whoReads(t *testing.T) owners {
	t.Helper()
	for _, file := range []string{"/proc/self/uid_map", "/proc/self/gid_map"} {
		ids, err := os.ReadFile(file)
		expect.NoError(t, err)
		fields := strings.Fields(string(ids))
		if count, err := strconv.Atoi(fields[len(fields)-1]); err != nil || count <= nobody {
			t.Logf("%s has %s: readers run as user 0 without capabilities", file, strings.Join(fields, " "))
			return owners{Reader: 0}
		}
	}
	return owners{Reader: nobody, Alternates: true}
}

// TestSubPathReaders reads one file of an InPlace volume through its own mount while its length goes up and down. A read
// may find the bytes of two updates, but never fewer than the shortest text there was meanwhile, and no other bytes but
// zeros where the file is being cut off.
func TestSubPathReaders(t *testing.T) {
	t.Parallel()
	updates := soak.Rounds(400, 4000)
	v := publish(t, atomicdir.InPlace{}, roomy(), text(0))
	r := &fileReader{file: v.bind(t, "f")}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer r.stop.Store(true)
	for range 4 {
		wg.Go(func() { r.readOn(t) })
	}
	for n := 1; n <= updates; n++ {
		r.begun.Store(int64(n))
		v.mustWrite(t, text(n))
		r.done.Store(int64(n))
	}
	r.stop.Store(true)
	wg.Wait()
	t.Logf("%d updates, %d reads, %d of them during an update", updates, r.reads.Load(), r.beside.Load())
	if r.beside.Load() == 0 {
		t.Error("no read was during an update: nothing was tested")
	}
}

// text is what the file holds after update n: a length between one byte and 1 MiB, and one letter.
func text(n int) tree.Tree {
	size := 1 << (n * 7 % 21)
	if n%3 == 0 {
		size += n % 4096 // Not only whole pages.
	}
	data := bytes.Repeat([]byte{letter(n)}, min(size, 1<<20))
	return tree.Tree{Files: []tree.File{{Path: "f", Data: data, Mode: 0o644}}, DirMode: 0o755}
}

func letter(n int) byte { return byte('a' + n%26) }

// fileReader reads one file over and over. begun and done are the updates that the writer has started and finished.
type fileReader struct {
	file          string
	begun, done   atomic.Int64
	stop          atomic.Bool
	reads, beside atomic.Int64
}

func (r *fileReader) readOn(t *testing.T) {
	t.Helper()
	for !r.stop.Load() {
		first := int(r.done.Load())
		data, err := os.ReadFile(r.file)
		last := int(r.begun.Load())
		if err == nil {
			err = checkText(data, first, last)
		}
		if err != nil {
			t.Errorf("read between update %d and %d: %v", first, last, err)
			return
		}
		r.reads.Add(1)
		if last > first {
			r.beside.Add(1)
		}
	}
}

// checkText compares what was read with the texts of the updates first to last. Behind the shortest of them there may be
// zeros: the kernel clears what it cuts off while a read that began before is still copying it.
func checkText(data []byte, first, last int) error {
	shortest, letters := 1<<20, ""
	for n := first; n <= last; n++ {
		shortest = min(shortest, len(text(n).Files[0].Data))
		letters += string(rune(letter(n)))
	}
	if len(data) < shortest {
		return fmt.Errorf("%d bytes, want %d or more", len(data), shortest)
	}
	if rest := bytes.TrimLeft(data[:shortest], letters); len(rest) > 0 {
		return fmt.Errorf("byte %q at %d, want only %q", rest[0], shortest-len(rest), letters)
	}
	if rest := bytes.TrimLeft(data[shortest:], letters+"\x00"); len(rest) > 0 {
		return fmt.Errorf("byte %q at %d, want only %q or zeros", rest[0], len(data)-len(rest), letters)
	}
	return nil
}
