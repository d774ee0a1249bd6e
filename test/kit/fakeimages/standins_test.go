package fakeimages_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/liveconfig-csi/liveconfig/test/kit/fakeimages"
)

const pod = `apiVersion: v1
kind: ConfigMap
metadata: {name: image}
data: {image: "not an image"}
---
apiVersion: v1
kind: Pod
spec:
  initContainers:
    - {name: first, image: "busybox:1"}
  containers:
    - name: main
      image: `

func TestFor(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		image   string
		want    []string
		wantErr string
	}{
		"each image is there once":       {image: "busybox:1", want: []string{"busybox:1"}},
		"tags are kept":                  {image: "redis:8", want: []string{"busybox:1", "redis:8"}},
		"the driver's image is left out": {image: "registry.example.com/liveconfig:0.1.0", want: []string{"busybox:1"}},
		"an unknown image is named":      {image: "postgres:17", wantErr: "nothing stands in for the image postgres:17"},
		"a bad manifest is named":        {image: "[", wantErr: "pod.yaml"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.Mkdir(filepath.Join(dir, "example"), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "example", "pod.yaml"), []byte(pod+tc.image), 0o600); err != nil {
				t.Fatal(err)
			}
			images, err := fakeimages.For(dir)
			if (err != nil) != (tc.wantErr != "") || err != nil && !strings.Contains(err.Error(), tc.wantErr) {
				t.Fatalf("For = %v, want an error with %q", err, tc.wantErr)
			}
			var got []string
			for _, image := range images {
				got = append(got, image.Ref)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("the images (-want +got):\n%s", diff)
			}
		})
	}
}

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
