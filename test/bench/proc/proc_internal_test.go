package proc

import (
	"os"
	"strings"
	"testing"
)

func TestParseTicks(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		stat string
		want int64
		err  string
	}{
		"user and system time":           {stat: "7 (app) S 1 7 7 0 -1 4194560 100 0 0 0 30 12 0 0 20 0", want: 42},
		"a name with blanks and a brace": {stat: "7 (a ) p) S 1 7 7 0 -1 4194560 100 0 0 0 30 12 0 0 20 0", want: 42},
		"a line that is cut":             {stat: "7 (app) S 1 7", err: "no such fields"},
		"no number":                      {stat: "7 (app) S 1 7 7 0 -1 4194560 100 0 0 0 x 12 0 0 20 0", err: "invalid syntax"},
		"nothing":                        {err: "no such fields"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := parseTicks(tt.stat)
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Fatalf("error = %v, want %q in it", err, tt.err)
			}
			if got != tt.want {
				t.Errorf("ticks = %d, want %d", got, tt.want)
			}
		})
	}
}

// TestOfThisProcess looks at the kernel's own files.
func TestOfThisProcess(t *testing.T) {
	t.Parallel()
	memory, err := MemoryOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if memory.Anonymous < 100<<10 || memory.Resident < memory.Anonymous {
		t.Errorf("memory = %+v, want more than 100 KiB, and no more anonymous than there is", memory)
	}
	before, err := WorkOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	after := before
	for after.CPU == before.CPU {
		if after, err = WorkOf(os.Getpid()); err != nil {
			t.Fatal(err)
		}
	}
	if work := after.Since(before); work.CPU < 0 || before.WakeUps == 0 {
		t.Errorf("work = %+v after %+v, want some", work, before)
	}
}
