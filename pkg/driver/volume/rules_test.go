package volume_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/statusz"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/volume"
)

// TestOnlyAbsenceIsForgiven is rule 7 for a live volume (trap 1): whatever else keeps an optional source from being
// read, before or after a restart of the driver, the files stay; its absence takes them away. Only who asks for it loses
// the files with the access.
func TestOnlyAbsenceIsForgiven(t *testing.T) {
	t.Parallel()
	tests := map[string]error{
		"access is denied":           forbidden(web),
		"the token has expired":      apierrors.NewUnauthorized("token expired"),
		"the API server is too busy": apierrors.NewTooManyRequests("later", 1),
		"the request times out":      apierrors.NewTimeoutError("too slow", 1),
		"nobody answers":             errors.New("connection refused"),
	}
	for name, trouble := range tests {
		bubbleCase(t, name, func(n *node) {
			onDelete := api.OnDeleteRemove
			if apierrors.IsForbidden(trouble) {
				onDelete = api.OnDeleteKeep
			}
			d, r := n.published(api.KeyOptional, "true", api.KeyOnDelete, string(onDelete))
			files := map[string]string{"a": "1"}
			problem := "configmap default/web cannot be read: " + trouble.Error()
			if apierrors.IsForbidden(trouble) {
				problem += driversRights("default")
			}
			n.cluster.fail(web, trouble)
			pass(2 * resyncInterval)
			n.wantShown(r, files, problem)
			d = d.restart()
			d.publish(r)
			pass(2 * resyncInterval)
			n.wantShown(r, files, problem)
			n.cluster.fail(web, nil)
			n.wantUpdate(r, "2")
			n.remove(web)
			n.wantShown(r, map[string]string{}, "")
		})
	}
}

// TestARestartDuringAnOutageEmptiesNothing is rule 58 for a live optional volume: no answer is not absence.
func TestARestartDuringAnOutageEmptiesNothing(t *testing.T) {
	bubble(t, func(n *node) {
		d, r := n.published(api.KeyOptional, "true")
		n.cluster.errs[web] = errSilent
		d = d.restart()
		d.publish(r)
		pass(2 * resyncInterval)
		n.wantFiles(r, map[string]string{"a": "1"})
	})
}

// TestOneBadSourceFreezesTheVolume is rule 11 for a live volume (trap 2): while a required source is missing, the
// changes of the others wait, and then all come at once.
func TestOneBadSourceFreezesTheVolume(t *testing.T) {
	bubble(t, func(n *node) {
		n.cluster.set(web, "a", "1")
		n.cluster.set(tls, "key", "k1")
		_, r := n.live(sources("{configMap: {name: web}}, {secret: {name: tls}}"))
		old := map[string]string{"a": "1", "key": "k1"}
		n.remove(tls)
		n.set(web, "a", "2")
		n.wantShown(r, old, `secret "tls" not found`)
		n.remove(web)
		n.wantShown(r, old, `[configmap "web" not found, secret "tls" not found]`)
		n.set(web, "a", "3")
		n.wantFiles(r, old)
		n.set(tls, "key", "k2")
		n.wantShown(r, map[string]string{"a": "3", "key": "k2"}, "")
	})
}

// TestOptionalItemsTakeTurns is where rules 14 and 30 are better than the kubelet (trap 12): of a file and a file below it, one
// exists at a time. One update takes one away and brings the other. This is fault 7.
func TestOptionalItemsTakeTurns(t *testing.T) {
	t.Parallel()
	const conflict = `path "foo" cannot be a file and, for "foo/bar", a directory`
	for _, policy := range []api.UpdatePolicy{api.UpdateAtomic, api.UpdateReplace, api.UpdateInPlace} {
		bubbleCase(t, string(policy), func(n *node) {
			file, dir := map[string]string{"foo": "file"}, map[string]string{"foo/bar": "below"}
			attributes := configMap("web", api.KeyOptional, "true", api.KeyUpdatePolicy, string(policy),
				api.KeyItems, `[{key: a, path: foo}, {key: b, path: foo/bar}]`)
			n.cluster.set(web, "a", "file", "b", "below")
			d, r := n.startFor(attributes)
			d.wantRefused(r, volume.Invalid, conflict)
			n.set(web, "a", "file")
			d.publish(r)
			n.wantFiles(r, file)
			for range 2 {
				n.set(web, "b", "below")
				n.wantFiles(r, dir)
				n.seen.forget()
				n.set(web, "a", "file", "b", "other")
				n.wantShown(r, dir, conflict)
				n.wantReported(`ProjectionFailed: volume "config": the files stay as they are: ` + conflict)
				d = d.restart()
				n.wantFiles(r, dir)
				n.seen.forget()
				n.set(web, "a", "file")
				n.wantShown(r, file, "")
				n.wantReported(`Projected: volume "config": the files are current again`)
			}
		})
	}
}

// TestWhatNoReaderCanSeeKeepsTheGeneration is rule 30 (trap 10): shadowed files, unselected keys and an object that is
// made again are no change that a reader could see. This is fault 8.
func TestWhatNoReaderCanSeeKeepsTheGeneration(t *testing.T) {
	bubble(t, func(n *node) {
		n.cluster.set(web, "a", "1", "b", "shadowed")
		n.cluster.set(tls, "b", "2", "unselected", "x")
		d, r := n.live(sources("{configMap: {name: web}}, {secret: {name: tls, items: [{key: b, path: b}]}}"))
		before := n.generation(r)
		steps := map[string]func(){
			"a shadowed file changes":      func() { n.cluster.set(web, "a", "1", "b", "shadowed 2") },
			"a shadowed file goes":         func() { n.cluster.set(web, "a", "1") },
			"an unselected key changes":    func() { n.cluster.set(tls, "b", "2", "unselected", "y") },
			"a source is deleted":          func() { n.cluster.remove(web) },
			"a source is made as it was":   func() { n.cluster.set(web, "a", "1", "b", "shadowed") },
			"a source cannot be read":      func() { n.cluster.fail(web, errors.New("connection refused")) },
			"a source can be read again":   func() { n.cluster.fail(web, nil) },
			"another version, as it is":    func() { n.cluster.set(web, "a", "1") },
			"both are made as they were":   func() { n.cluster.set(web, "a", "1"); n.cluster.set(tls, "b", "2") },
			"the kubelet repeats itself":   func() { d.publish(r) },
			"the driver is started again":  func() { d = d.restart() },
			"a shadowed file comes":        func() { n.cluster.set(web, "a", "1", "b", "shadowed 3") },
			"the safety net looks at them": func() { pass(2 * resyncInterval) },
		}
		for name, step := range steps {
			step()
			pass(settling)
			wantSame(n, name+": generation", before, n.generation(r))
			n.wantFiles(r, map[string]string{"a": "1", "b": "2"})
		}
		wantSame(n, "written, want 1, at publish", 1, n.seen.results()[volume.ResultWritten])
	})
}

// TestEachSourceMayBringAMegabyte is rule 17: the limit is the object's, and a volume has room for all of its sources,
// twice while an update is under way.
func TestEachSourceMayBringAMegabyte(t *testing.T) {
	bubble(t, func(n *node) {
		const mebibyte = 1 << 20
		extra := api.Ref{Kind: api.ConfigMap, Namespace: "default", Name: "extra"}
		set := func(b string) {
			n.cluster.set(web, "a", strings.Repeat(b, mebibyte))
			n.cluster.set(tls, "b", strings.Repeat(b, mebibyte))
			n.cluster.set(extra, "c", strings.Repeat(b, mebibyte))
		}
		set("1")
		_, r := n.live(sources("{configMap: {name: web}}, {secret: {name: tls}}, {configMap: {name: extra}}"), onKernel)
		for _, b := range []string{"1", "2", "3"} {
			set(b)
			pass(settling)
			n.wantProblem(r, "")
			n.wantNames(r, b)
		}
		sizes := map[string]int{}
		for path, data := range n.files(r.TargetPath) {
			sizes[path] = len(data)
		}
		wantSame(n, "sizes", map[string]int{"a": mebibyte, "b": mebibyte, "c": mebibyte}, sizes)
	})
}

// asFile are the attributes of a volume with one file of all keys of the ConfigMap web.
func asFile(path string, format api.Format) map[string]string {
	return sources(fmt.Sprintf("{configMap: {name: web, as: {path: %s, format: %s}}}", path, format))
}

// TestAFileOfAllKeysFollowsItsSource, and what cannot be in it leaves it as it is, with an Event that names the key alone.
func TestAFileOfAllKeysFollowsItsSource(t *testing.T) {
	bubble(t, func(n *node) {
		n.cluster.set(web, "COLOR", "red")
		d, r := n.live(asFile("conf/app.env", api.FormatDotenv))
		n.wantFiles(r, map[string]string{"conf/app.env": "COLOR='red'\n"})
		n.set(web, "COLOR", "green", "SHAPE", "it's round")
		want := map[string]string{"conf/app.env": "COLOR='green'\nSHAPE='it'\\''s round'\n"}
		n.wantFiles(r, want)
		if got := d.only().Sources[0].As; !cmp.Equal(got, &statusz.As{Path: "conf/app.env", Format: "dotenv"}) {
			n.Errorf("the status says as %v", got)
		}
		n.seen.forget()
		n.set(web, "COLOR", "blue", "log.level", "hunter2")
		n.wantFiles(r, want)
		const text = `configmap "web" does not fit into conf/app.env (dotenv): not the name of a variable ` +
			`(letters, digits and "_", no digit first): log.level; select the keys with items, where a path gives a key another name`
		n.wantProblem(r, text)
		n.wantReported(`ProjectionFailed: volume "config": the files stay as they are: ` + text)
		tries := len(n.seen.outcomes())
		pass(resyncInterval / 2)
		wantSame(n, "tries, want no more: only another content can help", tries, len(n.seen.outcomes()))
		n.set(web, "COLOR", "blue")
		n.wantShown(r, map[string]string{"conf/app.env": "COLOR='blue'\n"}, "")
	})
}

// TestRenderedBytesTakeRoom while they are in memory beside the files, and only then.
func TestRenderedBytesTakeRoom(t *testing.T) {
	const size = 500_000
	bubble(t, func(n *node) {
		n.cluster.set(web, "a", strings.Repeat("x", size))
		room, option := limited(1 << 30)
		d := n.start(option)
		most := int64(0)
		n.faults.on("publish", func() { most = room.Used() })
		r := n.request("config", asFile("a", api.FormatJSON))
		d.publish(r)
		if most < 2*size || most > 2*size+300_000 {
			n.Errorf("Used() = %d before the volume is shown, want what the file takes and what was rendered", most)
		}
		if got := room.Used(); got < size || got > size+100_000 {
			n.Errorf("Used() = %d, want what the file takes", got)
		}
		d.unpublish(r)
		d.stop()

		room, option = limited(2 * size) // Of which three quarters are for newcomers: enough for the file alone.
		d = n.start(option)
		n.faults.on("publish", nil)
		d.wantRefused(r, volume.Exhausted)
		wantSame(n, "Used() after a refusal", 0, room.Used())
	})
}

// TestVolumeHasRoomForWhatIsRendered, old and new together, up to the most there may be. More is refused, and the files stay.
func TestVolumeHasRoomForWhatIsRendered(t *testing.T) {
	bubble(t, func(n *node) {
		const large = 690_000
		n.cluster.set(web, "a", strings.Repeat("\x01", large)) // Six times as much in JSON, which is nearly 4 MiB.
		_, r := n.live(asFile("a", api.FormatJSON), onKernel)
		for _, b := range []string{"\x02", "\x03"} {
			n.set(web, "a", strings.Repeat(b, large))
			n.wantProblem(r, "")
			want := fmt.Sprintf("{\n  \"a\": \"%s\"\n}\n", strings.Repeat(fmt.Sprintf(`\u%04x`, b[0]), large))
			if got := n.files(r.TargetPath)["a"]; got != want {
				n.Errorf("the file has %d bytes, want %d that were rendered", len(got), len(want))
			}
		}
		n.set(web, "a", strings.Repeat("\x04", 700_000))
		n.wantProblem(r, "the files that as makes would have more than 4 MiB together, which is the most for a volume; "+
			"select fewer keys with items")
	})
}
