package server

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
)

// clientBits is the length of the IPv6 prefix that counts as one client: one machine mostly has a
// whole /64.
const clientBits = 64

// connLimiter bounds the connections of an HTTP server: those of one client, and all. When there is
// one too many it closes an old one, because the new one may be the kubelet's, which asks for
// health. The client that has the most connections loses its oldest, so a client that floods the
// server harms itself alone. A limit that only stops to accept, such as that of
// golang.org/x/net/netutil, would leave the kubelet without an answer during a flood.
//
// An IPv4 client is its address, and an IPv6 client its /64. The kubelet may share that with all
// pods of its node. Within a client, therefore, the address that has the most connections loses its
// oldest.
type connLimiter struct {
	most, mostOfOne int

	mu    sync.Mutex   // Guards conns.
	conns []clientConn // From the oldest on.
}

// clientConn is a connection and where it comes from.
type clientConn struct {
	net.Conn

	client  netip.Prefix
	address netip.Addr
}

func newConnLimiter(most, mostOfOne int) *connLimiter {
	return &connLimiter{most: most, mostOfOne: mostOfOne}
}

func newClientConn(conn net.Conn) clientConn {
	from, _ := netip.ParseAddrPort(conn.RemoteAddr().String()) // Connections without an address count as one client.
	c := clientConn{Conn: conn, address: from.Addr().Unmap().WithZone("")}
	c.client, _ = c.address.Prefix(min(clientBits, c.address.BitLen()))
	return c
}

// note is http.Server's ConnState.
func (l *connLimiter) note(conn net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		if victim := l.add(newClientConn(conn)); victim != nil {
			_ = victim.Close() // It has had its time.
		}
	case http.StateClosed, http.StateHijacked:
		l.remove(conn)
	case http.StateActive, http.StateIdle:
	}
}

// add returns the connection that has to go, if one has to.
func (l *connLimiter) add(c clientConn) (victim net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns = append(l.conns, c)
	isOfClient := func(other clientConn) bool { return other.client == c.client }
	switch {
	case count(l.conns, isOfClient) > l.mostOfOne:
		return l.evictLocked(isOfClient)
	case len(l.conns) > l.most:
		busiest := most(l.conns, func(c clientConn) netip.Prefix { return c.client })
		return l.evictLocked(func(other clientConn) bool { return other.client == busiest })
	}
	return nil
}

// evictLocked takes out the oldest connection of the address that has the most, of those that
// match. l.mu is held.
func (l *connLimiter) evictLocked(match func(clientConn) bool) net.Conn {
	matching := slices.DeleteFunc(slices.Clone(l.conns), func(c clientConn) bool { return !match(c) })
	busiest := most(matching, func(c clientConn) netip.Addr { return c.address })
	i := slices.IndexFunc(l.conns, func(c clientConn) bool { return match(c) && c.address == busiest })
	victim := l.conns[i].Conn
	l.conns = slices.Delete(l.conns, i, i+1)
	return victim
}

func (l *connLimiter) remove(conn net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns = slices.DeleteFunc(l.conns, func(other clientConn) bool { return other.Conn == conn })
}

func count(conns []clientConn, match func(clientConn) bool) int {
	n := 0
	for _, c := range conns {
		if match(c) {
			n++
		}
	}
	return n
}

// most returns the key that most connections have; of several, that of the oldest connection.
func most[K comparable](conns []clientConn, key func(clientConn) K) (busiest K) {
	counts := map[K]int{}
	for _, c := range conns {
		counts[key(c)]++
	}
	for _, c := range conns {
		if counts[key(c)] > counts[busiest] {
			busiest = key(c)
		}
	}
	return busiest
}
