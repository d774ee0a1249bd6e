package driver

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
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
	endReading := startReading(t, paths...)
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
	t.Attr("restarts/reads", strconv.Itoa(endReading()))
}

// startReading reads the files, which hold rising numbers, in turn, 2000 times a second, until the returned function is called,
// which returns how often something was read. Every read must succeed, and give a number that is not below the last one. Every
// name that is listed beside the file can be opened.
func startReading(t testing.TB, paths ...string) (end func() int) {
	t.Helper()
	stop, reads := make(chan struct{}), 0
	var done sync.WaitGroup
	done.Go(func() {
		ticker := time.NewTicker(500 * time.Microsecond)
		defer ticker.Stop()
		last := map[string]int{}
		for ; ; reads++ {
			select {
			case <-stop:
				return
			case <-ticker.C:
			}
			path := paths[reads%len(paths)]
			got, err := os.ReadFile(path)
			if err != nil {
				t.Errorf("a reader: %v", err)
				return
			}
			n, err := strconv.Atoi(environment.Unmarked(string(got)))
			if err != nil || n < last[path] {
				t.Errorf("a reader of %s found %q (%v) after %d", path, got, err, last[path])
				return
			}
			last[path] = n
			wantNoDeadName(t, filepath.Dir(path), "a reader")
		}
	})
	return func() int {
		t.Helper()
		close(stop)
		done.Wait()
		if reads == 0 {
			t.Error("nothing was read at all")
		}
		return reads
	}
}

// TestAContainerHoldsTheVolume (fault 23) has a process with a separate mount namespace, as every container has,
// and so with a mount of the volume that nobody else can take away. A driver that was restarted meanwhile still changes
// what the container sees, and takes the volume from the node at once; what the container holds goes with it.
func TestAContainerHoldsTheVolume(t *testing.T) {
	t.Parallel()
	b := fixture.New(t)
	pod := publish(b, "web", "1")
	container := exec.CommandContext(t.Context(), "sleep", "600")
	container.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	expect.NoError(t, container.Start())
	t.Cleanup(func() {
		_ = container.Process.Kill()
		_ = container.Wait()
	})
	inside := fmt.Sprintf("/proc/%d/root%s", container.Process.Pid, b.Node.Target(pod, fixture.VolumeName))
	held, err := os.OpenRoot(inside) // As a container does whose mount is its own.
	expect.NoError(t, err)
	defer held.Close()
	wantHeld := func(want string) {
		t.Helper()
		if got, err := held.ReadFile("n"); err != nil || environment.Unmarked(string(got)) != want {
			t.Errorf("the file of a volume that a container holds is %q, %v, want %q", got, err, want)
		}
	}
	b.Kill()
	b.Start()
	b.UpdateConfigMap("web", map[string]string{"n": "2"})
	b.WantFile(pod, "n", "2")
	wantHeld("2")
	begin := time.Now()
	b.Unpublish(pod)
	b.WantNothing(pod, "while a container holds it")
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("unpublish took %s while a container holds the volume", took)
	}
	wantHeld("2") // Its last files, until it ends.
}
