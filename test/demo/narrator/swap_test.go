package narrator

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestChange: files that change long before the call that changes them returns have not changed before it.
func TestChange(t *testing.T) {
	t.Parallel()
	volume := t.TempDir()
	put := func(generation string) error {
		err := os.Mkdir(filepath.Join(volume, generation), 0o755)
		if err == nil {
			err = os.WriteFile(filepath.Join(volume, generation, "file"), []byte(generation), 0o600)
		}
		if err == nil {
			err = os.Symlink(generation, filepath.Join(volume, "..new"))
		}
		if err != nil {
			return err
		}
		return os.Rename(filepath.Join(volume, "..new"), filepath.Join(volume, "..data"))
	}
	if err := put("..1"); err != nil {
		t.Fatal(err)
	}
	change := func() error {
		err := put("..2")
		<-time.After(200 * time.Millisecond)
		return err
	}
	var said strings.Builder
	if _, err := (Narrator{Out: &said}).Change(context.WithoutCancel(t.Context()), volume, change, "the write began"); err != nil {
		t.Fatal(err)
	}
	if want := regexp.MustCompile(`the files changed [0-9]{1,2}\.[0-9] ms after the write began`); !want.MatchString(said.String()) {
		t.Errorf("Change prints %q, want a time below the 200 ms that the call takes, after its begin", said.String())
	}
}
