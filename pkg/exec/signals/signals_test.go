package signals_test

import (
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/pkg/exec/signals"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]syscall.Signal{
		"TERM": unix.SIGTERM, "SIGTERM": unix.SIGTERM, "term": unix.SIGTERM, "sigquit": unix.SIGQUIT, "3": unix.SIGQUIT, "64": 64,
		"RTMIN": 34, "SIGRTMIN+3": 37, "rtmin+30": 64, "RTMAX": 64, "SIGRTMAX-14": 50, "KILL": unix.SIGKILL,
		"": 0, "SIG": 0, "QUIT 1": 0, "0": 0, "-1": 0, "+3": 0, "65": 0, "03": 0, "RTMIN+31": 0, "RTMIN-1": 0, "RTMAX+1": 0, "RTMIN3": 0, "QUI": 0,
	} {
		if got := signals.Parse(text); got != want {
			t.Errorf("signal of %q = %d, want %d", text, got, want)
		}
	}
}

func TestNamesOfLinux(t *testing.T) {
	t.Parallel()
	for want := unix.SIGHUP; want <= unix.SIGSYS; want++ {
		if got := signals.Parse(unix.SignalName(want)); got != want {
			t.Errorf("signal of %s = %d, want %d", unix.SignalName(want), got, want)
		}
	}
}
