package network

import (
	"context"
	"errors"
	"io"
	"net"
	"time"
)

// dialTimeout is long: the target is on the same machine.
const dialTimeout = 10 * time.Second

// chunk is how much is read at once, and so what [Link.Slow] delays as one.
const chunk = 64 << 10

// conn is one connection over a link: from a client, and to the target once that is reached.
type conn struct {
	link   *Link
	client *net.TCPConn
	target *net.TCPConn // Guarded by link.mu; nil until it is reached.
	isLost bool         // Guarded by link.mu. Neither end hears of the other one again.

	ctx  context.Context // Ends when the connection is to end, which happens under link.mu.
	stop context.CancelFunc
}

func (l *Link) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return // It is closed: the link is cut.
		}
		tcp, ok := client.(*net.TCPConn)
		if !ok {
			_ = client.Close() // A TCP listener accepts nothing else.
			continue
		}
		l.take(tcp)
	}
}

// take starts to serve a client, unless the link was cut meanwhile.
func (l *Link) take(client *net.TCPConn) {
	c := &conn{link: l, client: client}
	c.ctx, c.stop = context.WithCancel(context.WithoutCancel(l.ctx)) // The link's end resets it.
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mode == cut {
		c.reset()
		return
	}
	l.accepted++
	l.conns[c] = struct{}{}
	l.wg.Go(c.serve)
}

// serve connects the client with the target until either hangs up.
func (c *conn) serve() {
	defer c.remove()
	if !c.mayPass() {
		return
	}
	target, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(c.link.ctx, "tcp", c.link.target)
	if err != nil {
		return // The client is reset.
	}
	if !c.join(target) {
		return
	}
	back := make(chan struct{})
	c.link.wg.Go(func() {
		defer close(back)
		c.pump(c.client, c.target)
	})
	c.pump(c.target, c.client)
	<-back
}

// join makes target the other end, unless the connection is to end.
func (c *conn) join(target net.Conn) bool {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	tcp, ok := target.(*net.TCPConn)
	if c.ctx.Err() != nil || !ok {
		_ = target.Close() // Nothing was sent.
		return false
	}
	c.target = tcp
	return true
}

// pump carries what one end sends to the other one. An end that has no more to send says so to the other; one that
// fails ends the connection.
func (c *conn) pump(to, from *net.TCPConn) {
	buffer := make([]byte, chunk)
	for {
		n, err := from.Read(buffer)
		if c.lost() {
			<-c.ctx.Done() // An end that has given up is not news to the other one either.
			return
		}
		if n > 0 {
			if !c.mayPass() {
				return
			}
			if _, err := to.Write(buffer[:n]); err != nil {
				c.end()
				return
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			if !c.mayPass() || to.CloseWrite() != nil {
				c.end()
			}
			return
		case err != nil:
			c.end()
			return
		}
	}
}

func (c *conn) lost() bool {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	return c.isLost
}

// mayPass waits as long as the link holds things back, and reports whether there still is a connection then.
func (c *conn) mayPass() bool {
	_, latency, _ := c.link.state()
	if !wait(c.ctx, latency) {
		return false
	}
	for {
		mode, _, changed := c.link.state()
		if mode != frozen {
			return mode == passing
		}
		select {
		case <-changed:
		case <-c.ctx.Done():
			return false
		}
	}
}

// end resets both ends.
func (c *conn) end() {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	c.reset()
}

// remove ends the connection and forgets it.
func (c *conn) remove() {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	c.reset()
	delete(c.link.conns, c)
}

// reset drops both ends without a word: what is sent to them is answered with a reset. The link's lock is held.
func (c *conn) reset() {
	if c.ctx.Err() != nil {
		return
	}
	c.stop()
	for _, end := range []*net.TCPConn{c.client, c.target} {
		if end != nil {
			_ = end.SetLinger(0) // It fails if the connection has failed, and then there is nobody to reset.
			_ = end.Close()
		}
	}
}
