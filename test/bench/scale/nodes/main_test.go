package main

import (
	"io"
	"strings"
	"testing"
)

// TestItEndsWithItsInput: when the parent is gone, however that came, the input is at its end.
func TestItEndsWithItsInput(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if err := run(t.Context(), nil, strings.NewReader("{}\n{}\n"), &out); err != nil {
		t.Errorf("run at the end of its input = %v, want no error", err)
	}
	if got := strings.Count(out.String(), "\n"); got != 2 {
		t.Errorf("%d answers to two orders:\n%s", got, out.String())
	}
}

func TestItEndsWhenItsTimeIsUp(t *testing.T) {
	t.Parallel()
	never, parent := io.Pipe()
	defer parent.Close()
	if err := run(t.Context(), []string{"--for=1ms"}, never, io.Discard); err == nil || !strings.Contains(err.Error(), "time is up") {
		t.Errorf("run = %v, want that its time is up", err)
	}
}
