package realnode

import (
	"fmt"
	"net"
	"os"

	"github.com/vishvananda/netlink"

	"github.com/liveconfig-csi/liveconfig/pkg/files/mountns"
	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
)

// The addresses of the network that a test program has for itself.
const (
	nodeIP = "10.99.0.1"
)

// Main runs a binary's tests in a mount and a separate network namespace, where [Start] can be called, and returns the
// exit status:
//
//	func TestMain(m *testing.M) { os.Exit(machine.Main(m)) }
func Main(m interface{ Run() int }) int {
	if dir := os.Getenv(initVariable); dir != "" {
		return beInit(dir)
	}
	if os.Geteuid() != 0 {
		fmt.Fprintln(os.Stderr, "A kubelet needs root, and so does this program: run it as root, or by make, which asks sudo.")
		return 1
	}
	return mountns.Main(ground{m}, mountns.Network)
}

// ground is what runs in the namespaces.
type ground struct{ m interface{ Run() int } }

// Run sets up the network and runs the tests.
func (g ground) Run() int {
	if err := bringUp(); err != nil {
		fmt.Fprintln(os.Stderr, "set up the tests' network:", err)
		return 1
	}
	return g.m.Run()
}

// bringUp gives the loopback device the addresses of the node and of the API server's service. Nothing leads out.
func bringUp() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return err
	}
	for _, ip := range []string{nodeIP, cluster.ServiceIP} {
		address, err := netlink.ParseAddr(ip + "/32")
		if err != nil {
			return err
		}
		if err := netlink.AddrReplace(lo, address); err != nil {
			return fmt.Errorf("add %s: %w", ip, err)
		}
	}
	// The kubelet wants to see a default route, and pods answer to addresses of this side.
	everywhere := &net.IPNet{IP: net.IPv4zero, Mask: net.CIDRMask(0, 32)}
	route := &netlink.Route{LinkIndex: lo.Attrs().Index, Dst: everywhere, Scope: netlink.SCOPE_LINK}
	if err := netlink.RouteReplace(route); err != nil {
		return fmt.Errorf("add a default route: %w", err)
	}
	return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o600)
}
