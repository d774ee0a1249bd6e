package volume

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/budget"
	objects "github.com/liveconfig-csi/liveconfig/pkg/driver/source"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/state"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/volume"
	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
	"github.com/liveconfig-csi/liveconfig/pkg/files/volumefs"
)

// tight are the limits of a volume that is easily filled.
func tight() volumefs.Limits { return volumefs.Limits{Bytes: 1 << 20, Inodes: 256} }

// many makes n files of size bytes each.
func many(t *testing.T, n, size int, prefix string) tree.Tree {
	t.Helper()
	files := make(map[string]string, n)
	for i := range n {
		files[fmt.Sprintf("%s%05d", prefix, i)] = strings.Repeat(prefix[:1], size)
	}
	return treeOf(t, files)
}

// TestNoSpace writes what does not fit: the old files stay complete, nothing else stays, and what fits later is written.
// This is fault 2.
func TestNoSpace(t *testing.T) {
	t.Parallel()
	updates := map[string]struct{ old, tooMuch, fits tree.Tree }{
		"too many bytes": {
			many(t, 8, 40000, "old"), many(t, 8, 200000, "new"), many(t, 8, 50000, "new"),
		},
		"files that stay grow too much": {
			many(t, 8, 40000, "f"), many(t, 8, 200000, "f"), many(t, 8, 50000, "f"),
		},
		"too many inodes": {
			many(t, 40, 1, "old"), many(t, 300, 0, "new"), many(t, 40, 2, "new"),
		},
		"too many directories": {
			many(t, 40, 1, "old"), many(t, 130, 0, "a/b/c/new/d"), treeOf(t, map[string]string{"a/b/c/d/e": "1"}),
		},
	}
	// A directory for each file.
	deep := updates["too many directories"].tooMuch
	for i := range deep.Files {
		deep.Files[i].Path += "/file"
	}
	for policy, w := range policies() {
		for name, u := range updates {
			t.Run(policy+"/"+name, func(t *testing.T) {
				t.Parallel()
				v := publish(t, w, tight(), u.old)
				before := v.usage(t)
				for range 3 { // What one failure leaves adds up.
					if err := v.write(u.tooMuch); !errors.Is(err, unix.ENOSPC) {
						t.Fatalf("write of too much = %v, want no space", err)
					}
				}
				v.check(t, u.old)
				if after := v.settledUsage(t, before); after != before {
					t.Errorf("after the failed writes the volume uses %+v, want %+v", after, before)
				}
				v.mustWrite(t, u.fits)
				v.check(t, u.fits)
			})
		}
	}
}

// settledUsage returns the volume's usage once it is what is wanted, or after some seconds. A process that another test
// has just started inherits what is open here, and keeps removed files alive until it runs its own program.
func (v *live) settledUsage(t *testing.T, want volumefs.Usage) volumefs.Usage {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for {
		if got := v.usage(t); got == want || time.Now().After(deadline) {
			return got
		}
		runtime.Gosched()
	}
}

// largest are the largest objects there are: 1 MiB in all, and as many keys as the README promises room for.
func largest() map[string]struct{ keys, size int } {
	return map[string]struct{ keys, size int }{
		"one key of 1 MiB":            {1, 1 << 20},
		"1 MiB in 1000 keys":          {1000, 1 << 20 / 1000},
		"1 MiB in 16384 keys":         {1 << 14, 1 << 20 >> 14},
		"255 pages and a little more": {256, 4095},
	}
}

// TestLargestObject publishes an object of the largest kind with the manager's own limits, and exchanges every name and
// every byte of it in one update.
func TestLargestObject(t *testing.T) {
	t.Parallel()
	for policy, w := range policies() {
		limits := limitsFor(t, policy)
		for name, object := range largest() {
			t.Run(policy+"/"+name, func(t *testing.T) {
				t.Parallel()
				old, next := many(t, object.keys, object.size, "old"), many(t, object.keys, object.size, "new")
				v := publish(t, w, limits, old)
				v.mustWrite(t, next)
				v.check(t, next)
			})
		}
	}
}

// byDriver has the driver's own credentials read everything.
type byDriver struct{}

func (byDriver) Choose(api.Pod, api.Ref) access.Identity { return access.Driver() }

// noTokens holds none.
type noTokens struct{}

func (noTokens) Store(string, api.Pod, access.Token) error { return nil }
func (noTokens) Drop(string) error                         { return nil }
func (noTokens) Retain(func(string) bool) error            { return nil }

// limitsFor returns what the manager limits a volume of one ConfigMap to. The manager publishes an empty one.
func limitsFor(t *testing.T, policy string) volumefs.Limits {
	t.Helper()
	records, err := state.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	mounts := &recordingMounts{FS: volumefs.New(volumefs.Config{Root: root, Source: source})}
	m := volume.New(volume.Config{
		Sources: emptyObjects{}, Authority: byDriver{}, Tokens: noTokens{}, Records: records, EarlierRecords: records,
		Mounts: mounts, Views: mounts, Reporter: nobodyTold{},
		Room:           budget.New(math.MaxInt64).Part(func(int64) {}),
		PublishTimeout: time.Second, ResyncInterval: time.Hour,
	})
	r := state.Record{
		VolumeID: "volume", TargetPath: filepath.Join(root, "mount"), Pod: api.Pod{Namespace: "default", Name: "pod"},
		Attributes: map[string]string{api.KeyConfigMap: "large", api.KeyUpdatePolicy: policy},
	}
	if err := m.Publish(t.Context(), r, access.Token{}); err != nil {
		t.Fatal(err)
	}
	if err := m.Unpublish(t.Context(), r.VolumeID, r.TargetPath); err != nil {
		t.Fatal(err)
	}
	return mounts.limits
}

// recordingMounts remembers the limits of the last volume it made.
type recordingMounts struct {
	*volumefs.FS

	limits volumefs.Limits
}

// Create is [volumefs.FS.Create].
func (r *recordingMounts) Create(l volumefs.Limits) (*volumefs.View, error) {
	r.limits = l
	return r.FS.Create(l)
}

// emptyObjects has every object, and none has data.
type emptyObjects struct{}

func (emptyObjects) Acquire(objects.Key) (release func(), err error) { return func() {}, nil }

func (emptyObjects) Get(key objects.Key) objects.Snapshot {
	return objects.Snapshot{Synced: true, Found: true, Content: api.Content{Ref: key.Ref, UID: "uid", ResourceVersion: "1"}}
}

// nobodyTold drops all messages.
type nobodyTold struct{}

func (nobodyTold) Event(api.Pod, string, volume.Reason, string) {}

func (nobodyTold) Synced(volume.Result, time.Time) {}

func (nobodyTold) Reached(time.Time) {}
