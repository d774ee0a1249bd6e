package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// TestReload: what fails is tried again at the next look, and after a success nothing is asked until the next change.
func TestReload(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		asked := 0
		ended := make(chan error, 1)
		go func() {
			ended <- reload(ctx, dir, func(context.Context) error {
				if asked++; asked == 1 {
					return errors.New("the program refuses the first one")
				}
				return nil
			})
		}()
		for _, step := range []struct {
			change string
			want   int // Requests after it.
		}{{"", 0}, {"1", 2}, {"1", 2}, {"2", 3}} {
			synctest.Wait()
			if step.change != "" {
				if err := os.WriteFile(filepath.Join(dir, "a"), []byte(step.change), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			<-time.After(4*interval + interval/2)
			if asked != step.want {
				t.Errorf("after the content %q there were %d requests, want %d", step.change, asked, step.want)
			}
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
