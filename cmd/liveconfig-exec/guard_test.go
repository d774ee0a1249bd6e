package main

import (
	"bytes"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/liveconfig-csi/liveconfig/pkg/expect"
)

// What liveconfig-exec is made of. It is copied into containers of others, and stays in memory beside their program.
const (
	linkedPackages = 110
	binaryBytes    = 2_600_000
)

func tool(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// TestGuardLinked: files and processes are all that it needs to know.
func TestGuardLinked(t *testing.T) {
	t.Parallel()
	packages := strings.Fields(tool(t, "list", "-deps", "."))
	if got := len(packages); got > linkedPackages || got < linkedPackages/2 {
		t.Errorf("it is made of %d packages, want at most %d", got, linkedPackages)
	}
	const ours = "github.com/liveconfig-csi/liveconfig/"
	for _, p := range packages {
		domain, _, _ := strings.Cut(p, "/")
		if strings.Contains(domain, ".") && p != "golang.org/x/sys/unix" && !strings.HasPrefix(p, ours) {
			t.Errorf("it is linked with %s", p)
		}
	}
}

// TestGuardBinary builds it as releases do: it must run where there is nothing else, and be small.
func TestGuardBinary(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "liveconfig-exec")
	tool(t, "build", "-trimpath", "-ldflags=-s -w", "-o", path, ".")
	data, err := os.ReadFile(path)
	expect.NoError(t, err)
	if got := len(data); got > binaryBytes || got < binaryBytes/2 {
		t.Errorf("it has %d bytes, want at most %d", got, binaryBytes)
	}
	file, err := elf.NewFile(bytes.NewReader(data))
	expect.NoError(t, err)
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP {
			t.Error("it needs a dynamic loader")
		}
	}
}
