package driver

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
	"github.com/liveconfig-csi/liveconfig/test/kit/soak"
)

// TestFiftyRestarts (fault 19) stops and kills the driver in turn, with a change before each end, after it, or after the
// next start. The files are current soon afterwards; to a reader they are never missing, never empty and never older than
// before.
func TestFiftyRestarts(t *testing.T) {
	t.Parallel()
	b := fixture.NewBare(t)
	b.Use(environment.NodeAsShipped(t, "--http-endpoint="+b.HTTP)) // It starts a good deal faster.
	b.AllowSecrets("default")
	edit := func(n int) {
		b.UpdateConfigMap("web", map[string]string{"n": strconv.Itoa(n)})
		b.SetSecret("key", map[string]string{"n": strconv.Itoa(n)})
	}
	b.CreateConfigMap("web", nil)
	edit(0)
	pods := []*corev1.Pod{
		b.Pod("atomic", map[string]string{"configMap": "web"}),
		b.Pod("replace", map[string]string{"configMap": "web", "updatePolicy": "Replace"}),
		b.Pod("in-place", map[string]string{"configMap": "web", "updatePolicy": "InPlace"}),
		b.Pod("secret", map[string]string{"secret": "key"}),
	}
	var paths []string
	for _, pod := range pods {
		b.Publish(pod)
		paths = append(paths, b.Path(pod, "n"))
	}
	reading := startReading(t, paths...)
	restarts := soak.Rounds(50, 500)
	for i := range restarts {
		moments := []func(){
			func() {
				if i%2 == 0 {
					b.Kill()
				} else {
					b.Stop()
				}
			}, b.Start,
		}
		for at := range 3 {
			if at == i%3 {
				edit(i + 1)
			}
			if at < len(moments) {
				moments[at]()
			}
		}
		for _, pod := range pods {
			b.WantFile(pod, "n", strconv.Itoa(i+1))
		}
		b.WantMounts(len(pods), fmt.Sprintf("after restart %d", i+1))
	}
	t.Attr("restarts", strconv.Itoa(restarts))
	t.Attr("restarts/reads", strconv.Itoa(reading.end()))
}

// reading reads files that hold rising numbers, in the background.
type reading struct {
	t     testing.TB
	stop  chan struct{}
	done  sync.WaitGroup
	reads int // For nobody else until it has ended.
}

// startReading reads the files in turn, 2000 times a second, until the reading is ended. Every read must succeed, and give a
// number that is not below the last one. Every name that is listed beside the file can be opened.
func startReading(t testing.TB, paths ...string) *reading {
	t.Helper()
	r := &reading{t: t, stop: make(chan struct{})}
	r.done.Go(func() { r.read(paths) })
	return r
}

func (r *reading) read(paths []string) {
	const pause = 500 * time.Microsecond
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	last := map[string]int{}
	for ; ; r.reads++ {
		select {
		case <-r.stop:
			return
		case <-ticker.C:
		}
		path := paths[r.reads%len(paths)]
		got, err := os.ReadFile(path)
		if err != nil {
			r.t.Errorf("a reader: %v", err)
			return
		}
		n, err := strconv.Atoi(environment.Unmarked(string(got)))
		if err != nil || n < last[path] {
			r.t.Errorf("a reader of %s found %q (%v) after %d", path, got, err, last[path])
			return
		}
		last[path] = n
		wantNoDeadName(r.t, filepath.Dir(path), "a reader")
	}
}

// end ends the reading and returns how often something was read.
func (r *reading) end() int {
	r.t.Helper()
	close(r.stop)
	r.done.Wait()
	if r.reads == 0 {
		r.t.Error("nothing was read at all")
	}
	return r.reads
}
