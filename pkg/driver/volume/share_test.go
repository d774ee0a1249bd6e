package volume_test

import (
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
		t.Run(string(policy), func(t *testing.T) {
			bubbleShared(t, func(n *node) {
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

// TestVolumesThatMustNotShare: everything that decides about the files, and who may read them.
func TestVolumesThatMustNotShare(t *testing.T) {
	t.Parallel()
	attributes := func(more ...string) func(n *node, r *state.Record) {
		return func(_ *node, r *state.Record) {
			for i := 0; i < len(more); i += 2 {
				r.Attributes[more[i]] = more[i+1]
			}
		}
	}
	both := func(key, value string) map[string]string { return configMap("web", key, value) }
	group := 7
	empty := map[string]string{api.KeySources: "[]"}
	tests := map[string]struct {
		attributes map[string]string // Of the first volume, if not the plain ones.
		differ     func(n *node, r *state.Record)
	}{
		"another namespace, although there is nothing to read": {empty, func(_ *node, r *state.Record) {
			r.Attributes, r.Pod.Namespace = empty, "other"
		}},
		"another mode":         {nil, attributes(api.KeyDefaultMode, "0600")},
		"another owner":        {nil, attributes(api.KeyUID, "7")},
		"another group":        {nil, attributes(api.KeyGID, "7")},
		"another fsGroup":      {nil, func(_ *node, r *state.Record) { r.FSGroup = &group }},
		"other items":          {nil, attributes(api.KeyItems, "[{key: a, path: b}]")},
		"optional":             {nil, attributes(api.KeyOptional, "true")},
		"one file":             {nil, func(_ *node, r *state.Record) { r.Attributes = asFile("a", api.FormatJSON) }},
		"another onDelete":     {nil, attributes(api.KeyOnDelete, string(api.OnDeleteRemove))},
		"another updatePolicy": {nil, attributes(api.KeyUpdatePolicy, string(api.UpdateReplace))},
		"InPlace":              {both(api.KeyUpdatePolicy, string(api.UpdateInPlace)), attributes(api.KeyUpdatePolicy, string(api.UpdateInPlace))},
		"Never":                {both(api.KeyUpdatePolicy, string(api.UpdateNever)), attributes(api.KeyUpdatePolicy, string(api.UpdateNever))},
		"another namespace of the pod": {secret(shared), func(n *node, r *state.Record) {
			r.Attributes, r.Pod.Namespace = secret(shared), "other"
		}},
		"another service account that reads": {secret(shared), func(n *node, r *state.Record) {
			r.Attributes, r.Pod.ServiceAccount = secret(shared), "other"
		}},
		"another service account, a Secret that the driver reads": {
			map[string]string{api.KeySecret: tls.Name}, func(n *node, r *state.Record) {
				r.Attributes, r.Pod.ServiceAccount = map[string]string{api.KeySecret: tls.Name}, "other"
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			bubbleShared(t, func(n *node) {
				for _, ref := range []api.Ref{web, tls, shared} {
					n.cluster.set(ref, "a", "1")
				}
				d := n.start()
				if tt.attributes == nil {
					tt.attributes = configMap("web")
				}
				first, second := n.replica("first", tt.attributes), n.replica("second", configMap("web"))
				tt.differ(n, &second)
				d.publish(first)
				d.publish(second)
				n.wantAlone(first, second)
				third := n.replica("third", tt.attributes)
				d.publish(third)
				if tt.attributes[api.KeyUpdatePolicy] == "" {
					n.wantShared(first, third)
				} else {
					n.wantAlone(first, third)
				}
			})
		})
	}
}

// TestPodsOfOtherServiceAccountsShareAConfigMap that the driver reads for every pod of the namespace,
// and not one that each pod reads with its own token.
func TestPodsOfOtherServiceAccountsShareAConfigMap(t *testing.T) {
	t.Parallel()
	for reader, isShared := range map[access.Reader]bool{access.ByDriver: true, access.ByPod: false} {
		t.Run(string(reader), func(t *testing.T) {
			bubbleShared(t, func(n *node) {
				n.maps = reader
				d, _ := n.ready()
				first, second := n.replica("first", configMap("web")), n.replica("second", configMap("web"))
				second.Pod.ServiceAccount = "other"
				d.publish(first)
				d.publish(second)
				if isShared {
					n.wantShared(first, second)
				} else {
					n.wantAlone(first, second)
				}
			})
		})
	}
}

// TestANewcomerGetsTheContentOfNow although the volume that it would share has not: it cannot be
// written, or keeps the files of an object that was deleted.
func TestANewcomerGetsTheContentOfNow(t *testing.T) {
	t.Parallel()
	t.Run("a projection that cannot be written", func(t *testing.T) {
		bubbleShared(t, func(n *node) {
			d, old := n.published()
			n.faults.set("open", syscall.EIO)
			n.set(web, "a", "2")
			newcomer := n.replica("newcomer", configMap("web"))
			d.publish(newcomer)
			n.wantFiles(newcomer, map[string]string{"a": "2"})
			n.wantAlone(old, newcomer)
			n.faults.set("open", nil)
			next := n.replica("next", configMap("web"))
			d.publish(next)
			n.wantShared(newcomer, next) // The newest is the one to join.
			n.cluster.set(web, "a", "3")
			pass(2 * time.Minute)
			for _, r := range []state.Record{old, newcomer, next} {
				n.wantFiles(r, map[string]string{"a": "3"})
			}
		})
	})
	t.Run("a change that is not written yet", func(t *testing.T) {
		bubbleShared(t, func(n *node) {
			d, old := n.published()
			n.cluster.slip(web, "a", "2")
			newcomer := n.replica("newcomer", configMap("web"))
			d.publish(newcomer)
			n.wantFiles(newcomer, map[string]string{"a": "2"})
			n.wantFiles(old, map[string]string{"a": "2"})
			n.wantShared(old, newcomer)
		})
	})
	t.Run("a projection that is busy for long", func(t *testing.T) {
		bubbleShared(t, func(n *node) {
			d, old := n.published()
			release := n.faults.hang("open")
			n.set(web, "a", "2")
			newcomer := n.replica("newcomer", configMap("web"))
			d.publish(newcomer)
			n.wantFiles(newcomer, map[string]string{"a": "2"})
			release()
			pass(settling)
			n.wantAlone(old, newcomer)
		})
	})
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
