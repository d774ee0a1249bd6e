package cluster_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
	"github.com/liveconfig-csi/liveconfig/test/kit/orphan"
)

// orphanVariable turns this test binary into a program that starts a cluster and waits to be killed.
const orphanVariable = "LIVECONFIG_TEST_CLUSTER_ORPHAN"

func TestMain(m *testing.M) {
	if os.Getenv(orphanVariable) != "" {
		os.Exit(orphan.Be(context.Background(), func(ctx context.Context) error {
			_, err := cluster.Start(ctx, cluster.Config{})
			return err
		}))
	}
	os.Exit(cluster.ForMain(m))
}

// privateTemp gives the test a temporary directory that everything it starts uses, and nothing else does. Unix sockets
// want a short path.
func privateTemp(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "lc") //nolint:usetesting // t.TempDir is too long for a socket's path.
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func TestStopLeavesNothingBehindButTheLogs(t *testing.T) {
	temp, logs := privateTemp(t), t.TempDir()
	t.Setenv("TMPDIR", temp)
	c, err := cluster.Start(t.Context(), cluster.Config{LogDir: logs})
	if err != nil {
		t.Fatal(err)
	}
	children := watchProcesses(t, temp, 2)
	if err := c.Stop(); err != nil {
		t.Error(err)
	}
	children.wantGone(t, 0)
	if entries, err := os.ReadDir(temp); err != nil || len(entries) != 0 {
		t.Errorf("left in the temporary directory: %v, %v", entries, err)
	}
	for _, name := range []string{"etcd.log", "kube-apiserver.log", "audit.log"} {
		if _, err := os.Stat(filepath.Join(logs, name)); err != nil {
			t.Errorf("log was not kept: %v", err)
		}
	}
	if err := c.Stop(); err != nil {
		t.Errorf("second Stop: %v", err)
	}
}

func TestKilledParentTakesTheClusterWithIt(t *testing.T) {
	t.Parallel()
	temp := privateTemp(t)
	kill := orphan.Start(t, orphanVariable+"=1", "TMPDIR="+temp)
	children := watchProcesses(t, temp, 2)
	kill()
	children.wantGone(t, 10*time.Second)
}

func TestStartNamesWhatIsMissing(t *testing.T) {
	t.Parallel()
	_, err := cluster.Start(t.Context(), cluster.Config{BinDir: t.TempDir()})
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "make bin/k8s") {
		t.Errorf("error without programs = %v, want what to run", err)
	}
}

func TestFailedStartSaysWhyAndLeavesNothing(t *testing.T) {
	temp := privateTemp(t)
	t.Setenv("TMPDIR", temp)
	_, err := cluster.Start(t.Context(), cluster.Config{APIServerArgs: []string{"--no-such-flag"}})
	if err == nil || !strings.Contains(err.Error(), "unknown flag: --no-such-flag") {
		t.Errorf("error = %v, want the API server's own words", err)
	}
	watchProcesses(t, temp, 0)
	if entries, err := os.ReadDir(temp); err != nil || len(entries) != 0 {
		t.Errorf("left in the temporary directory: %v, %v", entries, err)
	}
}

// processes are pidfds: unlike process IDs, they never come to mean another process.
type processes []int

// watchProcesses finds the processes whose working directory is below dir, and fails unless there are as many as wanted.
func watchProcesses(t *testing.T, dir string, want int) processes {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		t.Fatal(err)
	}
	var found processes
	for _, link := range links {
		cwd, err := os.Readlink(link)
		if err != nil || !strings.HasPrefix(cwd, dir+"/") {
			continue // Other users' processes cannot be read, and are not ours.
		}
		pid, err := strconv.Atoi(strings.Split(link, "/")[2])
		if err != nil {
			t.Fatal(err)
		}
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Close(fd) })
		found = append(found, fd)
	}
	if len(found) != want {
		t.Fatalf("%d processes run below %s, want %d", len(found), dir, want)
	}
	return found
}

// wantGone fails unless every process ends within the time given.
func (p processes) wantGone(t *testing.T, within time.Duration) {
	t.Helper()
	for _, fd := range p {
		// A pidfd becomes readable when its process ends.
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(within.Milliseconds()))
		if err != nil || n != 1 {
			t.Errorf("process of pidfd %d still runs after %s (%v)", fd, within, err)
		}
	}
}
