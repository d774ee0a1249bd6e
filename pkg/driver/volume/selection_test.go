package volume_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/statusz"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/source"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/state"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/volume"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
)

// isIn reports whether an object is one of the whole kind, in a namespace or in all.
func isIn(whole, ref api.Ref) bool {
	return whole.Kind == ref.Kind && (whole.Namespace == "" || whole.Namespace == ref.Namespace)
}

// membersLocked returns the members of a selection, older ones first. c.mu is held.
func (c *cluster) membersLocked(whole api.Ref) (members []source.Member) {
	for ref, m := range c.members {
		content, found := c.objects[ref]
		if found && isIn(whole, ref) {
			m.Content, m.Release = content, c.marks[ref]
			members = append(members, m)
		}
	}
	slices.SortFunc(members, func(a, b source.Member) int {
		return strings.Compare(a.Content.Ref.String(), b.Content.Ref.String())
	})
	return members
}

// label makes an object a member of all selections. Its age is in days.
func (n *node) label(ref api.Ref, age int, folder string) {
	n.cluster.change(ref, func() {
		n.cluster.members[ref] = source.Member{
			Created: time.Unix(1_700_000_000, 0).AddDate(0, 0, -age), Annotations: map[string]string{"folder": folder},
		}
	})
	pass(latency)
}

func (n *node) unlabel(ref api.Ref) {
	n.cluster.change(ref, func() { delete(n.cluster.members, ref) })
	pass(latency)
}

// mapIn returns the ref of a config map.
func mapIn(namespace, name string) api.Ref {
	return api.Ref{Kind: api.ConfigMap, Namespace: namespace, Name: name}
}

// selecting are the attributes of a volume that selects config maps.
func selecting(fields string) map[string]string {
	return map[string]string{api.KeySources: "[{configMap: {labelSelector: {matchLabels: {team: web}}" + fields + "}}]"}
}

func TestSelectedObjectsAreFiles(t *testing.T) {
	bubble(t, func(n *node) {
		a, b := mapIn("default", "a"), mapIn("default", "b")
		n.set(a, "x", "1")
		n.label(a, 1, "")
		_, r := n.live(selecting(", folderAnnotation: folder, path: $(name)-$(key)"))
		n.wantFiles(r, map[string]string{"a-x": "1"})
		n.set(b, "x", "2", "y", "3")
		n.label(b, 1, "team")
		n.wantFiles(r, map[string]string{"a-x": "1", "team/b-x": "2", "team/b-y": "3"})
		n.set(b, "x", "4")
		pass(latency)
		n.wantFiles(r, map[string]string{"a-x": "1", "team/b-x": "4"})
		n.unlabel(a)
		n.wantFiles(r, map[string]string{"team/b-x": "4"})
		n.unlabel(b)
		n.wantShown(r, map[string]string{"team/b-x": "4"}, "no configmap matches labelSelector team=web")
	})
}

func TestNothingMatches(t *testing.T) {
	bubble(t, func(n *node) {
		n.start().wantRefused(n.request("r", selecting("")), volume.Missing, "no configmap matches labelSelector team=web")
	})
}

func TestNothingHasToMatch(t *testing.T) {
	bubble(t, func(n *node) {
		_, r := n.live(selecting(", optional: true"))
		n.wantFiles(r, map[string]string{})
	})
}

func TestSelectedPathsCollide(t *testing.T) {
	bubble(t, func(n *node) {
		a, b := mapIn("default", "a"), mapIn("default", "b")
		n.set(a, "x", "1")
		n.label(a, 1, "")
		_, r := n.live(selecting(""))
		n.set(b, "x", "2")
		n.label(b, 2, "")
		n.wantFiles(r, map[string]string{"x": "2"})
		n.set(b, "x", "3")
		pass(latency)
		want := []string{`volume "config": left out of the selected objects: ` +
			"key x of configmap default/a at path x, which configmap default/b has"}
		wantSame(n, "events", want, n.taken())
	})
}

// TestOneNamespaceIsDenied: its last files stay, and the others go on.
func TestOneNamespaceIsDenied(t *testing.T) {
	bubble(t, func(n *node) {
		a, b := mapIn("one", "a"), mapIn("two", "b")
		n.set(a, "x", "1")
		n.set(b, "y", "1")
		n.label(a, 1, "")
		n.label(b, 1, "")
		_, r := n.live(selecting(", namespaces: [one, two]"))
		n.wantFiles(r, map[string]string{"x": "1", "y": "1"})
		n.fail(api.Ref{Kind: api.ConfigMap, Namespace: "one"}, forbidden(a))
		n.set(b, "y", "2")
		pass(latency)
		n.wantFiles(r, map[string]string{"x": "1", "y": "2"})
		if problem := n.problemOf(r); !strings.Contains(problem, "list-configmaps") {
			n.Errorf("problem = %s, want it with the role that is missing", problem)
		}
	})
}

// TestTooMuchIsSelected: the files stay, and come again when less is selected.
func TestTooMuchIsSelected(t *testing.T) {
	bubble(t, func(n *node) {
		a := mapIn("default", "a")
		n.set(a, "a", "1")
		n.label(a, 1, "")
		d, r := n.live(selecting(""))
		large := strings.Repeat("x", 1_000_000)
		for i := range 17 {
			ref := mapIn("default", fmt.Sprintf("o-%d", i))
			n.cluster.set(ref, ref.Name, large)
			n.cluster.change(ref, func() { n.cluster.members[ref] = source.Member{} })
		}
		pass(latency)
		n.set(a, "a", "2")
		pass(latency)
		const want = "labelSelector selects too much: at least 18 objects with 16.2 MiB, and the most for a volume is 1000 " +
			"objects and 16 MiB; select fewer, or use more volumes"
		if problem := n.problemOf(r); problem != want {
			n.Errorf("problem = %s, want %s", problem, want)
		}
		reasons := 0
		for _, e := range n.seen.all() {
			if e.Reason == volume.ReasonTooMuch {
				reasons++
			}
		}
		wantSame(n, "events TooMuchSelected", 1, reasons)
		d.wantRefused(n.request("second", selecting("")), volume.Exhausted, want)
		n.unlabel(mapIn("default", "o-0"))
		pass(time.Minute)
		wantSame(n, "file a", "2", n.files(r.TargetPath)["a"])
	})
}

// TestAnotherVolumeOfASourceInTrouble gets its files, as far as they are known, and a report of the problem without waiting for
// another change.
func TestAnotherVolumeOfASourceInTrouble(t *testing.T) {
	bubble(t, func(n *node) {
		d, _ := n.published()
		n.fail(web, &source.TooMuchError{Objects: 1001})
		pass(settling)
		n.wantReportedOnce("TooMuchSelected: ")
		n.seen.forget()
		late := n.replica("late", configMap("web"))
		d.publish(late)
		n.volumes = append(n.volumes, late)
		pass(settling)
		n.wantFiles(late, map[string]string{"a": "1"})
		n.wantReportedOnce("TooMuchSelected: ")
	})
}

// TestTooMuchIsSelectedTogether: the limit is that of the volume, however many selections have its objects.
func TestTooMuchIsSelectedTogether(t *testing.T) {
	bubble(t, func(n *node) {
		first := mapIn("one", "o-0")
		n.set(first, "a", "1")
		n.label(first, 1, "")
		_, r := n.live(selecting(", namespaces: [one, two], path: $(namespace)/$(name)/$(key)"))
		for i := range source.MaxSelected {
			ref := mapIn([]string{"one", "two"}[i%2], fmt.Sprintf("o-%d", i+1))
			n.cluster.set(ref, "a", "1")
			n.cluster.change(ref, func() { n.cluster.members[ref] = source.Member{} })
		}
		n.set(first, "a", "2")
		pass(settling)
		wantSame(n, "file one/o-0/a", "1", n.files(r.TargetPath)["one/o-0/a"])
		const want = "labelSelector selects too much: at least 1001 objects"
		if problem := n.problemOf(r); !strings.HasPrefix(problem, want) {
			n.Errorf("problem = %s, want %s", problem, want)
		}
		n.unlabel(mapIn("two", "o-2"))
		pass(settling)
		if files := n.files(r.TargetPath); len(files) != source.MaxSelected || files["one/o-0/a"] != "2" {
			n.Errorf("%d files, of which one has %s, want %d and the newest", len(files), files["one/o-0/a"], source.MaxSelected)
		}
	})
}

// TestANamespaceIsDeniedOverARestart: the files show which of them belong to the denied namespace. They stay, and the others go on.
func TestANamespaceIsDeniedOverARestart(t *testing.T) {
	bubble(t, func(n *node) {
		a, b := mapIn("one", "a"), mapIn("two", "b")
		n.set(a, "x", "1")
		n.set(b, "y", "1")
		n.label(a, 1, "")
		n.label(b, 1, "")
		d, r := n.live(selecting(", namespaces: [one, two]"))
		n.fail(api.Ref{Kind: api.ConfigMap, Namespace: "one"}, forbidden(a))
		d.stop()
		d = n.start()
		n.set(b, "y", "2")
		pass(time.Minute)
		n.wantGoneOn(r, map[string]string{"x": "1", "y": "2"}, map[string]string{"x": "1", "y": "1"})
		if problem := n.problemOf(r); !strings.Contains(problem, "list-configmaps") {
			n.Errorf("problem = %s, want it with the role that is missing", problem)
		}
		n.fail(api.Ref{Kind: api.ConfigMap, Namespace: "one"}, nil)
		pass(time.Minute)
		n.wantFiles(r, map[string]string{"x": "1", "y": "2"})
		d.unpublish(r)
		n.wantNoUsers()
	})
}

// problemOf returns the text of the problem of a volume.
func (n *node) problemOf(r state.Record) string {
	n.Helper()
	problem, err := n.driver.Condition(r.VolumeID, r.TargetPath)
	n.must(err)
	return fmt.Sprint(problem)
}

// TestAReleasedMember: its stable copy decides, also if it joins or leaves the selection later.
func TestAReleasedMember(t *testing.T) {
	bubble(t, func(n *node) {
		n.cluster.edit(web, "a", "2")
		n.cluster.stabilize(web, release.Exposure{}, "a", "1")
		n.label(web, 1, "")
		d, r := n.live(selecting(", optional: true"))
		n.wantFiles(r, map[string]string{"a": "1"})
		n.cluster.edit(web, "a", "3")
		pass(settling)
		n.wantFiles(r, map[string]string{"a": "1"})
		n.cluster.stabilize(web, release.Exposure{}, "a", "3")
		pass(settling)
		n.wantFiles(r, map[string]string{"a": "3"})
		n.unlabel(web)
		pass(settling)
		n.wantFiles(r, map[string]string{})
		if users := n.cluster.users()[webStable]; users != 0 {
			n.Errorf("the stable copy has %d users, want none", users)
		}
		n.label(web, 1, "")
		pass(settling)
		n.wantFiles(r, map[string]string{"a": "3"})
		d.unpublish(r)
		n.wantNoUsers()
	})
}

// TestSelectionsOverARestart: the first sync waits for objects that are being replaced.
func TestSelectionsOverARestart(t *testing.T) {
	bubble(t, func(n *node) {
		a, b := mapIn("default", "a"), mapIn("default", "b")
		n.set(a, "a", "1")
		n.set(b, "b", "1")
		n.label(a, 1, "")
		n.label(b, 1, "")
		d, r := n.live(selecting(""))
		changed := n.cluster.notify(func(source.Key) {}) // The driver is about to end.
		n.cluster.remove(b)
		n.cluster.notify(changed)
		d.stop()
		d = n.start()
		pass(source.AbsenceTime / 2)
		n.wantFiles(r, map[string]string{"a": "1", "b": "1"})
		n.set(b, "b", "2")
		pass(2 * source.AbsenceTime)
		n.wantFiles(r, map[string]string{"a": "1", "b": "2"})
		d.unpublish(r)
		n.wantNoUsers()
	})
}

func TestVolumesOfOneSelectionShareTheirFiles(t *testing.T) {
	bubbleShared(t, func(n *node) {
		n.set(web, "a", "1")
		n.label(web, 1, "")
		all := n.start().replicas(2, selecting(""))
		n.wantShared(all...)
		n.set(web, "a", "2")
		pass(settling)
		n.wantEach(map[string]string{"a": "2"}, all...)
	})
}

// TestStatusOfSelections: the versions are of all members, and a released member is listed beside them.
func TestStatusOfSelections(t *testing.T) {
	bubble(t, func(n *node) {
		n.cluster.edit(web, "a", "2")
		n.cluster.stabilize(web, release.Exposure{}, "a", "1")
		n.label(web, 1, "")
		other := mapIn("default", "other")
		n.set(other, "o", "1")
		n.label(other, 2, "")
		d, _ := n.live(selecting(", path: $(name)-$(key)"))
		look := func() (selection, member statusz.Source) {
			all := d.Status(func(api.Pod) bool { return true })
			sources := all[0].Sources
			if len(sources) != 2 || sources[0].Name != "[team=web]" || sources[1].Name != web.Name {
				n.Fatalf("sources = %+v, want the selection and the released member", sources)
			}
			return sources[0], sources[1]
		}
		selection, member := look()
		if selection.Objects == nil || *selection.Objects != 2 || selection.Known == nil || *selection.Projected == *selection.Known {
			n.Errorf("selection = %+v, want two objects, and another version in the files than is known", selection)
		}
		if member.Release == nil || member.Release.IsShown || member.Projected == nil || *member.Projected != member.Release.Stable {
			n.Errorf("member = %+v, want the stable copy in the files", member)
		}
		n.cluster.stabilize(web, release.Exposure{}, "a", "2")
		pass(settling)
		if selection, member = look(); *selection.Projected != *selection.Known || !member.Release.IsShown {
			n.Errorf("selection = %+v, member = %+v, want both current", selection, member)
		}
	})
}

// TestFilesThatStayInABurst of edits, which have to wait for the grace of the files before, keep their inodes.
func TestFilesThatStayInABurst(t *testing.T) {
	bubble(t, func(n *node) {
		n.keepFileTime()
		a, b := mapIn("default", "a"), mapIn("default", "b")
		n.cluster.set(a, "x", strings.Repeat("x", 800_000))
		n.label(a, 1, "")
		n.cluster.set(b, "y", "1")
		n.label(b, 1, "")
		_, r := n.live(selecting(""))
		x := n.inodeOf(r, "..data/x")
		n.cluster.set(b, "y", "2")
		pass(latency)
		n.passChange(filepath.Join(r.TargetPath, "..data"))
		for _, value := range []string{"3", "4", "5"} {
			n.cluster.set(b, "y", value)
			pass(latency)
			wantSame(n, "file y in the burst", "2", n.files(r.TargetPath)["y"])
		}
		pass(settling)
		wantSame(n, "file y after the burst", "5", n.files(r.TargetPath)["y"])
		if n.inodeOf(r, "..data/x") != x {
			n.Error("after edits of y, x is another inode")
		}
	})
}

// TestAnEditOfOneSelectedObject: the files of the others stay the same inodes. One that a container has changed is put right
// when the driver looks at the files afterwards.
func TestAnEditOfOneSelectedObject(t *testing.T) {
	bubble(t, func(n *node) {
		a, b := mapIn("default", "a"), mapIn("default", "b")
		n.set(a, "x", "1")
		n.label(a, 1, "")
		n.set(b, "y", "1")
		n.label(b, 1, "")
		_, r := n.live(selecting(""))
		x, y := n.inodeOf(r, "..data/x"), n.inodeOf(r, "..data/y")
		n.set(a, "x", "2")
		pass(latency)
		if n.inodeOf(r, "..data/x") == x {
			n.Error("after an edit of x, x is the same inode")
		}
		if n.inodeOf(r, "..data/y") != y {
			n.Error("after an edit of x, y is another inode")
		}
		n.damage(r, func(root *os.Root) error { return root.WriteFile("y", []byte("other"), 0) })
		n.set(a, "x", "3")
		pass(time.Second)
		n.wantFiles(r, map[string]string{"x": "3", "y": "1"})
	})
}
