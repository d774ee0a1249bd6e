package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/pkg/expect"
	"github.com/liveconfig-csi/liveconfig/pkg/files/atomicdir"
	"github.com/liveconfig-csi/liveconfig/pkg/files/atomicdir/volumes"
	"github.com/liveconfig-csi/liveconfig/pkg/files/mountns/userlimits"
)

type files = map[string]string

// TestRestart changes a volume of each layout, by each kind of source, wherever liveconfig-exec runs.
func TestRestart(t *testing.T) {
	t.Parallel()
	for place, arrange := range places() {
		for layout, writer := range volumes.Layouts() {
			t.Run(place+" "+layout, func(t *testing.T) {
				t.Parallel()
				v := volumes.New(t, writer)
				expect.NoError(t, v.Write(files{"A": "1", "sub/k": "1", "env": "E='1'\n"}))
				p := start(t, arrange, []string{
					"--from", v.Path + ",prefix=P_", "--key=K=" + v.Path + "/sub/k", "--key", "O=" + v.Path + "/sub/o,optional",
					"--env-file", v.Path + "/env", "--on-change=restart",
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
					expect.NoError(t, v.Write(step.files))
					p.Prints(t, "terminated")
					for line := range strings.SplitSeq("ready "+step.want+"\nserving", "\n") {
						p.Prints(t, line)
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
	v := volumes.New(t, atomicdir.Atomic{})
	set := func(n int) {
		expect.NoError(t, v.Write(files{"A": fmt.Sprint(n), "B": fmt.Sprint(n), "sub/c": fmt.Sprint(n)}))
	}
	set(0)
	p := start(t, asFirst, []string{"--from", v.Path, "--key", "C=" + v.Path + "/sub/c", "--on-change=restart"}, "pair")
	p.Prints(t, "true 0")
	const last = 400
	stormed := make(chan struct{})
	go func() {
		defer close(stormed)
		for n := range last {
			set(n + 1)
		}
	}()
	for {
		line := p.Line(t)
		if strings.HasPrefix(line, "false") {
			t.Errorf("a mixed environment: %s", line)
		}
		if line == fmt.Sprint("true ", last) {
			break
		}
	}
	<-stormed
	p.Prints(t, "serving")
	p.terminates(t)
}

// TestNoRestartWithoutADifference: what does not change the environment does not touch the command.
func TestNoRestartWithoutADifference(t *testing.T) {
	t.Parallel()
	p, dir := startIn(t, asAnother, []string{"--on-change=restart"}, "show", "A")
	p.isServing(t, "A=1")
	write(t, dir, "A", "1")
	write(t, dir, "not=a-name", "1")
	p.Stderr.WaitFor(t, `skipped "not=a-name"`) // Both were seen.
	p.Sends(t, unix.SIGHUP)
	p.Prints(t, "hangup")
	write(t, dir, "A", "2")
	p.restarts(t, "A=2")
	if got := strings.Count(p.Stderr.String(), "skipped"); got != 1 {
		t.Errorf("what is skipped was said %d times, want once:\n%s", got, p.Stderr)
	}
}

// TestAKeyThatNoVariableCanHold is skipped at the start and after a change, and reported once per change of its
// value. Changes of the other keys still reach the program. This is fault 44.
func TestAKeyThatNoVariableCanHold(t *testing.T) {
	t.Parallel()
	for place, arrange := range places() {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			v := volumes.New(t, atomicdir.Atomic{})
			const nul = "skipped \"B\": a variable cannot hold a NUL byte"
			expect.NoError(t, v.Write(files{"A": "1", "B": "secret\x00"}))
			p := start(t, arrange, []string{"--from", v.Path, "--on-change=restart"}, "show", "A", "B")
			step := func(files files, want string) {
				t.Helper()
				expect.NoError(t, v.Write(files))
				p.restarts(t, want)
			}
			p.isServing(t, "A=1 B=(unset)")
			p.Stderr.WaitForTimes(t, nul, 1)
			step(files{"A": "2", "B": "secret\x00"}, "A=2 B=(unset)") // B has not changed, and is not reported again.
			step(files{"A": "3", "B": "another secret\x00"}, "A=3 B=(unset)")
			p.Stderr.WaitForTimes(t, nul, 2)
			step(files{"A": "3", "B": "fine"}, "A=3 B=fine")
			step(files{"A": "3", "B": strings.Repeat("secret", 30_000)}, "A=3 B=(unset)")
			p.Stderr.WaitFor(t, "skipped \"B\": B takes 180003 bytes, and the kernel allows 131072 for one variable")
			step(files{"A": "3", "B": "fine"}, "A=3 B=fine")
			step(files{"A": "3", "B": "secret\x00"}, "A=3 B=(unset)")
			p.Stderr.WaitForTimes(t, nul, 3)
			p.terminates(t)
			if text := p.Stderr.String(); strings.Count(text, "skipped") != 4 || strings.Contains(text, "secret") {
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
	p.Stderr.WaitFor(t, "liveconfig-exec: the environment stays as it is: --key A="+dir+"/a: there is no such file")
	p.Sends(t, unix.SIGHUP)
	p.Prints(t, "hangup")
	write(t, dir, "a", "x\x00")
	p.Stderr.WaitFor(t, "NUL byte")
	write(t, dir, "a", strings.Repeat("secret", 30_000))
	p.Stderr.WaitFor(t, "A takes 180003 bytes, and the kernel allows 131072 for one variable")
	p.Sends(t, unix.SIGUSR2)
	p.Prints(t, "user defined signal 2")
	write(t, dir, "a", "2")
	p.restarts(t, "A=2")
	if strings.Contains(p.Stderr.String(), "secret") {
		t.Errorf("a value was printed:\n%s", p.Stderr)
	}
}

func TestGrace(t *testing.T) {
	t.Parallel()
	for place, arrange := range places() {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			p, dir := startIn(t, arrange, []string{"--on-change=restart", "--grace=300ms"}, "deaf", "A")
			p.Prints(t, "ready A=1")
			write(t, dir, "A", "2")
			p.Prints(t, "ready A=2")
			p.Stderr.WaitFor(t, "has not ended within 300ms: it is killed")
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
	p.Prints(t, "user defined signal 1")
	write(t, dir, "no=name", "1")
	p.Prints(t, "user defined signal 1")
	remove(t, dir, "A")
	p.Prints(t, "user defined signal 1")
	p.terminates(t)
}

// TestExit ends with code 0, whatever the command ends with.
func TestExit(t *testing.T) {
	t.Parallel()
	for role, output := range map[string]string{"show": "terminated\n", "deaf": ""} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			p, dir := startIn(t, asFirst, []string{"--on-change=exit", "--grace", "200ms"}, role, "A")
			p.Prints(t, "ready A=1")
			if role == "show" {
				p.Prints(t, "serving")
			}
			write(t, dir, "A", "2")
			p.Ends(t, output, 0)
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
			p.Prints(t, "ready A=1")
			write(t, dir, "A", "2")
			p.Stderr.WaitFor(t, "is restarted")
			p.Sends(t, sig)
			rest := map[syscall.Signal]int{unix.SIGTERM: 137, unix.SIGINT: 12, unix.SIGQUIT: 13}
			p.Ends(t, "", rest[sig])
		})
	}
}

// TestNoRestartAfterTerm: a change does not bring back a command that was asked to end.
func TestNoRestartAfterTerm(t *testing.T) {
	t.Parallel()
	p, dir := startIn(t, asFirst, []string{"--on-change=restart"}, "deaf", "A")
	p.Prints(t, "ready A=1")
	p.Sends(t, unix.SIGTERM)
	write(t, dir, "A", "2")
	write(t, dir, "no=name", "")
	p.Stderr.WaitFor(t, "skipped")
	if strings.Contains(p.Stderr.String(), "is restarted") {
		t.Errorf("it is restarted:\n%s", p.Stderr)
	}
	p.Sends(t, unix.SIGINT)
	p.Ends(t, "", 12)
}

// TestInotifyIsUsedUp: a neighbour must not keep the program from starting, nor from following changes. This is fault 43.
func TestInotifyIsUsedUp(t *testing.T) {
	t.Parallel()
	if !userlimits.Enter(t) {
		return
	}
	for limit, name := range map[userlimits.Limit]string{
		userlimits.InotifyInstances: "fs.inotify.max_user_instances", userlimits.InotifyWatches: "fs.inotify.max_user_watches",
	} {
		userlimits.Set(t, limit, 0)
		p, dir := startIn(t, asAnother, []string{"--on-change=restart"}, "show", "A")
		p.isServing(t, "A=1")
		p.Stderr.WaitFor(t, name)
		for _, value := range []string{"2", "3"} {
			write(t, dir, "A", value)
			p.restarts(t, "A="+value)
		}
		if got := strings.Count(p.Stderr.String(), name); got != 1 {
			t.Errorf("the limit is named %d times, want once; standard error:\n%s", got, p.Stderr)
		}
		p.terminates(t)
		userlimits.Set(t, limit, 1000)
	}
}
