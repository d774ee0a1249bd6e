package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/pkg/files/atomicdir"
	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
)

// volume is one that the driver writes.
type volume struct {
	path   string
	root   *os.File
	writer atomicdir.Writer
}

func newVolume(t *testing.T, writer atomicdir.Writer) volume {
	t.Helper()
	path := t.TempDir()
	root, err := os.Open(path)
	must(t, err)
	t.Cleanup(func() { _ = root.Close() })
	return volume{path, root, writer}
}

func (v volume) write(t *testing.T, files map[string]string) {
	t.Helper()
	var list []tree.File
	for path, data := range files {
		list = append(list, tree.File{Path: path, Data: []byte(data), Mode: 0o644})
	}
	made, err := tree.New(list)
	must(t, err)
	made.DirMode, made.UID, made.GID = 0o755, os.Getuid(), os.Getgid()
	if _, err := v.writer.Write(v.root, made); err != nil {
		t.Fatal(err)
	}
}

type files = map[string]string

func layouts() map[string]atomicdir.Writer {
	return map[string]atomicdir.Writer{
		"Atomic": atomicdir.Atomic{}, "Replace": atomicdir.Replace{}, "InPlace": atomicdir.InPlace{},
	}
}

// TestRestart changes a volume of each layout, by each kind of source, wherever liveconfig-exec runs.
func TestRestart(t *testing.T) {
	t.Parallel()
	for place, arrange := range places() {
		for layout, writer := range layouts() {
			t.Run(place+" "+layout, func(t *testing.T) {
				t.Parallel()
				v := newVolume(t, writer)
				v.write(t, files{"A": "1", "sub/k": "1", "env": "E='1'\n"})
				p := start(t, arrange, []string{
					"--from", v.path + ",prefix=P_", "--key=K=" + v.path + "/sub/k", "--key", "O=" + v.path + "/sub/o,optional",
					"--env-file", v.path + "/env", "--on-change=restart",
				}, "show", "P_A", "K", "O", "E")
				p.isServing(t, "P_A=1 K=1 O=(unset) E=1")
				for _, step := range []struct { // One file each: but for Atomic, two are not changed at once.
					files files
					want  string
				}{
					{files{"A": "2", "sub/k": "1", "env": "E='1'\n"}, "P_A=2 K=1 O=(unset) E=1"},
					{files{"A": "2", "sub/k": "2", "env": "E='1'\n"}, "P_A=2 K=2 O=(unset) E=1"},
					{files{"A": "2", "sub/k": "2", "sub/o": "3", "env": "E='1'\n"}, "P_A=2 K=2 O=3 E=1"},
					{files{"A": "2", "sub/k": "2", "env": "E='1'\n"}, "P_A=2 K=2 O=(unset) E=1"},
					{files{"A": "2", "sub/k": "2", "env": "E='x\ny'\n"}, "P_A=2 K=2 O=(unset) E=x\ny"},
					{files{"sub/k": "2", "env": "E='x\ny'\n"}, "P_A=(unset) K=2 O=(unset) E=x\ny"},
					{files{"sub/k": "2", "env": "E=\n"}, "P_A=(unset) K=2 O=(unset) E="},
				} {
					v.write(t, step.files)
					p.says(t, "terminated")
					for line := range strings.SplitSeq("ready "+step.want+"\nserving", "\n") {
						p.says(t, line)
					}
				}
				p.terminates(t)
			})
		}
	}
}

// TestAPairIsNeverMixed has the command start again and again while a volume is switched: what it is started with is of one
// moment each time, and in the end of the last.
func TestAPairIsNeverMixed(t *testing.T) {
	t.Parallel()
	v := newVolume(t, atomicdir.Atomic{})
	set := func(n int) { v.write(t, files{"A": fmt.Sprint(n), "B": fmt.Sprint(n), "sub/c": fmt.Sprint(n)}) }
	set(0)
	p := start(t, asFirst, []string{"--from", v.path, "--key", "C=" + v.path + "/sub/c", "--on-change=restart"}, "pair")
	p.says(t, "true 0")
	const last = 400
	stormed := make(chan struct{})
	go func() {
		defer close(stormed)
		for n := range last {
			set(n + 1)
		}
	}()
	for {
		line := p.line(t)
		if strings.HasPrefix(line, "false") {
			t.Errorf("a mixed environment: %s", line)
		}
		if line == fmt.Sprint("true ", last) {
			break
		}
	}
	<-stormed
	p.says(t, "serving")
	p.terminates(t)
}

// TestNoRestartWithoutADifference: what does not change the environment does not touch the command.
func TestNoRestartWithoutADifference(t *testing.T) {
	t.Parallel()
	p, dir := startIn(t, asAnother, []string{"--on-change=restart"}, "show", "A")
	p.isServing(t, "A=1")
	write(t, dir, "A", "1")
	write(t, dir, "not=a-name", "1")
	p.stderr.waitFor(t, `skipped "not=a-name"`) // Both were seen.
	p.sends(t, unix.SIGHUP)
	p.says(t, "hangup")
	write(t, dir, "A", "2")
	p.restarts(t, "A=2")
	if got := strings.Count(p.stderr.String(), "skipped"); got != 1 {
		t.Errorf("what is skipped was said %d times, want once:\n%s", got, p.stderr)
	}
}

// TestAKeyThatNoVariableCanHold is skipped at the start and after a change, and reported once per change of its
// value. Changes of the other keys still reach the program. This is fault 44.
func TestAKeyThatNoVariableCanHold(t *testing.T) {
	t.Parallel()
	for place, arrange := range places() {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			v := newVolume(t, atomicdir.Atomic{})
			const nul = "skipped \"B\": a variable cannot hold a NUL byte"
			v.write(t, files{"A": "1", "B": "secret\x00"})
			p := start(t, arrange, []string{"--from", v.path, "--on-change=restart"}, "show", "A", "B")
			step := func(files files, want string) {
				t.Helper()
				v.write(t, files)
				p.restarts(t, want)
			}
			p.isServing(t, "A=1 B=(unset)")
			p.stderr.waitForTimes(t, nul, 1)
			step(files{"A": "2", "B": "secret\x00"}, "A=2 B=(unset)") // B has not changed, and is not reported again.
			step(files{"A": "3", "B": "another secret\x00"}, "A=3 B=(unset)")
			p.stderr.waitForTimes(t, nul, 2)
			step(files{"A": "3", "B": "fine"}, "A=3 B=fine")
			step(files{"A": "3", "B": strings.Repeat("secret", 30_000)}, "A=3 B=(unset)")
			p.stderr.waitFor(t, "skipped \"B\": B takes 180003 bytes, and the kernel allows 131072 for one variable")
			step(files{"A": "3", "B": "fine"}, "A=3 B=fine")
			step(files{"A": "3", "B": "secret\x00"}, "A=3 B=(unset)")
			p.stderr.waitForTimes(t, nul, 3)
			p.terminates(t)
			if text := p.stderr.String(); strings.Count(text, "skipped") != 4 || strings.Contains(text, "secret") {
				t.Errorf("standard error shall report 4 skipped keys and no value:\n%s", text)
			}
		})
	}
}

// TestAKeyThatGoes leaves the command as it is until there is an environment again.
func TestAKeyThatGoes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "a", "1")
	p := start(t, asAnother, []string{"--key", "A=" + filepath.Join(dir, "a"), "--on-change=restart"}, "show", "A")
	p.isServing(t, "A=1")
	remove(t, dir, "a")
	p.stderr.waitFor(t, "liveconfig-exec: the environment stays as it is: --key A="+dir+"/a: there is no such file")
	p.sends(t, unix.SIGHUP)
	p.says(t, "hangup")
	write(t, dir, "a", "x\x00")
	p.stderr.waitFor(t, "NUL byte")
	write(t, dir, "a", strings.Repeat("secret", 30_000))
	p.stderr.waitFor(t, "A takes 180003 bytes, and the kernel allows 131072 for one variable")
	p.sends(t, unix.SIGUSR2)
	p.says(t, "user defined signal 2")
	write(t, dir, "a", "2")
	p.restarts(t, "A=2")
	if strings.Contains(p.stderr.String(), "secret") {
		t.Errorf("a value was printed:\n%s", p.stderr)
	}
}

func TestGrace(t *testing.T) {
	t.Parallel()
	for place, arrange := range places() {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			p, dir := startIn(t, arrange, []string{"--on-change=restart", "--grace=300ms"}, "deaf", "A")
			p.says(t, "ready A=1")
			write(t, dir, "A", "2")
			p.says(t, "ready A=2")
			p.stderr.waitFor(t, "has not ended within 300ms: it is killed")
		})
	}
}

// TestSignal: the command gets a signal if a file differs.
func TestSignal(t *testing.T) {
	t.Parallel()
	p, dir := startIn(t, asAnother, []string{"--on-change=signal:USR1"}, "show", "A")
	p.isServing(t, "A=1")
	write(t, dir, "A", "1")
	write(t, dir, "A", "2")
	p.says(t, "user defined signal 1")
	write(t, dir, "no=name", "1")
	p.says(t, "user defined signal 1")
	remove(t, dir, "A")
	p.says(t, "user defined signal 1")
	p.terminates(t)
}

// TestExit ends with code 0, whatever the command ends with.
func TestExit(t *testing.T) {
	t.Parallel()
	for role, output := range map[string]string{"show": "terminated\n", "deaf": ""} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			p, dir := startIn(t, asFirst, []string{"--on-change=exit", "--grace", "200ms"}, role, "A")
			p.says(t, "ready A=1")
			if role == "show" {
				p.says(t, "serving")
			}
			write(t, dir, "A", "2")
			p.ends(t, output, 0)
		})
	}
}

// TestTermEndsARestart: who ends the container while the command is restarted must not see it started.
func TestTermEndsARestart(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGQUIT} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			p, dir := startIn(t, asFirst, []string{"--on-change=restart", "--grace=4s"}, "deaf", "A")
			p.says(t, "ready A=1")
			write(t, dir, "A", "2")
			p.stderr.waitFor(t, "is restarted")
			p.sends(t, sig)
			rest := map[syscall.Signal]int{unix.SIGTERM: 137, unix.SIGINT: 12, unix.SIGQUIT: 13}
			p.ends(t, "", rest[sig])
		})
	}
}

// TestNoRestartAfterTerm: a change does not bring back a command that was asked to end.
func TestNoRestartAfterTerm(t *testing.T) {
	t.Parallel()
	p, dir := startIn(t, asFirst, []string{"--on-change=restart"}, "deaf", "A")
	p.says(t, "ready A=1")
	p.sends(t, unix.SIGTERM)
	write(t, dir, "A", "2")
	write(t, dir, "no=name", "")
	p.stderr.waitFor(t, "skipped")
	if strings.Contains(p.stderr.String(), "is restarted") {
		t.Errorf("it is restarted:\n%s", p.stderr)
	}
	p.sends(t, unix.SIGINT)
	p.ends(t, "", 12)
}
