package volume_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/volume"
)

func TestPublishShowsTheFilesOfItsSources(t *testing.T) {
	bubble(t, func(n *node) {
		n.cluster.set(web, "index.html", "hello", "empty", "")
		n.cluster.set(tls, "key", "k1", "unlisted", "x")
		d, r := n.live(map[string]string{api.KeySources: `
- configMap: {name: web}
- secret: {name: tls, items: [{key: key, path: certs/tls.key, mode: 0400}]}`})

		n.wantFiles(r, map[string]string{"index.html": "hello", "empty": "", "certs/tls.key": "k1"})
		n.wantRecords(r)
		wantSame(n, "users of sources", map[api.Ref]int{web: 1, tls: 1}, n.cluster.users())
		info, err := os.Stat(r.TargetPath + "/certs/tls.key")
		n.must(err)
		wantSame(n, "mode, want 0400", 0o400, info.Mode().Perm())
		n.wantTold()
		n.wantProblem(d, r, "")
		_, err = d.Condition(r.VolumeID, r.TargetPath+"2")
		if got, want := n.wantKind(err, volume.Unknown), "volume csi-config is not published on "+r.TargetPath+"2"; got != want {
			n.Errorf("Condition() says %q, want %q", got, want)
		}

		d.unpublish(r)
		n.wantNothing(d)
	})
}

// TestPublishOrdersItsSideEffects is rule 45.
func TestPublishOrdersItsSideEffects(t *testing.T) {
	bubble(t, func(n *node) {
		d, r := n.ready()
		n.faults.on("publish", func() {
			wantSame(n, "files before the mount, want no target", nil, n.files(r.TargetPath))
		})
		d.publish(r)
		d.unpublish(r)
		want := []string{"mounted", "put", "create", "publish", "unmount", "delete"}
		wantSame(n, "side effects", want, n.faults.order())
	})
}

// TestPublishGivesTheFilesToTheFSGroup has the group 0, which is a value (rule 53).
func TestPublishGivesTheFilesToTheFSGroup(t *testing.T) {
	bubble(t, func(n *node) {
		n.cluster.set(web, "a", "1")
		d := n.start()
		r := n.request("config", configMap("web", api.KeyDefaultMode, "0400"))
		zero := 0 // A group like any other.
		r.FSGroup = &zero
		d.publish(r)
		info, err := os.Stat(r.TargetPath + "/a")
		n.must(err)
		wantSame(n, "mode, want 0440", 0o440, info.Mode().Perm())
	})
}

// TestPublishRefusesAtOnce has everything that no waiting would help. Nothing may have been asked of the node. Among it
// is rule 14, files that cannot stand in one directory.
func TestPublishRefusesAtOnce(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		attributes map[string]string
		kind       volume.Kind
		text       []string // Parts of the message.
	}{
		"no source at all": {
			attributes: map[string]string{}, kind: volume.Invalid, text: []string{"configMap"},
		},
		"every mistake is named": {
			attributes: configMap("web", "confgMap", "web", api.KeyDefaultMode, "0999", api.KeyItems, `[{key: a, path: ../a}]`),
			kind:       volume.Invalid, text: []string{"confgMap", api.KeyDefaultMode, "items[0].path"},
		},
		"a file that another file needs as a directory": {
			attributes: map[string]string{
				api.KeySources: `[{configMap: {name: web}}, {secret: {name: tls, items: [{key: key, path: a/b}]}}]`,
			},
			kind: volume.Invalid, text: []string{`path "a" cannot be a file and, for "a/b", a directory`},
		},
	}
	for name, tt := range tests {
		bubbleCase(t, name, func(n *node) {
			n.cluster.set(web, "a", "1")
			n.cluster.set(tls, "key", "k1")
			d := n.start()
			text := n.wantKind(d.Publish(n.ctx, n.request("config", tt.attributes), access.Token{}), tt.kind)
			for _, part := range tt.text {
				if !strings.Contains(text, part) {
					n.Errorf("Publish() says %q, want it to contain %q", text, part)
				}
			}
			wantSame(n, "side effects", []string{"mounted"}, n.faults.order())
			n.wantTold()
			n.wantNothing(d)
		})
	}
}

// TestPublishNeedsEveryWatch: the one that it has got is given back.
func TestPublishNeedsEveryWatch(t *testing.T) {
	bubble(t, func(n *node) {
		d := n.start()
		n.cluster.refused[tls] = true
		r := n.request("config", map[string]string{api.KeySources: `[{configMap: {name: web}}, {secret: {name: tls}}]`})
		text := n.wantKind(d.Publish(n.ctx, r, access.Token{}), volume.IO)
		if want := "watch the sources: permission denied"; text != want {
			n.Errorf("Publish() says %q, want %q", text, want)
		}
		n.wantNothing(d)
	})
}

// TestPublishIsBusy is fault 18.
func TestPublishIsBusy(t *testing.T) {
	bubble(t, func(n *node) {
		d := n.start()
		r := n.request("config", configMap("web"))
		ctx, cancel := context.WithCancel(n.ctx)
		first := make(chan error, 1)
		go func() { first <- d.Publish(ctx, r, access.Token{}) }()
		pass(settling) // The first call waits for its source.

		wantSame(n, "Volumes()", 1, d.Volumes())
		want := "another call for volume csi-config is under way"
		d.wantRefused(r, volume.Busy, want)
		wantSame(n, "Unpublish() says", want, n.wantKind(d.Unpublish(n.ctx, r.VolumeID, r.TargetPath), volume.Busy))
		_, err := d.Condition(r.VolumeID, "")
		n.wantKind(err, volume.Unknown) // It is not published yet.

		other := n.request("other", configMap("web", api.KeyOptional, "true"))
		d.publish(other) // Another volume has nothing to do with it.
		d.unpublish(other)

		cancel()
		n.wantKind(<-first, volume.Missing)
		synctest.Wait()
		n.wantNothing(d)
	})
}
