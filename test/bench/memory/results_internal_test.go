package memory

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/liveconfig-csi/liveconfig/test/bench/report"
	"github.com/liveconfig-csi/liveconfig/test/kit/proc"
)

// sample is a bench with figures that are easy to reckon with: so many MiB of a run and kind, and so many KiB of each.
func sample() *bench {
	b := &bench{cfg: Config{Counts: []int{10, 110, 1000}, Runs: 3, Unrelated: 2000}}
	add := func(to *[]*subject, k kind, count int, bytes ...int64) {
		s := &subject{kind: k, count: count}
		for _, n := range bytes {
			s.found = append(s.found, figures{
				Memory: proc.Memory{Anonymous: n, Resident: n + 20<<20}, heap: float64(n) / 2, stacks: float64(n) / 4, goroutines: float64(count),
			})
		}
		*to = append(*to, s)
	}
	for run := range int64(3) {
		for _, n := range b.cfg.Counts {
			count := int64(n)
			add(&b.subjects, objects, n, (8+run)<<20+count*(10+run)<<10)
			add(&b.subjects, reflectors, n, 4<<20+count*40<<10)
			if run == 0 {
				add(&b.subjects, volumes, n, 8<<20+count*4<<10)
				add(&b.subjects, informer, n, 4<<20)
			}
		}
		add(&b.small, objects, smallVolumes, 12<<20, 12<<20+run*1<<18) // They grow by 0, 256 and 512 KiB.
	}
	add(&b.small, informer, smallVolumes, 5<<20, 13<<20)
	return b
}

func TestTargets(t *testing.T) {
	t.Parallel()
	got := map[string]float64{}
	for _, target := range sample().targets() {
		got[target.Key] = target.Value
	}
	want := map[string]float64{
		"memory-object":         11.0 / 40, // The run in the middle takes 11 KiB an object, and reflectors 40.
		"memory-anonymous":      12,
		"memory-rss":            32,
		"memory-unrelated":      0.25,
		"growth-memory-objects": 1,
		"growth-memory-volumes": 1,
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateApprox(0, 1e-9)); diff != "" {
		t.Errorf("targets (-want +got):\n%s", diff)
	}
}

// TestGrowth looks that a cost is seen that grows with the square, whatever the program takes by itself.
func TestGrowth(t *testing.T) {
	t.Parallel()
	b := sample()
	for _, s := range b.subjects {
		if s.kind == objects {
			n := int64(s.count)
			s.found[0].Anonymous = 100<<20 + n*n<<4
		}
	}
	if got := report.Exponent(b.increments(objects)); math.Abs(got-2) > 0.1 {
		t.Errorf("exponent = %v, want about 2", got)
	}
}

func TestSlopes(t *testing.T) {
	t.Parallel()
	want := [][]string{
		{"liveconfig, objects with a volume each", "11 KiB", "11 KiB", "11 KiB", "11 KiB", "8.25 KiB", "1"},
		{"liveconfig, volumes of one object", "4 KiB", "4 KiB", "4 KiB", "4 KiB", "3 KiB", "1"},
		{"a reflector for each object", "40 KiB", "40 KiB", "40 KiB", "40 KiB", "30 KiB", "1"},
		{"an informer for the namespace", "0 B", "0 B", "0 B", "0 B", "0 B", "1"},
		{"liveconfig, an object without its volume: the difference", "7 KiB", "7 KiB", "7 KiB", "7 KiB", "5.25 KiB", "0"},
	}
	table := sample().slopes()
	if diff := cmp.Diff(want, table.Rows); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	if got, want := len(table.Header), len(want[0]); got != want {
		t.Errorf("the header has %d columns, want %d: %q", got, want, table.Header)
	}
}

func TestUnrelated(t *testing.T) {
	t.Parallel()
	want := [][]string{
		{"liveconfig, objects with a volume each", "3", "32 MiB", "12 MiB", "256 KiB", "192 KiB"},
		{"an informer for the namespace", "1", "25 MiB", "5 MiB", "8 MiB", "6 MiB"},
	}
	if diff := cmp.Diff(want, sample().unrelated().Rows); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}
