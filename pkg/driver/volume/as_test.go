package volume_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/statusz"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/volume"
)

// asFile are the attributes of a volume with one file of all keys of the ConfigMap web.
func asFile(path string, format api.Format) map[string]string {
	return map[string]string{
		api.KeySources: fmt.Sprintf("[{configMap: {name: web, as: {path: %s, format: %s}}}]", path, format),
	}
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
		n.wantTold(`ProjectionFailed: volume "config": the files stay as they are: ` + text)
		tries := len(n.seen.outcomes())
		pass(resyncInterval / 2)
		if got := len(n.seen.outcomes()); got != tries {
			n.Errorf("it was tried %d times more, want none: only another content can help", got-tries)
		}
		n.set(web, "COLOR", "blue")
		n.wantShown(r, map[string]string{"conf/app.env": "COLOR='blue'\n"}, "")
	})
}

// TestFilesOfAllKeysInEachLayout beside each other: each has its format, its mode and the names that its items give to keys. A
// source that is not there makes no file.
func TestFilesOfAllKeysInEachLayout(t *testing.T) {
	t.Parallel()
	for _, policy := range []api.UpdatePolicy{api.UpdateAtomic, api.UpdateReplace, api.UpdateInPlace} {
		bubbleCase(t, string(policy), func(n *node) {
			n.cluster.set(web, "COLOR", "red", "GREETING", "it's\n\"you\" $HOME")
			n.cluster.set(tls, "log.level", "debug", "token", "t=1 #2")
			_, r := n.live(map[string]string{api.KeyUpdatePolicy: string(policy), api.KeySources: `
- configMap: {name: web, as: {path: conf/app.env, format: dotenv, mode: 0440}}
- secret:
    name: tls
    items: [{key: log.level, path: LOG_LEVEL}, {key: token}]
    as: {path: secret.json, format: json, mode: 0400}
- configMap: {name: none, optional: true, as: {path: none.yaml, format: yaml}}`})
			const secret = "{\n  \"LOG_LEVEL\": \"debug\",\n  \"token\": \"t=1 #2\"\n}\n"
			n.wantFiles(r, map[string]string{"conf/app.env": "COLOR='red'\nGREETING='it'\\''s\n\"you\" $HOME'\n", "secret.json": secret})
			n.set(web, "COLOR", "green", "SHAPE", "round")
			n.wantFiles(r, map[string]string{"conf/app.env": "COLOR='green'\nSHAPE='round'\n", "secret.json": secret})
			n.wantMode(r, "conf/app.env", 0o440)
			n.wantMode(r, "secret.json", 0o400)
		})
	}
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
