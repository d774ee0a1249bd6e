package volume_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/identity"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/budget"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/source"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/state"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/volume"
	"github.com/liveconfig-csi/liveconfig/pkg/files/volumefs"
)

// still is one object that is read already.
type still struct {
	mu  sync.Mutex // Guards now.
	now source.Snapshot
}

func (*still) Acquire(source.Key) (func(), error) { return func() {}, nil }

func (s *still) Look(keys ...source.Key) []source.Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Repeat([]source.Snapshot{s.now}, len(keys))
}

func (s *still) edit(version int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = source.Snapshot{Synced: true, Found: true, Changed: time.Now(), Content: api.Content{
		Ref: web, UID: "1", ResourceVersion: fmt.Sprint(version),
		Data: map[string][]byte{"key": []byte(strings.Repeat(fmt.Sprint(version%10), 1024))},
	}}
}

// counting counts what is written.
type counting struct {
	reporter

	written sync.WaitGroup
}

func (*counting) Event(api.Pod, string, volume.Reason, string) {}

func (c *counting) Synced(r volume.Result, _ time.Time) {
	if r == volume.ResultWritten {
		c.written.Done()
	}
}

// benchmark runs a manager of real mounts and records, with one object that all volumes share.
func benchmark(b *testing.B) (*volume.Manager, *still, *counting, func(i int) state.Record) {
	b.Helper()
	dir := b.TempDir()
	records, err := state.New(filepath.Join(dir, "state"))
	if err != nil {
		b.Fatal(err)
	}
	object, seen := &still{}, &counting{}
	object.edit(0)
	n := &node{dir: dir, secrets: identity.ByDriver, maps: identity.ByDriver, T: new(testing.T)}
	mounts := volumefs.New(volumefs.Config{Root: dir, Source: "csi.test"})
	m := volume.New(volume.Config{
		Sources: object, Authority: n.authority(), Tokens: &n.tokens, Records: records, EarlierRecords: records,
		Reporter: seen, Mounts: mounts, Views: volume.OnTmpfs(mounts),
		Room: budget.New(1 << 40).Part(func(int64) {}), PublishTimeout: time.Minute, ResyncInterval: time.Hour,
	})
	ctx, stop := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	b.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	})
	return m, object, seen, func(i int) state.Record { return n.request(fmt.Sprint("volume-", i), configMap(web.Name)) }
}

// BenchmarkUpdate changes the object of so many volumes, until the files of all are new. The volumes have different modes, so each one
// has separate files.
func BenchmarkUpdate(b *testing.B) {
	for _, volumes := range []int{1, 110} {
		b.Run(fmt.Sprintf("volumes=%d", volumes), func(b *testing.B) {
			m, object, seen, request := benchmark(b)
			ctx := klog.NewContext(b.Context(), klog.Logger{})
			for i := range volumes {
				r := request(i)
				r.Attributes[api.KeyDefaultMode] = fmt.Sprintf("%04o", 0o400+i)
				seen.written.Add(1)
				if err := m.Publish(ctx, vouched(r, access.Token{})); err != nil {
					b.Fatal(err)
				}
				b.Cleanup(func() { _ = m.Unpublish(context.WithoutCancel(ctx), r.VolumeID, r.TargetPath) })
			}
			version := 0
			for b.Loop() {
				version++
				b.StopTimer()
				<-time.After(600 * time.Millisecond) // Replaced files are in their grace, and then removed.
				b.StartTimer()
				object.edit(version)
				seen.written.Add(volumes)
				m.Changed(source.Key{Identity: identity.Driver(), Ref: web})
				seen.written.Wait()
			}
		})
	}
}

// BenchmarkUpdateOfSelection changes one of 500 selected objects of 20 KiB, until its file is new.
func BenchmarkUpdateOfSelection(b *testing.B) {
	m, object, seen, request := benchmark(b)
	ctx := klog.NewContext(b.Context(), klog.Logger{})
	members := make([]source.Member, 500)
	edit := func(i, version int) {
		content := api.Content{
			Ref: mapIn(web.Namespace, fmt.Sprintf("object-%03d", i)), UID: fmt.Sprint(i), ResourceVersion: fmt.Sprint(version),
			Data: map[string][]byte{fmt.Sprintf("key-%03d", i): []byte(strings.Repeat(fmt.Sprint(version%10), 20<<10))},
		}
		object.mu.Lock()
		defer object.mu.Unlock()
		members = slices.Clone(members)
		members[i] = source.Member{Content: content, Created: time.Unix(1_700_000_000, 0)}
		object.now = source.Snapshot{Synced: true, Found: true, Changed: time.Now(), Members: members}
	}
	for i := range members {
		edit(i, 0)
	}
	r := request(0)
	r.Attributes = selecting("")
	seen.written.Add(1)
	if err := m.Publish(ctx, vouched(r, access.Token{})); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = m.Unpublish(context.WithoutCancel(ctx), r.VolumeID, r.TargetPath) })
	whole := source.Key{
		Identity: identity.Driver(), Ref: api.Ref{Kind: api.ConfigMap, Namespace: web.Namespace}, Selector: "team=web",
	}
	version := 0
	for b.Loop() {
		version++
		b.StopTimer()
		<-time.After(1200 * time.Millisecond) // Replaced files are in their grace, and then removed.
		b.StartTimer()
		edit(0, version)
		seen.written.Add(1)
		m.Changed(whole)
		seen.written.Wait()
	}
}

// BenchmarkPublish publishes a volume of an object that is read already.
func BenchmarkPublish(b *testing.B) {
	m, _, seen, request := benchmark(b)
	ctx := klog.NewContext(b.Context(), klog.Logger{})
	i := 0
	for b.Loop() {
		b.StopTimer()
		i++
		r := request(i)
		seen.written.Add(1)
		b.StartTimer()
		if err := m.Publish(ctx, vouched(r, access.Token{})); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := m.Unpublish(ctx, r.VolumeID, r.TargetPath); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
