package volume_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/pkg/driver/volume"
)

// keepFileTime sets the bubble's clock to that of the file system.
func (n *node) keepFileTime() {
	n.Helper()
	name := filepath.Join(n.dir, "clock")
	n.must(os.WriteFile(name, nil, 0o600))
	n.passChange(name)
}

// passChange has the bubble's clock be a little after the last change of a file, whose time is the real one: a machine may
// be slow, but is never slower than the bubble.
func (n *node) passChange(path string) {
	n.Helper()
	var stat unix.Stat_t
	n.must(unix.Lstat(path, &stat))
	<-time.After(time.Until(time.Unix(stat.Ctim.Unix())) + latency)
}

// TestLargeFilesAreNotReplacedTooOften: the first change is in the files at once. Changes that come while the replaced
// files, which readers may be on the way into, take all the room there is for them are in the files a moment later, all of
// them at a time, and nobody is told of any trouble.
func TestLargeFilesAreNotReplacedTooOften(t *testing.T) {
	bubble(t, func(n *node) {
		n.keepFileTime()
		large := func(c string) string { return strings.Repeat(c, 900<<10) }
		_, r := n.published()
		n.cluster.set(web, "a", large("2"))
		pass(latency)
		n.wantFiles(r, map[string]string{"a": large("2")})
		n.passChange(filepath.Join(r.TargetPath, "..data"))
		second := time.Now()
		for _, c := range "345" {
			n.cluster.set(web, "a", large(string(c)))
			pass(latency)
			n.wantShown(r, map[string]string{"a": large("2")}, "")
		}
		pass(settling)
		n.wantFiles(r, map[string]string{"a": large("5")})
		last := n.seen.outcomes()[1]
		if want := (outcome{result: volume.ResultWritten, since: second}); last != want {
			t.Errorf("the second sync = %v, want %v: the delay is part of what is measured", last, want)
		}
		told := `Projected: volume "config": a change of the sources is in the files`
		n.wantTold(told, told)
	})
}
