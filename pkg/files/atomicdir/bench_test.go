package atomicdir_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
)

// BenchmarkWrite measures updates of one file of 1 KiB, alone and among 100.
func BenchmarkWrite(b *testing.B) {
	for kind, w := range writers() {
		for _, count := range []int{1, 100} {
			b.Run(fmt.Sprintf("%s/%d files", kind, count), func(b *testing.B) {
				_, root := newVolume(b)
				f := files{}
				for i := range count {
					f[fmt.Sprintf("file%d", i)] = strings.Repeat("x", 1024)
				}
				f["file0"] = strings.Repeat("y", 1024)
				one := f.tree(b)
				f["file0"] = strings.Repeat("z", 1024)
				trees := []tree.Tree{one, f.tree(b)}
				b.SetBytes(1024)
				for i := 0; b.Loop(); i++ {
					mustWrite(b, w, root, trees[i%2])
				}
			})
		}
	}
}

// BenchmarkWriteOthers measures updates in which each file goes and another one comes. What it takes for each file must not
// depend on how many there are, and what it allocates for each must not depend on how many directories are above it.
func BenchmarkWriteOthers(b *testing.B) {
	for kind, w := range writers() {
		for name, count := range map[string]int{
			"100 files": 100, "1,000 files": 1_000, "16,000 files": 16_000, "16,000 files in 63 directories": 16_000,
		} {
			b.Run(fmt.Sprintf("%s/%s", kind, name), func(b *testing.B) {
				_, root := newVolume(b)
				var trees []tree.Tree
				dir := ""
				if strings.HasSuffix(name, "directories") {
					dir = strings.Repeat("a/", 63)
				}
				for _, name := range []string{"even", "odd"} {
					f := files{}
					for i := range count {
						f[fmt.Sprint(dir, name, i)] = name
					}
					trees = append(trees, f.tree(b))
				}
				mustWrite(b, w, root, trees[1])
				b.ReportAllocs()
				i := 0
				for ; b.Loop(); i++ {
					mustWrite(b, w, root, trees[i%2])
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(i*count), "ns/file")
			})
		}
	}
}

// BenchmarkWriteUnchanged measures what it costs to find out that nothing is to be done.
func BenchmarkWriteUnchanged(b *testing.B) {
	for kind, w := range writers() {
		b.Run(kind, func(b *testing.B) {
			_, root := newVolume(b)
			want := files{"file0": strings.Repeat("x", 1024)}.tree(b)
			mustWrite(b, w, root, want)
			for b.Loop() {
				mustWrite(b, w, root, want)
			}
		})
	}
}
