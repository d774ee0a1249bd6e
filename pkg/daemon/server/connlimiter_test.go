package server

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// conn is a connection that is named, and notes that it is closed.
type conn struct {
	net.Conn

	name, from string
	isClosed   bool
}

// RemoteAddr is [net.Conn].
func (c *conn) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(c.from), 1))
}

// Close is [net.Conn].
func (c *conn) Close() error {
	c.isClosed = true
	return nil
}

// TestWhichConnectionGoes has connections come, and wants to know which are closed. A connection is written as name@address;
// -name@ is one that leaves.
func TestWhichConnectionGoes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		most, mostOfOne int
		come            string
		want            string
	}{
		"nobody, while there is room":             {3, 3, "a@10.0.0.1 b@10.0.0.1 c@10.0.0.2", ""},
		"nobody, after somebody has left":         {2, 2, "a@10.0.0.1 b@10.0.0.2 -b@ c@10.0.0.3", ""},
		"the oldest of one that has enough":       {9, 2, "a@10.0.0.1 b@10.0.0.2 c@10.0.0.2 d@10.0.0.2 e@10.0.0.2", "b c"},
		"the oldest of the one with most":         {4, 9, "a@10.0.0.1 b@10.0.0.2 c@10.0.0.2 d@10.0.0.3 e@10.0.0.4", "b"},
		"the oldest of all clients that have one": {2, 9, "a@10.0.0.1 b@10.0.0.2 c@10.0.0.3", "a"},
		"an IPv4 address has two forms":           {9, 2, "a@10.0.0.1 b@::ffff:10.0.0.1 c@10.0.0.1", "a"},
		"IPv4 neighbors are two clients":          {9, 1, "a@10.0.0.1 b@10.0.0.2", ""},
		"one of a /64 with many addresses":        {9, 2, "a@fd00:1::1 b@fd00:2::1 c@fd00:2::2 d@fd00:2::3", "b"},
		"the kubelet's /64 is the flood's":        {9, 4, "probe@fd00::1 b@fd00::2 c@fd00::2 d@fd00::2 e@fd00::2 f@fd00::2", "b c"},
		"the same, with other clients":            {5, 4, "probe@fd00::1 b@fd00:1::1 c@fd00::2 d@fd00::2 e@fd00:1::1 f@fd00::2", "c"},
		"a zone makes no other client":            {9, 1, "a@fe80::1%eth0 b@fe80::1%eth1", "a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newConnLimiter(test.most, test.mostOfOne)
			conns := map[string]*conn{}
			for text := range strings.FieldsSeq(test.come) {
				name, from, _ := strings.Cut(text, "@")
				if left, leaves := strings.CutPrefix(name, "-"); leaves {
					for _, state := range []http.ConnState{http.StateActive, http.StateIdle, http.StateClosed} {
						l.note(conns[left], state)
					}
					continue
				}
				conns[name] = &conn{name: name, from: from}
				l.note(conns[name], http.StateNew)
			}
			var closed []string
			for name, c := range conns {
				if c.isClosed {
					closed = append(closed, name)
				}
			}
			slices.Sort(closed)
			if got := strings.Join(closed, " "); got != test.want {
				t.Errorf("closed: %q, want %q", got, test.want)
			}
		})
	}
}
