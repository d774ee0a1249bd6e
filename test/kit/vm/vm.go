// Package vm boots other kernels under QEMU's emulation, with an initramfs of static programs, and runs commands in them. It
// needs neither KVM nor root.
//
// It does not know what the commands test.
package vm

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/cavaliergopher/cpio"
)

// Step is a command that the guest runs.
type Step struct {
	Name string
	// Args are the program and its arguments, Dir is where it runs, and Env is added to its environment.
	Args []string
	Dir  string
	Env  []string
	// Timeout ends the command; zero stands for ten minutes.
	Timeout time.Duration
}

// Result is how a step ended.
type Result struct {
	Name string
	// Err is empty if the command ended with status 0.
	Err  string
	Took time.Duration
}

// The marks by which the guest's lines are found. The kernel writes to the same console.
const (
	Begin = "@@begin "
	End   = "@@end "
)

// Plan is the file from which the guest reads its steps.
const Plan = "/plan.json"

// run boots the kernel, runs the steps in their order, and returns how each ended. The guest stops after the last one, and
// when ctx ends. What it writes goes to output.
func (m *Machine) run(ctx context.Context, output io.Writer) ([]Result, error) {
	image, err := m.writeImage()
	if err != nil {
		return nil, fmt.Errorf("write the initramfs: %w", err)
	}
	command := append(m.command(), "-initrd", image)
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.WaitDelay = 10 * time.Second
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%w: install %s", err, packages[m.Arch])
	}
	results, err := follow(stdout, output)
	if waited := cmd.Wait(); waited != nil {
		err = errors.Join(err, fmt.Errorf("%s: %w: %s", cmd.Path, waited, stderr.String()))
	}
	if len(results) < len(m.Steps) {
		err = errors.Join(err, errors.New("the guest ended before its last step"), ctx.Err())
	}
	return results, err
}

// packages are those of Debian that have the emulators.
var packages = map[string]string{"amd64": "qemu-system-x86", "arm64": "qemu-system-arm"}

func (m *Machine) command() []string {
	// The emulator's processor with all it has, «max», makes Linux 6.12 for amd64 panic now and then.
	machine, console := []string{"qemu-system-x86_64", "-cpu", "EPYC"}, "ttyS0"
	if m.Arch == "arm64" {
		machine, console = []string{"qemu-system-aarch64", "-M", "virt", "-cpu", "max"}, "ttyAMA0"
	}
	parameters := append([]string{"console=" + console, "quiet", "panic=-1", "cryptomgr.notests"}, m.Append...)
	return append(machine, "-accel", "tcg,thread=multi", "-smp", "2", "-m", strconv.Itoa(m.Memory),
		"-display", "none", "-serial", "stdio", "-monitor", "none", "-no-reboot", "-nic", "none",
		"-kernel", m.kernel, "-append", strings.Join(parameters, " "))
}

// follow copies the guest's output and collects the results.
func follow(stdout io.Reader, output io.Writer) ([]Result, error) {
	var results []Result
	lines := bufio.NewScanner(stdout)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		line := strings.TrimRight(lines.Text(), "\r")
		if _, text, isEnd := strings.Cut(line, End); isEnd {
			var r Result
			if err := json.Unmarshal([]byte(text), &r); err != nil {
				return results, fmt.Errorf("the guest wrote %q: %w", line, err)
			}
			results = append(results, r)
		}
		if line == "" {
			continue
		}
		if _, err := fmt.Fprintln(output, line); err != nil {
			return results, err
		}
	}
	return results, lines.Err()
}

func (m *Machine) writeImage() (string, error) {
	plan, err := json.Marshal(m.Steps)
	if err != nil {
		return "", err
	}
	path := filepath.Join(m.dir, "initramfs")
	file, err := os.Create(path)
	if err != nil {
		return "", err
	}
	image := image{archive: cpio.NewWriter(file), dirs: map[string]bool{".": true}}
	err = errors.Join(image.addFile(m.init, "init"), image.addBytes(plan, strings.TrimPrefix(Plan, "/")))
	for to, from := range m.Files {
		err = errors.Join(err, image.addTree(from, strings.TrimPrefix(to, "/")))
	}
	return path, errors.Join(err, image.close(), file.Close())
}
