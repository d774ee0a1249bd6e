// Package e2e_test runs liveconfig as people do: in containers of a real node, installed by the words of the README.
package e2e_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/liveconfig-csi/liveconfig/test/kit/realnode"
)

func TestMain(m *testing.M) { os.Exit(realnode.Main(withSite{m})) }

// withSite runs the tests and then tears down what the last of them left running.
type withSite struct{ m *testing.M }

// Run returns the exit status.
func (w withSite) Run() int {
	if err := w.run(); err != nil {
		fmt.Fprintln(os.Stderr, "end-to-end tests:", err)
		return 1
	}
	return 0
}

// run keeps the logs when a test has failed, and only then.
func (w withSite) run() error {
	logs, err := logDir()
	if err != nil {
		return err
	}
	if err := os.RemoveAll(logs); err != nil {
		return fmt.Errorf("clear the logs of an earlier run: %w", err)
	}
	status := w.m.Run()
	if current.site != nil {
		if err := current.site.Stop(); err != nil {
			return fmt.Errorf("stop the node: %w", err)
		}
	}
	if status != 0 {
		return fmt.Errorf("tests failed; the logs of all programs and pods are in %s", logs)
	}
	return os.RemoveAll(logs)
}
