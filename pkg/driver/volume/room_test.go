package volume_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/identity"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/budget"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/source"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/state"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/volume"
)

func roomy() volume.Room { return budget.New(1 << 40).Part(func(int64) {}) }

// limited is room of that size.
func limited(size int64) (*budget.Budget, func(*volume.Config)) {
	b := budget.New(size)
	return b, func(c *volume.Config) { c.Room = b.Part(func(int64) {}) }
}

// TestVolumesThatThereIsNoRoomFor are refused, leave nothing, and get the room of others that go.
func TestVolumesThatThereIsNoRoomFor(t *testing.T) {
	bubble(t, func(n *node) {
		n.cluster.set(web, "a", strings.Repeat("x", 500_000))
		room, option := limited(1 << 20)
		d := n.start(option)
		first, second := n.request("first", configMap("web")), n.request("second", configMap("web"))
		d.publish(first)
		used := room.Used()
		if used < 500_000 || used > 600_000 {
			n.Errorf("Used() = %d, want what the files take", used)
		}
		text := n.wantKind(d.Publish(n.ctx, second, access.Token{}), volume.Exhausted)
		if !strings.Contains(text, "raise the memory limit") {
			n.Errorf("Publish() = %q, want it to say what to do", text)
		}
		wantSame(n, "Used() after a refusal", used, room.Used())
		n.wantRecords(first)
		d.unpublish(first)
		wantSame(n, "Used() without volumes", 0, room.Used())
		d.publish(second)
	})
}

// TestAnUpdateThatThereIsNoRoomFor keeps the files and reports that once. It is made as soon as there is room. A small change need
// not ask.
func TestAnUpdateThatThereIsNoRoomFor(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		attributes map[string]string
		format     string // Of the file.
		free       int64
	}{
		"Atomic":         {configMap("web", api.KeyUpdatePolicy, "Atomic"), "%s", 100_000},
		"Replace":        {configMap("web", api.KeyUpdatePolicy, "Replace"), "%s", 100_000},
		"InPlace":        {configMap("web", api.KeyUpdatePolicy, "InPlace"), "%s", 100_000},
		"none to render": {asFile("a", api.FormatJSON), "{\n  \"a\": \"%s\"\n}\n", 100_000},
		"none for the file beside what was rendered": {asFile("a", api.FormatJSON), "{\n  \"a\": \"%s\"\n}\n", 450_000},
	}
	for name, tt := range tests {
		bubbleCase(t, name, func(n *node) {
			file := func(a string) map[string]string { return map[string]string{"a": fmt.Sprintf(tt.format, a)} }
			n.cluster.set(web, "a", "1")
			room, option := limited(2 << 20)
			_, r := n.live(tt.attributes, option)
			others := room.Part(func(int64) {}).Account()
			others.Force(room.Limit() - room.Used() - tt.free)
			n.set(web, "a", "2")
			n.wantFiles(r, file("2"))
			n.seen.forget()
			large := strings.Repeat("x", 300_000)
			n.cluster.set(web, "a", large)
			pass(10 * settling)
			n.wantFiles(r, file("2"))
			n.wantReportedOnce("NoRoom: ")
			others.Close()
			synctest.Wait()
			n.wantFiles(r, file(large))
			pass(settling)
			if got := room.Used(); got > 400_000 {
				n.Errorf("Used() = %d, want what the file takes", got)
			}
		})
	}
}

// TestAPlanOfManyKeysTakesRoom, although their files take little: a new volume is refused, and a live one waits.
func TestAPlanOfManyKeysTakesRoom(t *testing.T) {
	bubble(t, func(n *node) {
		many := api.Ref{Kind: api.ConfigMap, Namespace: "default", Name: "many"}
		const keys = 20_000
		var pairs []string
		for i := range keys {
			pairs = append(pairs, fmt.Sprint("k", i), "")
		}
		n.cluster.set(many, pairs...)
		n.cluster.set(web, "a", "1")
		room, option := limited(16 << 20)
		d, r := n.live(asFile("e", api.FormatDotenv), option)
		others := room.Part(func(int64) {}).Account()
		others.Force(9 << 20)
		first := n.request("first", sources("{configMap: {name: many, as: {path: e, format: dotenv}}}"))
		d.wantRefused(first, volume.Exhausted)
		n.cluster.set(web, pairs...)
		pass(10 * settling)
		n.wantFiles(r, map[string]string{"e": "a='1'\n"})
		n.wantReportedOnce("NoRoom: ")
		others.Close()
		pass(settling)
		if got := strings.Count(n.files(r.TargetPath)["e"], "\n"); got != keys {
			n.Errorf("the file has %d lines, want %d", got, keys)
		}
		d.publish(first)
		n.volumes = append(n.volumes, first)
	})
}

// TestARestartTakesTheRoomOfWhatIsThere, also when there is less than that by now. The files stay.
func TestARestartTakesTheRoomOfWhatIsThere(t *testing.T) {
	bubble(t, func(n *node) {
		text := strings.Repeat("x", 500_000)
		n.cluster.set(web, "a", text)
		d, r := n.live(configMap("web"))
		d.stop()
		room, option := limited(300_000)
		d = n.start(option)
		pass(settling)
		if got := room.Used(); got < 500_000 {
			n.Errorf("Used() = %d, want what is there", got)
		}
		n.wantShown(r, map[string]string{"a": text}, "")
		n.cluster.set(web, "a", "less") // Which needs room, too, for a moment.
		pass(settling)
		n.wantFiles(r, map[string]string{"a": text})
		d.unpublish(r)
		wantSame(n, "Used() without volumes", 0, room.Used())
	})
}

// TestAPublishReservesForItsSources before it watches any of them, and no more than that.
func TestAPublishReservesForItsSources(t *testing.T) {
	const count = 10
	open := func(n int64) int64 { return (n + 2) / 3 * 4 } // Of which newcomers may have n.
	bubble(t, func(n *node) {
		refs, attributes := many(count)
		for _, ref := range refs {
			n.cluster.errs[ref] = errSilent
		}
		waiting := func(room *budget.Budget, option func(*volume.Config)) int64 {
			d := n.start(option)
			defer d.stop()
			published := d.publishing(n.request("config", attributes))
			pass(settling)
			used := room.Used()
			n.wantKind(<-published, volume.NotReady)
			n.wantNothing(d)
			return used
		}
		needed := waiting(limited(1 << 40))
		if least := int64(volume.BytesPerPublish + count*source.BytesPerWatch); needed < least || needed > least+(64<<10) {
			n.Errorf("Used() = %d while the sources are waited for, want %d and what the attributes take", needed, least)
		}
		wantSame(n, "Used() with just enough", needed, waiting(limited(open(needed))))
		for _, ref := range refs {
			n.cluster.refused[ref] = true // So that it differs from a refusal for want of room.
		}
		room, option := limited(open(needed) - 4)
		d := n.start(option)
		d.wantRefused(n.request("config", attributes), volume.Exhausted)
		n.wantNothing(d)
		wantSame(n, "Used() after a refusal", 0, room.Used())
	})
}

// TestAChangeForManyVolumesIsNoTrouble although all of them have room for the new files beside the old ones only one after the
// other: the only report is that it is in the files.
func TestAChangeForManyVolumesIsNoTrouble(t *testing.T) {
	bubble(t, func(n *node) {
		n.keepFileTime()
		text := func(c string) string { return strings.Repeat(c, 900_000) }
		n.cluster.set(web, "a", text("1"))
		room, option := limited(20 << 20)
		d := n.start(option)
		var all []state.Record
		for i := range 15 {
			r := n.request(fmt.Sprintf("v%d", i), configMap("web", api.KeyUID, fmt.Sprint(i)))
			d.publish(r)
			all = append(all, r)
		}
		pass(settling)
		if used, limit := room.Used(), room.Limit(); used < limit*6/10 {
			n.Fatalf("%d of %d bytes are used, want most", used, limit)
		}
		n.seen.forget()
		n.cluster.set(web, "a", text("2"))
		for range 100 {
			pass(30 * time.Millisecond)
			for kind, count := range d.Summary().NotCurrent {
				if count != 0 {
					n.Errorf("%d volumes have a problem of kind %s, want none", count, kind)
				}
			}
		}
		n.wantEach(map[string]string{"a": text("2")}, all...)
		for _, told := range n.seen.told() {
			if !strings.HasPrefix(told, "Projected: ") {
				n.Errorf("told %q, want nothing like that", told)
			}
		}
		if failed := n.seen.results()[volume.ResultFailed]; failed != 0 {
			n.Errorf("%d syncs failed, want none", failed)
		}
	})
}

// TestNoRoomIsReportedOnce, however much of it there is by the time that it is looked for again.
func TestNoRoomIsReportedOnce(t *testing.T) {
	bubble(t, func(n *node) {
		n.cluster.set(web, "a", "1")
		room, option := limited(1 << 20)
		d, r := n.live(configMap("web"), option)
		others := room.Part(func(int64) {}).Account()
		texts := map[string]bool{}
		for i := range 30 {
			others.Force(int64(900_000 - i*6000))
			n.cluster.set(web, "a", strings.Repeat("x", 300_000+i*10_000))
			d.publish(r)
			pass(time.Minute)
			problem, err := d.Condition(r.VolumeID, r.TargetPath)
			if problem == nil || err != nil {
				n.Fatalf("Condition() = %v, %v, want that there is no room", problem, err)
			}
			texts[problem.Error()] = true
		}
		n.wantReportedOnce("NoRoom: ")
		if len(texts) < 5 {
			n.Errorf("the condition was %v, want the room of the time", texts)
		}
	})
}

// TestFilesThatMustGoDoNotWaitForRoom: access was revoked, and a full budget is no reason to keep what it was to.
func TestFilesThatMustGoDoNotWaitForRoom(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"Atomic", "Replace", "InPlace"} {
		bubbleCase(t, policy, func(n *node) {
			n.secrets = identity.ByPod
			n.cluster.set(web, "a", strings.Repeat("x", 100_000))
			n.cluster.set(tls, "key", "k")
			room, option := limited(4 << 20)
			_, r := n.live(sources("{configMap: {name: web}}, {secret: {name: tls}}",
				api.KeyOnDelete, string(api.OnDeleteRemove), api.KeyUpdatePolicy, policy), option)
			n.seen.forget()
			others := room.Part(func(int64) {}).Account()
			others.Force(room.Limit() - room.Used())
			n.fail(tls, forbidden(tls))
			n.wantFiles(r, map[string]string{"a": strings.Repeat("x", 100_000)})
			n.wantReported(lost[api.OnDeleteRemove] + deniedTo(identity.Of(app), tls))
		})
	}
}

// keepFileTime sets the bubble's clock to that of the file system.
func (n *node) keepFileTime() {
	n.Helper()
	name := filepath.Join(n.dir, "clock")
	n.must(os.WriteFile(name, nil, 0o600))
	n.passChange(name)
}

// passChange has the bubble's clock be a little after the last change of a file, whose time is the real one: a machine may
// be slow, but is never slower than the bubble.
func (n *node) passChange(path string) {
	n.Helper()
	var stat unix.Stat_t
	n.must(unix.Lstat(path, &stat))
	<-time.After(time.Until(time.Unix(stat.Ctim.Unix())) + latency)
}

// TestLargeFilesAreNotReplacedTooOften: the driver writes the first change at once. The replaced files stay for a moment, for
// readers that have resolved a path into them, and use all their room. The driver then writes later changes together when that
// moment is over, and no pod gets an Event about a problem.
func TestLargeFilesAreNotReplacedTooOften(t *testing.T) {
	bubble(t, func(n *node) {
		n.keepFileTime()
		large := func(c string) string { return strings.Repeat(c, 900<<10) }
		_, r := n.published()
		n.cluster.set(web, "a", large("2"))
		pass(latency)
		n.wantFiles(r, map[string]string{"a": large("2")})
		n.passChange(filepath.Join(r.TargetPath, "..data"))
		second := time.Now()
		for _, c := range "345" {
			n.cluster.set(web, "a", large(string(c)))
			pass(latency)
			n.wantShown(r, map[string]string{"a": large("2")}, "")
		}
		pass(settling)
		n.wantFiles(r, map[string]string{"a": large("5")})
		last := n.seen.outcomes()[1]
		if want := (outcome{result: volume.ResultWritten, since: second}); last != want {
			t.Errorf("the second sync = %v, want %v: the delay is part of what is measured", last, want)
		}
		told := `Projected: volume "config": a change of the sources is in the files`
		n.wantReported(told, told)
	})
}

// selectingIn are the attributes of a volume that selects in so many namespaces.
func selectingIn(namespaces int, label string) map[string]string {
	names := make([]string, namespaces)
	for i := range names {
		names[i] = fmt.Sprintf("n%d", i)
	}
	return map[string]string{api.KeySources: "[{configMap: {optional: true, labelSelector: {matchLabels: {" + label +
		": x}}, namespaces: [" + strings.Join(names, ", ") + "]}}]"}
}

// TestSelectionsTakeRoom: long selectors and many namespaces, in a live volume too.
func TestSelectionsTakeRoom(t *testing.T) {
	const perNamespace = 1 << 10
	bubble(t, func(n *node) {
		room, option := limited(1 << 30)
		d := n.start(option)
		d.publish(n.request("few", selectingIn(1, "a")))
		few := room.Used()
		d.publish(n.request("many", selectingIn(200, "a")))
		if more := room.Used() - 2*few; more < 199*perNamespace {
			n.Errorf("200 namespaces take %d bytes more than one, want at least %d", more, 199*perNamespace)
		}
		const longer = 200
		before := room.Used()
		d.publish(n.request("long", selectingIn(1, strings.Repeat("a", longer)+"/b")))
		if more := room.Used() - before - few; more < longer {
			n.Errorf("a selector of %d bytes takes %d bytes more than a short one", longer, more)
		}
	})
}

// TestSelectionsWithoutRoom: no watch of them is begun.
func TestSelectionsWithoutRoom(t *testing.T) {
	const perWatch = 96 << 10
	bubble(t, func(n *node) {
		_, option := limited(100 * perWatch)
		r := n.request("r", selectingIn(200, "a"))
		n.wantKind(n.start(option).Publish(n.ctx, r, access.Token{}), volume.Exhausted)
		if users := len(n.cluster.users()); users != 0 {
			n.Errorf("%d watches were begun, want none without room", users)
		}
	})
}
