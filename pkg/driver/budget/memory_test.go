package budget

import (
	"errors"
	"os"
	"runtime/debug"
	"strings"
	"testing"
)

func TestVolumeMemory(t *testing.T) {
	t.Parallel()
	node := func() (int64, error) { return 8 << 30, nil }
	for name, tc := range map[string]struct{ given, limit, want int64 }{
		"what is given counts, whatever the limit":    {100 * mebibyte, 64 * mebibyte, 100 * mebibyte},
		"a small container":                           {0, 64 * mebibyte, 18 * mebibyte},
		"a container of the size in deploy/base":      {0, 512 * mebibyte, 354 * mebibyte},
		"without a limit, a quarter of what there is": {0, 0, 2 << 30},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := volumeMemory(tc.given, tc.limit, node)
			if got != tc.want || err != nil {
				t.Errorf("volumeMemory = %d, %v, want %d", got, err, tc.want)
			}
		})
	}
	cause := errors.New("no /proc")
	if _, err := volumeMemory(0, 0, func() (int64, error) { return 0, cause }); !errors.Is(err, cause) {
		t.Errorf("volumeMemory = %v, want it to wrap %v", err, cause)
	}
}

// TestWhatIsGivenAway is never more than there is, at any size that is accepted.
func TestWhatIsGivenAway(t *testing.T) {
	t.Parallel()
	for limit := int64(leastLimit); limit < 1<<40; limit += limit / 7 {
		volumes, err := volumeMemory(0, limit, nil)
		if err != nil || volumes < 8*mebibyte {
			t.Fatalf("volumeMemory(%d) = %d, %v, want enough for a volume", limit, volumes, err)
		}
		// Large objects in one volume each have twice as much in the heap as on the file system.
		for _, files := range []int64{0, volumes / 3, volumes} {
			heap := heapLimit(limit, files)
			if sum := heap + files + outsideHeap; sum > limit {
				t.Errorf("of %d, %d are given away with %d in files", limit, sum, files)
			}
			if objects := volumes - files; heap < objects && files >= volumes/3 {
				t.Errorf("of %d, the heap gets %d for objects of %d", limit, heap, objects)
			}
		}
	}
}

func TestLargeAnswers(t *testing.T) {
	t.Parallel()
	for limit, want := range map[int64]int{0: 16, 56 * mebibyte: 2, 64 * mebibyte: 2, 128 * mebibyte: 5, 512 * mebibyte: 16} {
		if got := (&Memory{limit: limit}).LargeAnswers(); got != want {
			t.Errorf("LargeAnswers at %d = %d, want %d", limit, got, want)
		}
	}
}

func TestParseSize(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"": 0, "128Mi": 128 * mebibyte, "1G": 1_000_000_000, "1048576": mebibyte} {
		if got, err := ParseSize(text); got != want || err != nil {
			t.Errorf("ParseSize(%q) = %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"x", "-1Mi", "10k", "0"} {
		if _, err := ParseSize(text); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("ParseSize(%q) = %v, want one error", text, err)
		}
	}
}

func TestHeapGrowth(t *testing.T) {
	for objects, want := range map[int64]int{
		0: 100, 100 << 10: 95, 1 * mebibyte: 85, 10 * mebibyte: 35, 100 * mebibyte: 5, 1 << 40: 5,
	} {
		if got := heapGrowthWith(objects); got != want {
			t.Errorf("with %d bytes of objects the heap grows by %d %%, want %d %%", objects, got, want)
		}
	}
}

// The heap of a driver with many objects grows less, and again more when they are gone.
func TestTheHeapFollowsTheObjects(t *testing.T) {
	before := debug.SetGCPercent(100)
	t.Cleanup(func() { debug.SetGCPercent(before) })
	t.Setenv("GOGC", "")
	if err := os.Unsetenv("GOGC"); err != nil {
		t.Fatal(err)
	}
	b := New(1 << 30)
	objects := b.Part(newHeapGrowth().follow).Account()
	for _, size := range []int64{10 * mebibyte, 0} {
		objects.Force(size)
		if got, want := debug.SetGCPercent(heapGrowthWith(size)), heapGrowthWith(size); got != want {
			t.Errorf("with %d bytes of objects the heap grows by %d %%, want %d %%", size, got, want)
		}
	}
}

func TestGOGCDecides(t *testing.T) {
	before := debug.SetGCPercent(100)
	t.Cleanup(func() { debug.SetGCPercent(before) })
	t.Setenv("GOGC", "100")
	New(1 << 30).Part(newHeapGrowth().follow).Account().Force(100 * mebibyte)
	if got := debug.SetGCPercent(100); got != 100 {
		t.Errorf("with GOGC=100 the heap grows by %d %%", got)
	}
}
