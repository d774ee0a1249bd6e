package e2e_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/realnode"
)

const (
	// envExample is the folder of examples whose pods are looked at by their processes.
	envExample = "env"
	// envEdits are measured.
	envEdits = 10
	// tick is how exactly the kernel knows when a process was started.
	tick = time.Second / 100
)

// TestEnvExample types what the README of the examples has about variables, and looks into the environments of the
// processes: each change makes a new process of the program, and nothing of the pod or the container is made again.
func TestEnvExample(t *testing.T) {
	s := on(t, realnode.Containerd2())
	s.importExampleImages(t)
	e := s.example(t, envExample, s.namespace(t))
	e.wantAllFilesTyped(t)

	e.step(t)
	app := e.supervisedPod(t, "app")
	app.wantEnvironment(t, map[string]string{"GREETING": "hello", "LOG_LEVEL": "info", "TOKEN": "change-me"})
	e.step(t)
	app.wantEnvironment(t, map[string]string{"GREETING": "good evening", "LOG_LEVEL": "info", "TOKEN": "change-me"})
	e.step(t)
	withNext := map[string]string{"GREETING": "good evening", "LOG_LEVEL": "info", "TOKEN": "change-me", "NEXT_TOKEN": "another"}
	app.wantEnvironment(t, withNext)
	e.step(t)
	withNext["GREETING"] = "hello"
	app.wantEnvironment(t, withNext)
	app.wantStarts(t, e.shown)

	e.step(t)
	copied := e.supervisedPod(t, "app-by-init-container")
	copied.wantEnvironment(t, withNext)
	e.wantAllTyped(t)
	measureEdits(t, e, app, copied)
}

// measureEdits edits a ConfigMap again and again, and reports how long it took at most until a program was started with that.
func measureEdits(t *testing.T, e *example, pods ...*supervised) {
	t.Helper()
	took := map[string][]time.Duration{}
	for n := range envEdits {
		edit := sinceBoot(t)
		e.putConfigMap(t, e.namespace, "app-env", map[string]string{"GREETING": strconv.Itoa(n)})
		for _, p := range pods {
			p.wantEnvironment(t, map[string]string{"GREETING": strconv.Itoa(n), "TOKEN": "change-me", "NEXT_TOKEN": "another"})
			took[p.pod.Name] = append(took[p.pod.Name], p.program.started+tick-edit)
		}
	}
	for _, p := range pods {
		report(t, "env/edit-to-process/"+p.pod.Name, took[p.pod.Name])
	}
}

// supervised is a pod whose program is started by liveconfig-exec.
type supervised struct {
	*example

	pod *corev1.Pod
	// supervisor is liveconfig-exec, and program the one that it has started, when that was last looked at.
	supervisor, program process
}

// process is one of the node. Its number may come again, but not at the same time.
type process struct {
	pid     int
	started time.Duration // Since the machine was booted, in whole ticks.
}

// supervisedPod waits until a pod is ready, and finds liveconfig-exec in it.
func (e *example) supervisedPod(t *testing.T, app string) *supervised {
	t.Helper()
	p := &supervised{example: e, pod: e.pod(t, app)}
	if got, want := e.exec(t, p.pod, "cat", "/proc/1/comm"), "liveconfig-exec\n"; got != want {
		t.Fatalf("process 1 of %s is %q, want %q", app, got, want)
	}
	_, container, _ := strings.Cut(p.pod.Status.ContainerStatuses[0].ContainerID, "://")
	pids, err := e.Processes("liveconfig-exec")
	expect.NoError(t, err)
	for _, pid := range pids {
		groups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
		if err == nil && strings.Contains(string(groups), container) {
			p.supervisor, err = lookAt(pid)
		}
		expect.NoError(t, err)
	}
	if p.supervisor.pid == 0 {
		t.Fatalf("none of the processes %v is of container %s", pids, container)
	}
	return p
}

// wantEnvironment waits until the program has these variables, of those that the example knows. It must be another process
// than the last time, in the same container.
func (p *supervised) wantEnvironment(t *testing.T, want map[string]string) {
	t.Helper()
	last := p.program
	expect.Eventually(t, changeTimeout, func() error {
		program, got, err := p.look()
		if err != nil {
			return err
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("variables of the program in %s (-want +got):\n%s", p.pod.Name, diff)
		}
		p.program = program
		return nil
	})
	if p.program == last {
		t.Errorf("the program in %s is still process %v, want another one", p.pod.Name, last)
	}
	p.wantSameContainer(t)
}

// look finds the program, and the variables that it has of those that the example knows.
func (p *supervised) look() (process, map[string]string, error) {
	pids, err := children(p.supervisor.pid)
	if err == nil && len(pids) != 1 {
		err = fmt.Errorf("liveconfig-exec in %s has the children %v, want one", p.pod.Name, pids)
	}
	if err != nil {
		return process{}, nil, err
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pids[0]))
	if err != nil {
		return process{}, nil, err
	}
	known := map[string]string{}
	for variable := range strings.SplitSeq(string(text), "\x00") {
		name, value, _ := strings.Cut(variable, "=")
		if slices.Contains([]string{"GREETING", "LOG_LEVEL", "TOKEN", "NEXT_TOKEN", "secret", "token", "next-token", "..data"}, name) {
			known[name] = value
		}
	}
	program, err := lookAt(pids[0])
	return program, known, err
}

// wantSameContainer checks that nothing was restarted but the program.
func (p *supervised) wantSameContainer(t *testing.T) {
	t.Helper()
	if got, err := lookAt(p.supervisor.pid); err != nil || got != p.supervisor {
		t.Errorf("liveconfig-exec in %s is process %v, %v, want %v as before", p.pod.Name, got, err, p.supervisor)
	}
	now, err := p.Client().CoreV1().Pods(p.namespace).Get(t.Context(), p.pod.Name, metav1.GetOptions{})
	expect.NoError(t, err)
	type identity struct {
		pod, container string
		restarts       int32
	}
	of := func(pod *corev1.Pod) identity {
		status := pod.Status.ContainerStatuses[0]
		return identity{string(pod.UID), status.ContainerID, status.RestartCount}
	}
	want := of(p.pod)
	want.restarts = 0
	if got := of(now); got != want {
		t.Errorf("%s is %v, want %v as before", p.pod.Name, got, want)
	}
}

// wantStarts waits until the program has printed what the README shows, and checks that no value of a Secret is in the log.
// What the program and liveconfig-exec print comes by two ways, so only the lines of each are in order.
func (p *supervised) wantStarts(t *testing.T, lines []string) {
	t.Helper()
	var want []string
	for _, line := range lines {
		if strings.HasPrefix(line, "started with") {
			want = append(want, line)
			continue
		}
		p.wantLog(t, p.pod, line+"\n")
	}
	if len(want) < 4 {
		t.Fatalf("the README shows %d starts of the program, want one for each step: %q", len(want), lines)
	}
	expect.Eventually(t, changeTimeout, func() error {
		logs, err := p.Client().CoreV1().Pods(p.namespace).GetLogs(p.pod.Name, &corev1.PodLogOptions{}).DoRaw(t.Context())
		if err != nil {
			return err
		}
		all := strings.Split(string(logs), "\n")
		got := slices.DeleteFunc(all, func(line string) bool { return !strings.HasPrefix(line, "started with") })
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("what %s says (-README +log):\n%s", p.pod.Name, diff)
		}
		if strings.Contains(string(logs), "change-me") || strings.Contains(string(logs), "another") {
			t.Errorf("the log of %s has a value of the Secret:\n%s", p.pod.Name, logs)
		}
		return nil
	})
}

// children returns the processes that a process has started by any of its threads.
func children(pid int) ([]int, error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("there is no process %d", pid)
	}
	var found []int
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, os.ErrNotExist) { // A thread may have ended.
			return nil, err
		}
		for field := range strings.FieldsSeq(string(text)) {
			child, err := strconv.Atoi(field)
			if err != nil {
				return nil, err
			}
			found = append(found, child)
		}
	}
	return found, nil
}

// lookAt finds out when a process was started.
func lookAt(pid int) (process, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return process{}, err
	}
	// The name of the program, which may be anything, ends with the last parenthesis. The time is field 22, 20 after the name.
	fields := strings.Fields(string(text)[strings.LastIndex(string(text), ")")+1:])
	ticks, err := strconv.ParseInt(fields[19], 10, 64)
	return process{pid, time.Duration(ticks) * tick}, err
}

// sinceBoot is the time by which the kernel reports when processes were started.
func sinceBoot(t *testing.T) time.Duration {
	t.Helper()
	var now unix.Timespec
	expect.NoError(t, unix.ClockGettime(unix.CLOCK_BOOTTIME, &now))
	return time.Duration(now.Nano())
}
