package volume_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/liveconfig-csi/liveconfig/pkg/budget"
	"github.com/liveconfig-csi/liveconfig/pkg/identity"
	"github.com/liveconfig-csi/liveconfig/pkg/volume"
)

// roomy is room for everything.
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
		text := n.wantKind(d.Publish(n.ctx, second, identity.Token{}), volume.Exhausted)
		if !strings.Contains(text, "raise the memory limit") {
			n.Errorf("Publish() = %q, want it to say what to do", text)
		}
		if got := room.Used(); got != used {
			n.Errorf("Used() = %d after a refusal, want %d", got, used)
		}
		n.wantRecords(first)
		d.unpublish(first)
		if got := room.Used(); got != 0 {
			n.Errorf("Used() = %d without volumes, want 0", got)
		}
		d.publish(second)
	})
}

// TestAnUpdateThatThereIsNoRoomFor keeps the files and says so once. It is made as soon as there is room.
func TestAnUpdateThatThereIsNoRoomFor(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"Atomic", "Replace", "InPlace"} {
		t.Run(policy, func(t *testing.T) {
			bubble(t, func(n *node) {
				n.cluster.set(web, "a", "1")
				room, option := limited(1 << 20)
				d := n.start(option)
				r := n.request("config", configMap("web", "updatePolicy", policy))
				d.publish(r)
				others := room.Part(func(int64) {}).Account()
				others.Force(900_000)
				large := strings.Repeat("x", 300_000)
				n.cluster.set(web, "a", large)
				pass(10 * settling)
				n.wantFiles(r, map[string]string{"a": "1"})
				told := n.seen.told()
				if len(told) != 1 || !strings.HasPrefix(told[0], "NoRoom: ") {
					n.Errorf("told %q, want once that there is no room", told)
				}
				others.Close()
				synctest.Wait()
				n.wantFiles(r, map[string]string{"a": large})
			})
		})
	}
}

// TestARestartTakesTheRoomOfWhatIsThere, also when there is less than that by now. The files stay.
func TestARestartTakesTheRoomOfWhatIsThere(t *testing.T) {
	bubble(t, func(n *node) {
		text := strings.Repeat("x", 500_000)
		n.cluster.set(web, "a", text)
		d := n.start()
		r := n.request("config", configMap("web"))
		d.publish(r)
		d.stop()
		room, option := limited(300_000)
		d = n.start(option)
		pass(settling)
		if got := room.Used(); got < 500_000 {
			n.Errorf("Used() = %d, want what is there", got)
		}
		n.wantFiles(r, map[string]string{"a": text})
		n.wantProblem(d, r, "")
		n.cluster.set(web, "a", "less") // Which needs room, too, for a moment.
		pass(settling)
		n.wantFiles(r, map[string]string{"a": text})
		d.unpublish(r)
		if got := room.Used(); got != 0 {
			n.Errorf("Used() = %d without volumes, want 0", got)
		}
	})
}
