package narrator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/pkg/files/mountns"
	"github.com/liveconfig-csi/liveconfig/test/kit/fakekubelet"
)

// Run runs a demo in a separate mount namespace until it ends or somebody interrupts it, and returns the program's exit code.
func Run(ctx context.Context, run func(ctx context.Context, args []string, out io.Writer) error) int {
	outcome, err := mountns.Reexec()
	if err == nil && !outcome.Inside {
		return outcome.ExitCode
	}
	if err == nil {
		ctx, stop := signal.NotifyContext(ctx, unix.SIGINT, unix.SIGTERM)
		err = run(ctx, os.Args[1:], os.Stdout)
		stop()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		return 1
	}
	return 0
}

// WantGone returns an error if the volume is there, or a mount whose line in the mount table has the text.
func WantGone(volume, text string) error {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	if strings.Contains(string(table), text) {
		return errors.New("a mount of the driver is left behind")
	}
	return fakekubelet.Gone(volume)
}
