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

// Config says what to boot. Kernel, Arch, Init and Dir are required.
type Config struct {
	// Kernel is a file; Arch is Go's name of its processor.
	Kernel, Arch string
	// Append are further parameters of the kernel.
	Append []string
	// Memory is in MiB; zero stands for 2048.
	Memory int
	// Init is the static program of test/vm/guest for that processor.
	Init string
	// Files are those of the guest: files and directories of this machine, by their paths in the guest.
	Files map[string]string
	Steps []Step
	// Dir holds the initramfs while the guest runs.
	Dir string
	// Output gets what the guest writes. Nil discards it.
	Output io.Writer
}

// The marks by which the guest's lines are found. The kernel writes to the same console.
const (
	Begin = "@@begin "
	End   = "@@end "
)

// Plan is the file from which the guest reads its steps.
const Plan = "/plan.json"

// ErrIncomplete is wrapped when the guest ended before its last step.
var ErrIncomplete = errors.New("the guest ended before its last step")

// Run boots the kernel, runs the steps in their order, and returns how each ended. The guest stops after the last one, and
// when ctx ends.
func Run(ctx context.Context, cfg Config) ([]Result, error) {
	image, err := cfg.writeImage()
	if err != nil {
		return nil, fmt.Errorf("write the initramfs: %w", err)
	}
	cmd := exec.CommandContext(ctx, cfg.command()[0], append(cfg.command()[1:], "-initrd", image)...)
	cmd.WaitDelay = 10 * time.Second
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%w: install %s", err, packages[cfg.Arch])
	}
	results, err := cfg.follow(stdout)
	if waited := cmd.Wait(); waited != nil {
		err = errors.Join(err, fmt.Errorf("%s: %w: %s", cmd.Path, waited, stderr.String()))
	}
	if len(results) < len(cfg.Steps) {
		err = errors.Join(err, ErrIncomplete, ctx.Err())
	}
	return results, err
}

// packages are those of Debian that have the emulators.
var packages = map[string]string{"amd64": "qemu-system-x86", "arm64": "qemu-system-arm"}

func (cfg *Config) command() []string {
	// The emulator's processor with all it has, «max», makes Linux 6.12 for amd64 panic now and then.
	machine, console := []string{"qemu-system-x86_64", "-cpu", "EPYC"}, "ttyS0"
	if cfg.Arch == "arm64" {
		machine, console = []string{"qemu-system-aarch64", "-M", "virt", "-cpu", "max"}, "ttyAMA0"
	}
	memory := cfg.Memory
	if memory == 0 {
		memory = 2048
	}
	parameters := append([]string{"console=" + console, "quiet", "panic=-1", "cryptomgr.notests"}, cfg.Append...)
	return append(machine, "-accel", "tcg,thread=multi", "-smp", "2", "-m", strconv.Itoa(memory),
		"-display", "none", "-serial", "stdio", "-monitor", "none", "-no-reboot", "-nic", "none",
		"-kernel", cfg.Kernel, "-append", strings.Join(parameters, " "))
}

// follow copies the guest's output and collects the results.
func (cfg *Config) follow(stdout io.Reader) ([]Result, error) {
	output := cfg.Output
	if output == nil {
		output = io.Discard
	}
	var results []Result
	lines := bufio.NewReader(stdout)
	for {
		line, err := lines.ReadString('\n')
		line = strings.TrimRight(line, "\r\n")
		if at := strings.Index(line, End); at >= 0 {
			var r Result
			if err := json.Unmarshal([]byte(line[at+len(End):]), &r); err != nil {
				return results, fmt.Errorf("the guest wrote %q: %w", line, err)
			}
			results = append(results, r)
		}
		if line != "" {
			if _, err := fmt.Fprintln(output, line); err != nil {
				return results, err
			}
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return results, err
		}
	}
}

// writeImage writes the initramfs.
func (cfg *Config) writeImage() (string, error) {
	plan, err := json.Marshal(cfg.Steps)
	if err != nil {
		return "", err
	}
	path := filepath.Join(cfg.Dir, "initramfs")
	file, err := os.Create(path)
	if err != nil {
		return "", err
	}
	image := newImage(file)
	err = errors.Join(image.addFile(cfg.Init, "init"), image.addBytes(plan, strings.TrimPrefix(Plan, "/")))
	for to, from := range cfg.Files {
		err = errors.Join(err, image.addTree(from, strings.TrimPrefix(to, "/")))
	}
	return path, errors.Join(err, image.close(), file.Close())
}
