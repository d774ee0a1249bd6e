package volume_test

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/identity"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/state"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/volume"
	"github.com/liveconfig-csi/liveconfig/pkg/files/volumefs"
)

// bubbleShared is bubble for tests of equal volumes, which share a file system.
func bubbleShared(t *testing.T, test func(n *node)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.shares = true
		test(n)
		n.end()
	})
}

// bubbleSharedCase is bubbleShared for one case of a table.
func bubbleSharedCase(t *testing.T, name string, test func(n *node)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { bubbleShared(t, test) })
}

// replica is a request for a volume of a pod with this name.
func (n *node) replica(pod string, attributes map[string]string) state.Record {
	n.Helper()
	r := n.request("config", attributes)
	r.VolumeID, r.Pod.Name, r.Pod.UID = "csi-"+pod, pod, "uid-"+pod
	r.TargetPath = strings.Replace(r.TargetPath, "uid-app", "uid-"+pod, 1)
	n.must(os.MkdirAll(filepath.Dir(r.TargetPath), 0o750))
	return r
}

// replicas publishes volumes of pods «replica-0» and so on.
func (d *driver) replicas(count int, attributes map[string]string) []state.Record {
	d.n.Helper()
	var all []state.Record
	for i := range count {
		r := d.n.replica(fmt.Sprint("replica-", i), attributes)
		d.publish(r)
		all = append(all, r)
	}
	return all
}

// wantShared checks that volumes have one file system, each with its own mount.
func (n *node) wantShared(volumes ...state.Record) {
	n.Helper()
	first := n.mountOf(volumes[0])
	for _, r := range volumes[1:] {
		if m := n.mountOf(r); m == first || !m.SharesFilesWith(first) {
			n.Errorf("%s and %s have the mounts %v and %v, want two of one file system", volumes[0].VolumeID, r.VolumeID, first, m)
		}
	}
}

// wantAlone checks that no other volume has the files of the first one.
func (n *node) wantAlone(volumes ...state.Record) {
	n.Helper()
	first := n.mountOf(volumes[0])
	for _, r := range volumes[1:] {
		if n.mountOf(r).SharesFilesWith(first) {
			n.Errorf("%s and %s share their files", volumes[0].VolumeID, r.VolumeID)
		}
	}
}

// wantSharing is wantShared or wantAlone.
func (n *node) wantSharing(areShared bool, volumes ...state.Record) {
	n.Helper()
	map[bool]func(...state.Record){true: n.wantShared, false: n.wantAlone}[areShared](volumes...)
}

func (n *node) mountOf(r state.Record) volumefs.Mount {
	n.Helper()
	m, err := n.mounts.FS.Find(r.TargetPath)
	n.must(err)
	return m
}

// TestEqualVolumesAreOneFileSystem through their whole life: one sync serves all, each pod gets its
// Events, and the last volume frees the files.
func TestEqualVolumesAreOneFileSystem(t *testing.T) {
	t.Parallel()
	for _, policy := range []api.UpdatePolicy{api.UpdateAtomic, api.UpdateReplace} {
		bubbleSharedCase(t, string(policy), func(n *node) {
			d, _ := n.ready()
			all := d.replicas(3, configMap("web", api.KeyUpdatePolicy, string(policy)))
			n.wantShared(all...)
			wantSame(n, "users of sources", map[api.Ref]int{web: 1}, n.cluster.users())
			n.seen.forget()

			n.set(web, "a", "2")
			n.wantEach(map[string]string{"a": "2"}, all...)
			wantSame(n, "syncs that wrote", 1, n.seen.results()[volume.ResultWritten])
			pods := map[string]int{}
			for _, e := range n.seen.all() {
				pods[e.Pod]++
			}
			wantSame(n, "Events by pod", map[string]int{"default/replica-0": 1, "default/replica-1": 1, "default/replica-2": 1}, pods)
			wantSame(n, "Status()", 3, len(d.Status(func(api.Pod) bool { return true })))

			d.unpublish(all[0]) // The others live on without the one that was first.
			n.set(web, "a", "3")
			n.wantFiles(all[1], map[string]string{"a": "3"})
			d.unpublish(all[1])
			d.publish(all[0])
			n.wantShared(all[0], all[2])
			n.wantFiles(all[0], map[string]string{"a": "3"})
		})
	}
}

// TestManyAtOnceAreOneFileSystem: replicas come together when a Deployment is scaled.
func TestManyAtOnceAreOneFileSystem(t *testing.T) {
	bubbleShared(t, func(n *node) {
		n.cluster.set(web, "a", strings.Repeat("x", 1<<20-100))
		room, option := limited(20 << 20) // Too little for the files of all.
		d := n.start(option)
		var all []state.Record
		var failed []<-chan error
		for i := range 20 {
			r := n.replica(fmt.Sprint("replica-", i), configMap("web"))
			all = append(all, r)
			failed = append(failed, d.publishing(r))
		}
		for _, err := range failed {
			n.must(<-err)
		}
		pass(settling)
		n.wantShared(all...)
		if used := room.Used(); used > 4<<20 {
			n.Errorf("Used() = %d, want that the files count once", used)
		}
		before := room.Used()
		d.unpublish(all[0])
		d.unpublish(all[1]) // What the files take stays counted, whichever volume was the first to have them.
		if got := before - room.Used(); got < volume.BytesPerVolume || got > 4*volume.BytesPerVolume {
			n.Errorf("two volumes that go give %d bytes back, want some %d each", got, volume.BytesPerVolume)
		}
		for _, r := range all[2:] {
			d.unpublish(r)
		}
		wantSame(n, "Used() in the end", 0, room.Used())
	})
}

// TestVolumesThatMustNotShare: volumes do not share if anything differs that decides about the files or about their readers. Two
// service accounts share nothing, since a container may be able to change the files.
func TestVolumesThatMustNotShare(t *testing.T) {
	t.Parallel()
	group := 7
	plain, empty, own := configMap("web"), sources(""), map[string]string{api.KeySecret: tls.Name}
	inPlace, never := configMap("web", api.KeyUpdatePolicy, "InPlace"), configMap("web", api.KeyUpdatePolicy, "Never")
	with := func(more ...string) func(*state.Record) {
		return func(r *state.Record) { r.Attributes = configMap("web", more...) }
	}
	equal := func(*state.Record) {}
	namespace := func(r *state.Record) { r.Pod.Namespace = "other" }
	account := func(r *state.Record) { r.Pod.ServiceAccount = "other" }
	tests := map[string]struct {
		attributes map[string]string // Of the first volume.
		differ     func(second *state.Record)
		maps       identity.Reader // Who reads ConfigMaps; the driver if empty.
		areShared  bool
	}{
		"another mode":         {attributes: plain, differ: with(api.KeyDefaultMode, "0600")},
		"another owner":        {attributes: plain, differ: with(api.KeyUID, "7")},
		"another group":        {attributes: plain, differ: with(api.KeyGID, "7")},
		"another fsGroup":      {attributes: plain, differ: func(r *state.Record) { r.FSGroup = &group }},
		"other items":          {attributes: plain, differ: with(api.KeyItems, "[{key: a, path: b}]")},
		"optional":             {attributes: plain, differ: with(api.KeyOptional, "true")},
		"one file":             {attributes: plain, differ: func(r *state.Record) { r.Attributes = asFile("a", api.FormatJSON) }},
		"another onDelete":     {attributes: plain, differ: with(api.KeyOnDelete, string(api.OnDeleteRemove))},
		"another updatePolicy": {attributes: plain, differ: with(api.KeyUpdatePolicy, string(api.UpdateReplace))},
		"InPlace":              {attributes: inPlace, differ: equal},
		"Never":                {attributes: never, differ: equal},

		"another namespace, although there is nothing to read":       {attributes: empty, differ: namespace},
		"another namespace of the pod":                               {attributes: secret(shared), differ: namespace},
		"another service account that reads":                         {attributes: secret(shared), differ: account},
		"another service account, a Secret that the driver reads":    {attributes: own, differ: account},
		"another service account, which reads a ConfigMap":           {attributes: plain, differ: account, maps: identity.ByPod},
		"another service account, a ConfigMap that the driver reads": {attributes: plain, differ: account, maps: identity.ByDriver},
		"nothing": {attributes: plain, differ: equal, areShared: true},
	}
	for name, tt := range tests {
		bubbleSharedCase(t, name, func(n *node) {
			for _, ref := range []api.Ref{web, tls, shared} {
				n.cluster.set(ref, "a", "1")
			}
			n.maps = cmp.Or(tt.maps, n.maps)
			d := n.start()
			first, second, third := n.replica("first", tt.attributes), n.replica("second", tt.attributes), n.replica("third", tt.attributes)
			tt.differ(&second)
			for _, r := range []state.Record{first, second, third} {
				d.publish(r)
			}
			n.wantSharing(tt.areShared, first, second)
			n.wantSharing(tt.attributes[api.KeyUpdatePolicy] == "", first, third)
		})
	}
}

// TestANewcomerGetsTheContentOfNow although the volume that it would share has not. The newest is the one to join.
func TestANewcomerGetsTheContentOfNow(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		begin     func(n *node) (end func())
		areShared bool
	}{
		"a projection that cannot be written": {func(n *node) func() {
			n.faults.set("open", syscall.EIO)
			n.set(web, "a", "2")
			return n.faults.mend
		}, false},
		"a projection that is busy for long": {func(n *node) func() {
			resume := n.faults.hang("open")
			n.set(web, "a", "2")
			return resume
		}, false},
		"a change that is not written yet": {func(n *node) func() {
			n.cluster.slip(web, "a", "2")
			return func() {}
		}, true},
	}
	for name, tt := range tests {
		bubbleSharedCase(t, name, func(n *node) {
			d, old := n.published()
			end := tt.begin(n)
			newcomer, next := n.replica("newcomer", configMap("web")), n.replica("next", configMap("web"))
			d.publish(newcomer)
			n.wantFiles(newcomer, map[string]string{"a": "2"})
			if tt.areShared {
				n.wantFiles(old, map[string]string{"a": "2"})
			}
			n.wantSharing(tt.areShared, old, newcomer)
			end()
			d.publish(next)
			n.wantShared(newcomer, next)
			n.cluster.set(web, "a", "3")
			pass(2 * time.Minute)
			n.wantEach(map[string]string{"a": "3"}, old, newcomer, next)
			n.wantSharing(tt.areShared, old, newcomer)
		})
	}
}

// TestDamageIsMendedOnceForAll, and a volume that somebody unmounts shows, beside others that stay.
func TestDamageIsMendedOnceForAll(t *testing.T) {
	bubbleShared(t, func(n *node) {
		d, _ := n.ready()
		all := d.replicas(3, configMap("web"))
		n.damage(all[1], func(root *os.Root) error { return root.Remove("a") })
		n.seen.forget()
		d.publish(all[2])
		pass(settling)
		n.wantEach(map[string]string{"a": "1"}, all...)
		wantSame(n, "syncs that wrote", 1, n.seen.results()[volume.ResultWritten])

		n.must(n.mounts.FS.Unmount(all[0].TargetPath))
		pass(2 * resyncInterval)
		n.wantProblem(all[0], "open volume at "+all[0].TargetPath+": no volume is mounted")
		n.wantProblem(all[1], "")
		view, err := n.mounts.FS.Create(volumefs.Limits{Bytes: 1 << 16, Inodes: 8})
		n.must(err)
		n.must(view.Publish(all[0].TargetPath))
		n.must(view.Close())
		pass(2 * resyncInterval)
		n.wantProblem(all[0], all[0].TargetPath+" has the files of another volume")
		n.must(n.mounts.FS.Unmount(all[0].TargetPath))
		d.publish(all[0]) // The kubelet's repeat mends it.
		pass(settling)
		n.wantShared(all...)
		n.wantProblem(all[0], "")
	})
}

// TestReplicasComeAndGoWhileTheObjectChanges, for the race detector.
func TestReplicasComeAndGoWhileTheObjectChanges(t *testing.T) {
	bubbleShared(t, func(n *node) {
		n.cluster.set(web, "a", "0")
		d := n.start()
		var wg sync.WaitGroup
		for i := range 8 {
			r := n.replica(fmt.Sprint("replica-", i), configMap("web"))
			wg.Go(func() {
				for range 20 {
					if err := d.Publish(n.ctx, r, access.Token{}); err != nil {
						n.Errorf("Publish(%s) = %v, want nil", r.VolumeID, err)
					}
					<-time.After(latency / 3)
					if err := d.Unpublish(n.ctx, r.VolumeID, r.TargetPath); err != nil {
						n.Errorf("Unpublish(%s) = %v, want nil", r.VolumeID, err)
					}
				}
			})
		}
		for i := range 40 {
			n.cluster.set(web, "a", fmt.Sprint(i))
			<-time.After(latency / 2)
		}
		wg.Wait()
		pass(settling)
	})
}
