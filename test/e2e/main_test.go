// Package e2e_test runs liveconfig as people do: in containers of a real node, installed by the words of the README.
package e2e_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/liveconfig-csi/liveconfig/test/kit/machine"
)

func TestMain(m *testing.M) { os.Exit(machine.Main(withSite{m})) }

// withSite runs the tests and then tears down what the last of them left running.
type withSite struct{ m *testing.M }

// Run returns the exit status.
func (w withSite) Run() int {
	status := w.m.Run()
	if current.site == nil {
		return status
	}
	logs := current.site.LogDir()
	if status != 0 {
		if err := current.site.KeepState(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, "keep the state of the cluster:", err)
		}
		fmt.Fprintln(os.Stderr, "the logs of all programs and pods are in", logs)
	}
	if err := current.site.stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stop the node:", err)
		return max(status, 1)
	}
	if status == 0 {
		if err := os.RemoveAll(logs); err != nil {
			fmt.Fprintln(os.Stderr, "remove the logs:", err)
			return 1
		}
	}
	return status
}
