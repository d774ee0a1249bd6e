package driver

import (
	"net"
	"strings"
	"testing"
)

// TestADriverWithoutItsAddressTouchesNothing: where somebody else listens, it ends before it takes over a volume, with an edit
// to be made in it.
func TestADriverWithoutItsAddressTouchesNothing(t *testing.T) {
	t.Parallel()
	b := newRig(t)
	pod := publish(b.Fixture, "web", "red")
	b.Kill()
	before := b.listing()
	other, err := new(net.ListenConfig).Listen(t.Context(), "tcp", b.HTTP)
	must(t, err)
	defer other.Close()
	b.UpdateConfigMap("web", map[string]string{"n": "blue"})
	if err := b.Node.StartDriver(t.Context()); err == nil || !strings.Contains(err.Error(), "listen on "+b.HTTP+" for HTTP: ") {
		t.Errorf("StartDriver = %v, want it to say that the address is taken", err)
	}
	b.wantUnchanged(before, "after a start without the address")
	b.WantFile(pod, "n", "red")

	must(t, other.Close())
	b.Start()
	b.WantFile(pod, "n", "blue")
}
