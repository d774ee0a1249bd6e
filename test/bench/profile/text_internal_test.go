package profile

import (
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLasting(t *testing.T) {
	t.Parallel()
	const text = "File: driver\nBuild ID: 12\nType: cpu\nTime: 2026-01-02\nShowing top 1\n  10ms File.Write\n"
	if diff := cmp.Diff("Type: cpu\nShowing top 1\n  10ms File.Write\n", lasting(text)); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
}

// TestAdd looks that a profile of this process becomes a text that names this function.
func TestAdd(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "goroutines")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := pprof.Lookup("goroutine").WriteTo(f, 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	var b bench
	if err := b.add(t.Context(), "a.txt", "All", []view{{"by function", []string{"-top", "-cum", path}}}); err != nil {
		t.Fatal(err)
	}
	if len(b.files) != 1 || b.files[0].Name != "a.txt" || b.files[0].Title != "All" {
		t.Fatalf("files = %+v, want one", b.files)
	}
	for _, want := range []string{"All\n\n== by function\n", "profile.TestAdd"} {
		if !strings.Contains(b.files[0].Text, want) {
			t.Errorf("the text has no %q:\n%s", want, b.files[0].Text)
		}
	}
	if err := b.add(t.Context(), "b.txt", "None", []view{{"nothing", []string{"-top", path + "-none"}}}); err == nil || len(b.files) != 1 {
		t.Errorf("error = %v with %d files, want one, since there is no profile", err, len(b.files))
	}
}

func TestProcess(t *testing.T) {
	t.Parallel()
	got, err := process(os.Getpid(), "12 KiB  stacks\n")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"anonymous", filepath.Base(os.Args[0]) + " r-xp", "12 KiB  stacks"} {
		if !strings.Contains(got, want) {
			t.Errorf("the text has no %q:\n%s", want, got)
		}
	}
}
