package main

import (
	"errors"
	"flag"
	"io"
	"os"
	"strings"
	"testing"
)

func TestRunStopsAtMistakes(t *testing.T) {
	t.Parallel()
	err := run(t.Context(), []string{"--log-format=xml"}, onNode, io.Discard)
	if want := `--log-format "xml" is not text or json`; err == nil || err.Error() != want {
		t.Errorf("run = %v, want %s", err, want)
	}
	if err := run(t.Context(), []string{"-h"}, onNode, io.Discard); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("run = %v, want %v", err, flag.ErrHelp)
	}
}

// TestSELinuxContext holds on any node: with SELinux the context is taken, without it there is none.
func TestSELinuxContext(t *testing.T) {
	t.Parallel()
	filesystems, err := os.ReadFile("/proc/filesystems")
	if err != nil {
		t.Fatal(err)
	}
	want := ""
	if strings.Contains(string(filesystems), "selinuxfs") {
		want = "user_u:role_r:type_t:s0"
	}
	if got, err := selinuxContext("user_u:role_r:type_t:s0"); got != want || err != nil {
		t.Errorf("selinuxContext = %q, %v, want %q", got, err, want)
	}
}
