package profile

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"github.com/liveconfig-csi/liveconfig/test/bench/report"
	"github.com/liveconfig-csi/liveconfig/test/kit/proc"
)

// view is a way to look at a profile.
type view struct {
	title string
	args  []string // Of pprof.
}

// add has pprof write profiles as text.
func (b *bench) add(ctx context.Context, name, title string, views []view) error {
	var text strings.Builder
	fmt.Fprintf(&text, "%s\n", title)
	for _, v := range views {
		top, err := runPprof(ctx, v.args...)
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "\n== %s\n%s", v.title, lasting(top))
	}
	b.files = append(b.files, report.File{Name: name, Title: title, Text: text.String()})
	return nil
}

func runPprof(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"tool", "pprof"}, args...)...)
	out, err := cmd.Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			err = fmt.Errorf("%w\n%s", err, exit.Stderr)
		}
		return "", fmt.Errorf("have pprof read a profile: %w", err)
	}
	return string(out), nil
}

// lasting leaves out the lines of pprof that are of this run alone.
func lasting(text string) string {
	var kept strings.Builder
	for l := range strings.Lines(text) {
		key, _, _ := strings.Cut(l, ":")
		switch key {
		case "File", "Build ID", "Time":
		default:
			kept.WriteString(l)
		}
	}
	return kept.String()
}

// process reports what all of a driver, as it is shipped, has in memory, by what the kernel says. What Go says is of one that was
// profiled.
func process(pid int, account string) (string, error) {
	memory, err := proc.MemoryOf(pid)
	if err != nil {
		return "", err
	}
	mappings, err := proc.MappingsOf(pid)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	fmt.Fprintf(&text, "As it is shipped: RSS %d KiB, of that anonymous %d KiB\n\n== by mapping: RSS, anonymous\n",
		memory.Resident>>10, memory.Anonymous>>10)
	for _, m := range mappings {
		fmt.Fprintf(&text, "%10d KiB %10d KiB  %s\n", m.Resident>>10, m.Anonymous>>10, m.Name)
	}
	fmt.Fprintf(&text, "\n== by Go's account, of a driver that was profiled for its heap\n%s", account)
	return text.String(), nil
}
