package fakeimages_test

import (
	"path/filepath"
	"testing"

	"github.com/liveconfig-csi/liveconfig/test/kit/fakeimages"
)

// TestForTheExamples holds that an example with a new image gets a stand-in.
func TestForTheExamples(t *testing.T) {
	t.Parallel()
	if images, err := fakeimages.For(filepath.Join("..", "..", "..", "examples")); err != nil || len(images) == 0 {
		t.Errorf("For = %d images, %v, want some", len(images), err)
	}
	if _, err := fakeimages.For(t.TempDir()); err == nil {
		t.Error("For a folder without manifests returns no error")
	}
}
