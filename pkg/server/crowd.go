package server

import (
	"net"
	"net/http"
	"slices"
	"sync"
)

// crowd is the connections of an HTTP server. When there are too many it closes the oldest: a new one may be the kubelet's,
// which asks for health.
type crowd struct {
	most int

	mu    sync.Mutex // Guards conns.
	conns []net.Conn // From the oldest on.
}

func newCrowd(most int) *crowd { return &crowd{most: most} }

// note is http.Server's ConnState.
func (c *crowd) note(conn net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		if oldest := c.add(conn); oldest != nil {
			_ = oldest.Close() // Whoever it was has had its time.
		}
	case http.StateClosed, http.StateHijacked:
		c.remove(conn)
	case http.StateActive, http.StateIdle:
	}
}

// add returns the connection that has to go, if one has to.
func (c *crowd) add(conn net.Conn) (oldest net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conns = append(c.conns, conn)
	if len(c.conns) <= c.most {
		return nil
	}
	oldest = c.conns[0]
	c.conns = slices.Delete(c.conns, 0, 1)
	return oldest
}

func (c *crowd) remove(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conns = slices.DeleteFunc(c.conns, func(other net.Conn) bool { return other == conn })
}
