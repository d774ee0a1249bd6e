package volume_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
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

// TestPublishShowsTheFilesOfItsSources, and orders its side effects (rule 45).
func TestPublishShowsTheFilesOfItsSources(t *testing.T) {
	bubble(t, func(n *node) {
		n.cluster.set(web, "index.html", "hello", "empty", "")
		n.cluster.set(tls, "key", "k1", "unlisted", "x")
		d, r := n.startFor(sources("{configMap: {name: web}}, {secret: {name: tls, items: [{key: key, path: certs/tls.key, mode: 0400}]}}"))
		n.faults.on("publish", func() {
			wantSame(n, "files before the mount, want no target", nil, n.files(r.TargetPath))
		})
		d.publish(r)
		n.wantShown(r, map[string]string{"index.html": "hello", "empty": "", "certs/tls.key": "k1"}, "")
		n.wantRecords(r)
		wantSame(n, "users of sources", map[api.Ref]int{web: 1, tls: 1}, n.cluster.users())
		n.wantMode(r, "certs/tls.key", 0o400)
		if err := os.WriteFile(r.TargetPath+"/empty", nil, 0o600); !errors.Is(err, syscall.EROFS) {
			n.Errorf("writing through the target = %v, want %v", err, syscall.EROFS)
		}
		n.wantReported()
		_, err := d.Condition(r.VolumeID, r.TargetPath+"2")
		wantSame(n, "Condition() says", "volume csi-config is not published on "+r.TargetPath+"2", n.wantKind(err, volume.Unknown))
		d.unpublish(r)
		want := []string{"mounted", "put", "create", "publish", "unmount", "delete"}
		wantSame(n, "side effects", want, n.faults.order())
	})
}

// TestPublishGivesTheFilesToTheFSGroup shows rules 53 and 54 at publish, after an update, and after an update by the next run
// of the driver (trap 5). The group is 0, which is a value like any other. With a uid, modes are exact.
func TestPublishGivesTheFilesToTheFSGroup(t *testing.T) {
	bubble(t, func(n *node) {
		modes := map[string]fs.FileMode{
			"0644": 0o644, "0400": 0o440, "0600": 0o640, "0000": 0o440, "0200": 0o640, "0111": 0o551, "0777": 0o777,
		}
		var items []string
		for mode := range modes {
			items = append(items, fmt.Sprintf("{key: a, path: d/%s, mode: %s}", mode, mode))
		}
		n.cluster.set(web, "a", "1")
		r := n.request("config", configMap("web", api.KeyItems, "["+strings.Join(items, ", ")+"]"))
		exact := n.request("exact", configMap("web", api.KeyDefaultMode, "0400", api.KeyUID, "0"))
		r.FSGroup, exact.FSGroup = new(0), new(0)
		d := n.start()
		d.publish(r)
		d.publish(exact)
		check := func(value string) {
			n.Helper()
			n.wantFiles(exact, map[string]string{"a": value})
			n.wantMode(exact, "a", 0o400)
			want := map[string]string{}
			for mode := range modes {
				want["d/"+mode] = value
				n.wantMode(r, "d/"+mode, modes[mode])
			}
			n.wantFiles(r, want)
			for _, dir := range []string{".", "d", "..data"} {
				n.wantMode(r, dir, fs.ModeDir|fs.ModeSetgid|0o755)
			}
		}
		check("1")
		n.set(web, "a", "2")
		check("2")
		d.stop()
		n.cluster.set(web, "a", "3")
		n.start()
		pass(settling)
		check("3")
	})
}

// TestPublishRefusesAtOnce has everything that no waiting would help. Nothing may have been asked of the node, and the watches
// that it has got are given back. Among it is rule 14, files that cannot stand in one directory.
func TestPublishRefusesAtOnce(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		attributes map[string]string
		kind       volume.Kind
		text       []string // Parts of the message.
	}{
		"no source at all": {map[string]string{}, volume.Invalid, []string{"configMap"}},
		"every mistake is named": {
			configMap("web", "confgMap", "web", api.KeyDefaultMode, "0999", api.KeyItems, `[{key: a, path: ../a}]`), volume.Invalid,
			[]string{"confgMap", api.KeyDefaultMode, "items[0].path"},
		},
		"a file that another file needs as a directory": {
			sources("{configMap: {name: web}}, {secret: {name: tls, items: [{key: key, path: a/b}]}}"),
			volume.Invalid,
			[]string{`path "a" cannot be a file and, for "a/b", a directory`},
		},
		"a key that cannot be in the file": {
			sources("{secret: {name: tls, as: {path: a, format: dotenv}}}"), volume.Invalid, []string{"log.level"},
		},
		"a source that cannot be watched": {
			sources("{configMap: {name: web}}, {secret: {name: unwatched}}"), volume.IO, []string{"watch the sources: permission denied"},
		},
	}
	for name, tt := range tests {
		bubbleCase(t, name, func(n *node) {
			n.cluster.set(web, "a", "1")
			n.cluster.set(tls, "key", "k1", "log.level", "hunter2")
			n.cluster.refused[api.Ref{Kind: api.Secret, Namespace: "default", Name: "unwatched"}] = true
			d := n.start()
			text := n.wantKind(d.Publish(n.ctx, n.request("config", tt.attributes), noToken), tt.kind)
			for _, part := range tt.text {
				if !strings.Contains(text, part) || strings.Contains(text, "hunter2") {
					n.Errorf("Publish() says %q, want it to contain %q, and no value", text, part)
				}
			}
			wantSame(n, "side effects", []string{"mounted"}, n.faults.order())
			n.wantReported()
		})
	}
}

// TestPublishIsBusy is fault 18: a call that comes while another one for the volume waits is refused and does not wait. Nothing
// piles up, neither of calls that are refused nor of callers that give up: at the end of a bubble no goroutine is left.
func TestPublishIsBusy(t *testing.T) {
	bubble(t, func(n *node) {
		d, r := n.startFor(configMap("web"))
		ctx, cancel := context.WithCancel(n.ctx)
		first := make(chan error, 1)
		go func() { first <- d.Publish(ctx, r, access.Token{}) }()
		pass(settling) // The first call waits for its source.

		wantSame(n, "Volumes()", 1, d.Volumes())
		want := "another call for volume csi-config is under way"
		began := time.Now()
		for range 64 {
			d.wantRefused(r, volume.Busy, want)
		}
		wantSame(n, "time that the refusals took", 0, time.Since(began))
		wantSame(n, "Unpublish() says", want, n.wantKind(d.Unpublish(n.ctx, r.VolumeID, r.TargetPath), volume.Busy))
		_, err := d.Condition(r.VolumeID, "")
		n.wantKind(err, volume.Unknown) // It is not published yet.

		other := n.request("other", configMap("web", api.KeyOptional, "true"))
		d.publish(other) // Another volume is not affected.
		d.unpublish(other)

		cancel()
		n.wantKind(<-first, volume.Missing)
		synctest.Wait()
		n.wantNothing(d)

		for range 20 { // A kubelet that gives up, and comes again.
			ctx, cancel := context.WithTimeout(n.ctx, latency/2)
			n.wantKind(d.Publish(ctx, r, access.Token{}), volume.NotReady)
			cancel()
		}
	})
}

// TestRepeatsAtOnce are each answered, and leave one mount (faults 12 and 18).
func TestRepeatsAtOnce(t *testing.T) {
	bubble(t, func(n *node) {
		d, r := n.published()
		var answers []<-chan error
		for range 64 {
			answers = append(answers, d.publishing(r))
		}
		served := 0
		for _, answer := range answers {
			if err := <-answer; err == nil {
				served++
			} else {
				n.wantKind(err, volume.Busy)
			}
		}
		if served == 0 {
			n.Error("no repeat was served")
		}
		wantSame(n, "mounts on the target", []string{r.TargetPath}, n.mountPoints(r.TargetPath))
	})
}

// on returns a request for another volume on the target of r.
func (n *node) on(r state.Record, name string) state.Record {
	n.Helper()
	other := n.request(name, configMap("other"))
	other.TargetPath = r.TargetPath
	return other
}

// TestATargetIsOneVolumes, from when the first one waits for its source on.
func TestATargetIsOneVolumes(t *testing.T) {
	bubble(t, func(n *node) {
		n.cluster.set(other, "a", "other")
		d, r := n.startFor(configMap("web"))
		done := d.publishing(r)
		pass(settling)
		intruder := n.on(r, "intruder")
		d.wantRefused(intruder, volume.Different)
		n.cluster.set(web, "a", "1")
		n.must(<-done)
		for range 2 {
			got := n.wantKind(d.Publish(n.ctx, intruder, access.NewToken("x", time.Now())), volume.Different)
			wantSame(n, "Publish() says", "volume csi-config is already published on "+r.TargetPath, got)
			wantSame(n, "the token of a volume that was refused", access.Token{}, n.tokens.of(intruder.VolumeID))
			d.unpublish(intruder) // Whatever is asked about it, the first one's target is not touched.
		}
		pass(settling)
		n.wantFiles(r, map[string]string{"a": "1"})
		n.wantRecords(r)
		n.wantUpdate(r, "2")
	})
}

// TestAMountThatIsNotOursStays: another program mounts a file system on the target in the middle of a publish.
func TestAMountThatIsNotOursStays(t *testing.T) {
	bubble(t, func(n *node) {
		n.cluster.set(web, "a", "1")
		n.faults.set("publish", volumefs.ErrMounted)
		d := n.start()
		d.wantRefused(n.request("config", configMap("web")), volume.IO)
		wantSame(n, "unmounted times", 0, n.faults.count("unmount"))
	})
}

func TestTwoRecordsOfOneTarget(t *testing.T) {
	bubble(t, func(n *node) {
		d, r := n.published()
		intruder := n.on(r, "intruder")
		n.must(n.records.Store.Put(intruder))
		d = d.restart()
		wantSame(n, "Volumes()", 1, d.Volumes())
		n.wantFiles(r, map[string]string{"a": "1"})
		d.unpublish(intruder)
	})
}

// TestVouching has what may have become of a volume that was live. Only for one that containers may use, the kubelet need not vouch
// for the pod.
func TestVouching(t *testing.T) {
	t.Parallel()
	elsewhere := func(r state.Record) state.Record { r.TargetPath += "2"; return r }
	unknown := func(r state.Record) state.Record { r.VolumeID += "2"; return r }
	as := func(r state.Record) state.Record { return r }
	tests := map[string]struct {
		happen func(n *node, r state.Record)
		ask    func(state.Record) state.Record
		want   bool
	}{
		"live":                         {func(*node, state.Record) {}, as, true},
		"live on another target":       {func(*node, state.Record) {}, elsewhere, false},
		"live, and its source is gone": {func(n *node, _ state.Record) { n.cluster.remove(web) }, as, true},
		"live beside another":          {func(n *node, _ state.Record) { n.driver.publish(n.request("other", configMap("web"))) }, as, true},
		"live, and another asked for its target": {func(n *node, r state.Record) {
			other := unknown(r)
			other.TargetPath = n.request("other", nil).TargetPath
			n.driver.publish(other)
		}, unknown, false},
		"unknown":                             {func(*node, state.Record) {}, unknown, false},
		"unknown, and the node cannot tell":   {func(n *node, _ state.Record) { n.faults.set("mounted", syscall.EMFILE) }, unknown, false},
		"live, and the node cannot tell":      {func(n *node, _ state.Record) { n.faults.set("mounted", syscall.EMFILE) }, as, true},
		"taken over by the next run":          {func(n *node, _ state.Record) { n.driver.restart() }, as, true},
		"unmounted behind the manager's back": {func(n *node, r state.Record) { n.must(n.mounts.Unmount(r.TargetPath)) }, as, false},
		"unpublished":                         {func(n *node, r state.Record) { n.driver.unpublish(r) }, as, false},
		"taken over although it cannot be updated any more": {func(n *node, _ state.Record) {
			n.cluster.refused[web] = true
			n.driver.restart()
		}, as, true},
		"mounted, but its record was lost": {func(n *node, r state.Record) {
			n.driver.stop()
			n.must(n.records.Delete(r.VolumeID))
			n.start()
		}, as, true},
	}
	for name, tt := range tests {
		bubbleCase(t, name, func(n *node) {
			_, r := n.published()
			tt.happen(n, r)
			pass(settling)
			ask := tt.ask(r)
			wantSame(n, "vouched for", tt.want, n.driver.isVouchedFor(ask))
		})
	}
}

// TestNothingComesBetweenVouchingAndThePublish: neither an unpublish nor another publish. Nobody vouches for a volume on its way or
// after a publish that failed.
func TestNothingComesBetweenVouchingAndThePublish(t *testing.T) {
	bubble(t, func(n *node) {
		d, r := n.startFor(configMap("web"))
		isBusy := func() {
			n.Helper()
			n.wantKind(d.Publish(n.ctx, r, noToken), volume.Busy)
			n.wantKind(d.Unpublish(n.ctx, r.VolumeID, r.TargetPath), volume.Busy)
		}
		wantSame(n, "vouched for at first", false, d.isVouchedFor(r))
		done := d.publishing(r)
		pass(settling)
		isBusy()
		n.wantKind(<-done, volume.Missing)
		wantSame(n, "vouched for after a publish that failed", false, d.isVouchedFor(r))
		n.cluster.set(web, "a", "1")
		n.faults.on("put", isBusy)
		req := vouched(r, noToken)
		req.Vouch = func(context.Context) error { isBusy(); return nil }
		n.must(d.Manager.Publish(n.ctx, req))
		n.volumes = append(n.volumes, r)
		wantSame(n, "vouched for after a publish", true, d.isVouchedFor(r))
		n.faults.mend()
	})
}

// TestALiveVolumeOfAnUnnamedPod stays as it is, and a new one is refused: the CSIDriver object has changed since the first publish.
func TestALiveVolumeOfAnUnnamedPod(t *testing.T) {
	bubble(t, func(n *node) {
		d, r := n.published()
		errUnnamed := errors.New("the request does not name a pod")
		req := vouched(r, noToken)
		req.Unnamed, req.Record.Pod, req.Record.Attributes = errUnnamed, api.Pod{}, nil
		n.must(d.Manager.Publish(n.ctx, req))
		n.wantFiles(r, map[string]string{"a": "1"})
		if want := "The driver leaves a live volume as it is"; !strings.Contains(n.logs.String(), want) {
			n.Errorf("the log lacks %q:\n%s", want, n.logs.String())
		}
		d.unpublish(r)
		if err := d.Manager.Publish(n.ctx, req); !errors.Is(err, errUnnamed) {
			n.Errorf("Publish() = %v, want %v", err, errUnnamed)
		}
	})
}
