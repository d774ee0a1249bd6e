// Package volume tests what a container sees of a volume: real tmpfs mounts, the real writers, and readers in processes
// of their own.
//
// It does not know the API server, CSI, or the driver's process.
package volume

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/pkg/files/mountns"
)

// taskVariable, when set, makes the test binary read a volume instead of running tests. It holds a readTask as JSON.
const taskVariable = "LIVECONFIG_VOLUME_TASK"

func TestMain(m *testing.M) {
	if text := os.Getenv(taskVariable); text != "" {
		os.Exit(runTask(text))
	}
	os.Exit(mountns.Main(m))
}

// runTask does the task and returns the code to exit with. What went wrong with the task itself goes to standard error.
func runTask(text string) int {
	var t readTask
	err := json.Unmarshal([]byte(text), &t)
	if err == nil {
		err = t.run(os.Stdin, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "task:", err)
		return 1
	}
	return 0
}

// process runs a task in a separate mount namespace. It ends when stop is called, and is killed if the test dies.
type process struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	stdout *bufio.Reader
	stderr strings.Builder
}

func start(t *testing.T, do readTask) *process {
	t.Helper()
	text, err := json.Marshal(do)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: exec.CommandContext(t.Context(), "/proc/self/exe")}
	p.cmd.Env = append(os.Environ(), taskVariable+"="+string(text), "GOMAXPROCS=1", "GOGC=400")
	// A process group is what can be given a priority with all its threads.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS, Pdeathsig: unix.SIGKILL, Setpgid: true}
	p.cmd.Stderr = &p.stderr
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.stdout = bufio.NewReader(stdout)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}

// awaitReady returns when the process has written its first line.
func (p *process) awaitReady(t *testing.T) {
	t.Helper()
	if line, err := p.stdout.ReadString('\n'); err != nil || line != readyLine {
		t.Fatalf("a process is not ready: line %q, %v\n%v\n%s", line, err, p.cmd.Wait(), p.stderr.String())
	}
}

// result stops the process, waits for its end and decodes what it has written.
func (p *process) result(t *testing.T, into any) {
	t.Helper()
	p.stdin.Close()
	decodeErr := json.NewDecoder(p.stdout).Decode(into)
	if err := p.cmd.Wait(); err != nil || decodeErr != nil {
		t.Fatalf("a process ended with %v, its result with %v\n%s", err, decodeErr, p.stderr.String())
	}
}
