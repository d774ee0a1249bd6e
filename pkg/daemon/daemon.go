// Package daemon has what all programs share that run in a cluster until a signal stops them.
//
// It does not know what they do.
package daemon

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strconv"

	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/daemon/telemetry"
)

// Program is a whole program: it works until ctx ends, or something it needs breaks. Args are
// without its name.
type Program func(ctx context.Context, args []string, getenv func(string) string, stderr io.Writer) error

// Main runs a program with the arguments of this process, until a signal stops it; a second one
// kills it. It writes the error to stderr and returns what the process is to exit with.
func Main(ctx context.Context, name string, run Program) int {
	ctx, stop := signal.NotifyContext(ctx, unix.SIGINT, unix.SIGTERM)
	defer stop()
	defer context.AfterFunc(ctx, stop)()
	err := run(ctx, os.Args[1:], os.Getenv, os.Stderr)
	klog.Flush()
	return exitCode(os.Stderr, name, err)
}

// exitCode returns what went wrong. A request for help is not a mistake.
func exitCode(stderr io.Writer, name string, err error) int {
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return 0
	}
	_, _ = fmt.Fprintf(stderr, "%s: %v\n", name, err)
	return 1
}

// CheckHTTPEndpoint returns an error unless the value of --http-endpoint is empty, or a port with a
// host or without.
func CheckHTTPEndpoint(address string) error {
	if address == "" {
		return nil
	}
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return fmt.Errorf("--http-endpoint %q is not host:port, such as 127.0.0.1:9809 or :9809", address)
	}
	return nil
}

// CheckLogFormat returns an error unless the value of --log-format is one that
// [telemetry.SetUpLogging] knows.
func CheckLogFormat(format string) error {
	if format != telemetry.FormatText && format != telemetry.FormatJSON {
		return fmt.Errorf("--log-format %q is not %s or %s", format, telemetry.FormatText, telemetry.FormatJSON)
	}
	return nil
}
