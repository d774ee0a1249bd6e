package publish

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/pkg/files/mountns"
)

func TestMain(m *testing.M) { os.Exit(mountns.Main(m)) }

// TestRaw looks that the floor is a volume that a pod could use, and that it goes.
func TestRaw(t *testing.T) {
	t.Parallel()
	target := floorTarget(t.TempDir(), 7)
	content := repeated(1 << 10)
	if err := raw(target, []byte(content)); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(target, fileName))
	if err != nil || string(got) != content {
		t.Errorf("the file has %d bytes (%v), want %d others", len(got), err, len(content))
	}
	if link, err := os.Readlink(filepath.Join(target, fileName)); link != "..data/"+fileName || err != nil {
		t.Errorf("the file's name leads to %q (%v), want into ..data", link, err)
	}
	if err := os.WriteFile(filepath.Join(target, "new"), nil, 0o600); !errors.Is(err, unix.EROFS) {
		t.Errorf("writing gives %v, want %v", err, unix.EROFS)
	}
	if err := raw(target, []byte(content)); !errors.Is(err, unix.EEXIST) {
		t.Errorf("a second volume gives %v, want %v", err, unix.EEXIST)
	}
	if err := drop(target); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(target); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the target is left: %v", err)
	}
}

func TestParseMounts(t *testing.T) {
	t.Parallel()
	const labels = `{migrated="false",operation_name="volume_mount",status="success",volume_plugin="kubernetes.io/`
	tests := map[string]struct {
		metrics string
		want    map[string]mounted
		err     string
	}{
		"two kinds": {
			metrics: "storage_operation_duration_seconds_sum" + labels + "configmap\"} 1.5\n" +
				"storage_operation_duration_seconds_count" + labels + "configmap\"} 3\n" +
				"storage_operation_duration_seconds_count" + labels + "csi:x\"} 1\n",
			want: map[string]mounted{"kubernetes.io/configmap": {seconds: 1.5, number: 3}, "kubernetes.io/csi:x": {number: 1}},
		},
		"buckets are not looked at": {
			metrics: "storage_operation_duration_seconds_bucket" + labels + "csi:x\",le=\"0.1\"} 1\n" +
				"storage_operation_duration_seconds_count" + labels + "csi:x\"} 1\n",
			want: map[string]mounted{"kubernetes.io/csi:x": {number: 1}},
		},
		"other operations": {metrics: strings.Replace("storage_operation_duration_seconds_sum"+labels+"x\"} 1\n", "volume_mount", "volume_unmount", 1)},
		"failures":         {metrics: strings.Replace("storage_operation_duration_seconds_sum"+labels+"x\"} 1\n", "success", "fail-unknown", 1)},
		"no number":        {metrics: "storage_operation_duration_seconds_sum" + labels + "x\"} y\n", err: "invalid syntax"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := parseMounts(tt.metrics)
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Fatalf("error = %v, want %q in it", err, tt.err)
			}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(mounted{}), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("mounts (-want +got):\n%s", diff)
			}
		})
	}
}
