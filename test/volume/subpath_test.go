package volume

import (
	"bytes"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/liveconfig-csi/liveconfig/pkg/files/atomicdir"
	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
	"github.com/liveconfig-csi/liveconfig/test/kit/soak"
)

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
