package volume_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/budget"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/source"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/state"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/volume"
)

const sourceAttribute = "trusted.liveconfig.source"

// The namespaces of these tests, as the refs of their config maps.
var (
	allOfOne = api.Ref{Kind: api.ConfigMap, Namespace: "one"}
	allOfTwo = api.Ref{Kind: api.ConfigMap, Namespace: "two"}
)

// selectIn sets objects of the namespaces one and two, older ones first, and returns a volume that selects them.
func (n *node) selectIn(fields string, more map[string]string) (*driver, state.Record) {
	n.Helper()
	for i, object := range []api.Ref{mapIn("one", "a"), mapIn("two", "b"), mapIn("two", "c")} {
		n.set(object, "of-"+object.Name, "1", "same", object.Name)
		n.label(object, 9-i, "")
	}
	attributes := selecting(", namespaces: [one, two]" + fields)
	maps.Copy(attributes, more)
	return n.live(attributes)
}

// denyOverRestart starts the driver again, while the namespace one is denied.
func (n *node) denyOverRestart(d *driver, whileStopped func()) *driver {
	n.Helper()
	n.fail(allOfOne, forbidden(mapIn("one", "a")))
	d.stop()
	whileStopped()
	d = n.start()
	pass(time.Minute)
	return d
}

// wantGoneOn checks the files of a volume with denied objects. Where tests run in a user namespace, which has no right to
// keep the sources of files, all of them are as they were.
func (n *node) wantGoneOn(r state.Record, want, before map[string]string) {
	n.Helper()
	file := filepath.Join(n.dir, "file")
	n.must(os.WriteFile(file, nil, 0o600))
	if unix.Setxattr(file, sourceAttribute, []byte("x"), 0) != nil {
		want = before
	}
	n.wantFiles(r, want)
}

// TestOthersGoOnAfterARestart, however the files are written and what they are called. What the denied namespace had selected
// stays as long as it is denied, also over more restarts.
func TestOthersGoOnAfterARestart(t *testing.T) {
	t.Parallel()
	for name, more := range map[string]map[string]string{
		"Atomic":       {},
		"Replace":      {api.KeyUpdatePolicy: "Replace"},
		"InPlace":      {api.KeyUpdatePolicy: "InPlace"},
		"mount points": {api.KeyMountPoints: "[mounted]"},
	} {
		bubbleCase(t, name, func(n *node) {
			d, r := n.selectIn("", more)
			before := map[string]string{"of-a": "1", "of-b": "1", "of-c": "1", "same": "a"}
			n.wantFiles(r, before)
			d = n.denyOverRestart(d, func() {
				n.set(mapIn("two", "b"), "of-b", "2", "same", "b")
				n.remove(mapIn("two", "c"))
			})
			n.wantGoneOn(r, map[string]string{"of-a": "1", "of-b": "2", "same": "a"}, before)
			d.stop()
			n.set(mapIn("two", "b"), "of-b", "3", "same", "b")
			d = n.start()
			pass(time.Minute)
			n.wantGoneOn(r, map[string]string{"of-a": "1", "of-b": "3", "same": "a"}, before)
			n.remove(mapIn("one", "a"))
			n.fail(allOfOne, nil)
			pass(time.Minute)
			n.wantFiles(r, map[string]string{"of-b": "3", "same": "b"})
			d.unpublish(r)
			n.wantNoUsers()
		})
	}
}

// TestFoldersAreRecalled with their files, and a file of an object with a name stays its own.
func TestFoldersAreRecalled(t *testing.T) {
	bubble(t, func(n *node) {
		a, b := mapIn("one", "a"), mapIn("two", "b")
		n.set(web, "k", "1")
		n.set(a, "k", "1")
		n.label(a, 1, "team/x")
		n.set(b, "k", "1")
		n.label(b, 1, "")
		d, r := n.live(map[string]string{api.KeySources: `
- configMap: {name: web, items: [{key: k, path: one/k}]}
- configMap: {labelSelector: {}, namespaces: [one, two], path: $(namespace)/$(key), folderAnnotation: folder}`})
		before := map[string]string{"one/k": "1", "team/x/one/k": "1", "two/k": "1"}
		n.wantFiles(r, before)
		n.denyOverRestart(d, func() {
			n.set(web, "k", "2")
			n.set(b, "k", "2")
		})
		n.wantGoneOn(r, map[string]string{"one/k": "2", "team/x/one/k": "1", "two/k": "2"}, before)
	})
}

// TestFilesOfUnknownSourcesStay: an earlier version of the driver did not keep the sources, and not each kernel can.
func TestFilesOfUnknownSourcesStay(t *testing.T) {
	bubble(t, func(n *node) {
		d, r := n.selectIn("", nil)
		before := n.files(r.TargetPath)
		n.denyOverRestart(d, func() {
			n.set(mapIn("two", "b"), "of-b", "2")
			n.damage(r, func(root *os.Root) error {
				file, err := root.Open("..data/of-c")
				if err == nil {
					// This fails in a user namespace, where the file never had the attribute.
					_ = unix.Fremovexattr(int(file.Fd()), sourceAttribute)
					err = file.Close()
				}
				return err
			})
		})
		n.wantFiles(r, before)
		n.fail(allOfOne, nil)
		pass(time.Minute)
		wantSame(n, "file of-b", "2", n.files(r.TargetPath)["of-b"])
	})
}

// TestNothingIsRecalledWithoutRoom: all files stay.
func TestNothingIsRecalledWithoutRoom(t *testing.T) {
	bubble(t, func(n *node) {
		d, r := n.selectIn("", nil)
		before := n.files(r.TargetPath)
		n.fail(allOfOne, forbidden(mapIn("one", "a")))
		d.stop()
		n.set(mapIn("two", "b"), "of-b", "2")
		n.start(func(c *volume.Config) { c.Room = budget.New(1).Part(func(int64) {}) })
		pass(time.Minute)
		n.wantFiles(r, before)
	})
}

// TestAllNamespacesAreDeniedOverARestart: all files stay, and all go on when one is allowed.
func TestAllNamespacesAreDeniedOverARestart(t *testing.T) {
	bubble(t, func(n *node) {
		d, r := n.selectIn(", path: $(namespace)/$(name)/$(key)", nil)
		before := n.files(r.TargetPath)
		n.fail(allOfTwo, forbidden(mapIn("two", "b")))
		n.denyOverRestart(d, func() {
			n.set(mapIn("one", "a"), "of-a", "2", "same", "a")
			n.set(mapIn("two", "b"), "of-b", "2", "same", "b")
		})
		n.wantFiles(r, before)
		n.fail(allOfTwo, nil)
		pass(time.Minute)
		want := n.files(r.TargetPath)
		want["two/b/of-b"] = "2"
		n.wantGoneOn(r, want, before)
		wantSame(n, "file of the denied namespace", "1", n.files(r.TargetPath)["one/a/of-a"])
	})
}

// TestADenialOverARestartIsDoubtedAtFirst: the others go on at once, and there is no Event before the denial counts. Then the files
// follow onDelete.
func TestADenialOverARestartIsDoubtedAtFirst(t *testing.T) {
	t.Parallel()
	for _, onDelete := range []api.OnDelete{api.OnDeleteKeep, api.OnDeleteRemove} {
		bubbleCase(t, string(onDelete), func(n *node) {
			d, r := n.selectIn("", map[string]string{api.KeyOnDelete: string(onDelete)})
			before := n.files(r.TargetPath)
			n.cluster.doubt(allOfOne)
			n.denyOverRestart(d, func() {
				n.seen.forget()
				n.set(mapIn("two", "b"), "of-b", "2", "same", "b")
			})
			n.wantGoneOn(r, map[string]string{"of-a": "1", "of-b": "2", "of-c": "1", "same": "a"}, before)
			for _, event := range n.seen.all() {
				if event.Reason == volume.ReasonAccessLost {
					n.Errorf("Event %s before the denial counts", event.Note)
				}
			}
			n.cluster.believe(allOfOne)
			pass(time.Minute)
			if onDelete == api.OnDeleteRemove {
				n.wantFiles(r, map[string]string{"of-b": "2", "of-c": "1", "same": "b"})
				return
			}
			n.wantGoneOn(r, map[string]string{"of-a": "1", "of-b": "2", "of-c": "1", "same": "a"}, before)
			if problem := n.problemOf(r); !strings.Contains(problem, "list-configmaps") {
				n.Errorf("problem = %s, want it with the role that is missing", problem)
			}
		})
	}
}

// TestAVolumeOfADeniedNamespaceIsNotEmptied: the selection needs an object, and what is left of it has none.
func TestAVolumeOfADeniedNamespaceIsNotEmptied(t *testing.T) {
	bubble(t, func(n *node) {
		b := mapIn("two", "b")
		n.set(b, "of-b", "1")
		n.label(b, 1, "")
		d, r := n.live(selecting(", namespaces: [one, two]"))
		n.denyOverRestart(d, func() { n.remove(b) })
		n.wantFiles(r, map[string]string{"of-b": "1"})
		if problem := n.problemOf(r); !strings.Contains(problem, "list-configmaps") {
			n.Errorf("problem = %s, want it with the role that is missing", problem)
		}
	})
}

// TestAnObjectIsReplacedWhileADenialEnds: its files stay, as after a restart.
func TestAnObjectIsReplacedWhileADenialEnds(t *testing.T) {
	bubble(t, func(n *node) {
		d, r := n.selectIn("", nil)
		before := n.files(r.TargetPath)
		n.denyOverRestart(d, func() {})
		changed := n.cluster.notify(func(source.Key) {})
		n.cluster.remove(mapIn("one", "a"))
		n.cluster.notify(changed)
		n.cluster.fail(allOfOne, nil)
		pass(source.AbsenceTime / 2)
		n.wantFiles(r, before)
		n.set(mapIn("one", "a"), "of-a", "2", "same", "a")
		pass(2 * source.AbsenceTime)
		before["of-a"] = "2"
		n.wantFiles(r, before)
	})
}

// TestObjectsThatSeveralSourcesHaveAreCountedOnce, as those that are read.
func TestObjectsThatSeveralSourcesHaveAreCountedOnce(t *testing.T) {
	bubble(t, func(n *node) {
		for i := range source.MaxSelected - 1 {
			ref := mapIn("one", fmt.Sprintf("o-%d", i))
			n.cluster.set(ref, ref.Name, "1")
			n.cluster.change(ref, func() { n.cluster.members[ref] = source.Member{} })
		}
		b := mapIn("two", "b")
		n.set(b, "of-b", "1")
		n.label(b, 1, "")
		d, r := n.live(map[string]string{api.KeySources: `
- configMap: {labelSelector: {}, namespaces: [one, two]}
- configMap: {labelSelector: {}, namespaces: [one, two], path: all/$(namespace)/$(key)}`})
		before := n.files(r.TargetPath)
		n.denyOverRestart(d, func() { n.set(b, "of-b", "2") })
		want := maps.Clone(before)
		want["of-b"], want["all/two/of-b"] = "2", "2"
		n.wantGoneOn(r, want, before)
	})
}

// TestALongFolderElsewhere: only what the denied namespace has need be known.
func TestALongFolderElsewhere(t *testing.T) {
	bubble(t, func(n *node) {
		long := strings.Repeat(strings.Repeat("long", 50)+"/", 5) + "end"
		for _, object := range []api.Ref{mapIn("one", "a"), mapIn("two", "b")} {
			n.set(object, object.Name, "1")
			n.label(object, 1, map[string]string{"b": long}[object.Name])
		}
		d, r := n.live(selecting(", namespaces: [one, two], folderAnnotation: folder"))
		before := n.files(r.TargetPath)
		n.denyOverRestart(d, func() { n.set(mapIn("two", "b"), "b", "2") })
		n.wantGoneOn(r, map[string]string{"a": "1", long + "/b": "2"}, before)
	})
}

// TestAReleaseTogetherWithADeniedObject: the files of both stay until the release ends, whichever of them the pod has.
func TestAReleaseTogetherWithADeniedObject(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{"the pod has the stable content": "1", "the pod has the candidate": "2"} {
		bubbleCase(t, name, func(n *node) {
			releaseBoth := func(threshold float64) {
				for ref, e := range together("2", threshold) {
					n.cluster.stabilize(ref, e, ref.Name, "1")
				}
				pass(settling)
			}
			for _, ref := range []api.Ref{web, other} {
				n.cluster.edit(ref, ref.Name, "2")
			}
			n.label(other, 1, "")
			releaseBoth(float64(value[0] - '1'))
			d, r := n.live(map[string]string{api.KeySources: "[{configMap: {name: web}}, {configMap: {labelSelector: {}}}]"})
			before := map[string]string{"web": value, "other": value}
			n.wantFiles(r, before)
			n.fail(api.Ref{Kind: api.ConfigMap, Namespace: "default"}, forbidden(other))
			d.stop()
			releaseBoth(float64('2' - value[0]))
			n.start()
			pass(time.Minute)
			n.wantFiles(r, before)
			n.cluster.promoteTogether(web, together("2", 1)[web], "web", "2")
			pass(time.Minute)
			n.wantGoneOn(r, map[string]string{"web": "2", "other": value}, before)
		})
	}
}
