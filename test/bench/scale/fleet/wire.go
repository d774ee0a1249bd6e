package fleet

import (
	"context"
	"io"
	"net"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// dial makes a connection of the node's own. That a configuration has such a function is what keeps the client library from
// sharing connections between nodes.
func (n *node) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	n.crowd.note(func(r *Report) { r.Dialled++; r.Connected++ })
	return &conn{Conn: c, log: n.crowd.Log}, nil
}

// conn counts what comes.
type conn struct {
	net.Conn

	log  *Log
	once sync.Once
}

// Close is [io.Closer].
func (c *conn) Close() error {
	c.once.Do(func() { c.log.note(func(r *Report) { r.Connected-- }) })
	return c.Conn.Close()
}

// Read is [io.Reader].
func (c *conn) Read(p []byte) (int, error) {
	k, err := c.Conn.Read(p)
	c.log.note(func(r *Report) { r.Received += int64(k) })
	return k, err
}

// watched wraps a transport so that requests are noted, each try by itself, and watches as long as they are open.
func (n *node) watched(base http.RoundTripper) http.RoundTripper { return &wire{node: n, base: base} }

type wire struct {
	node *node
	base http.RoundTripper
}

var _ utilnet.RoundTripperWrapper = (*wire)(nil)

// WrappedRoundTripper is [utilnet.RoundTripperWrapper].
func (w *wire) WrappedRoundTripper() http.RoundTripper { return w.base }

// RoundTrip is [http.RoundTripper].
func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	request := Request{Node: w.node.number, Sent: time.Now()}
	request.Verb, request.Object = intent(r)
	response, err := w.base.RoundTrip(r)
	request.Answered = time.Now()
	if err == nil {
		request.Code = response.StatusCode
	}
	isOpen := request.Verb == Watch && request.Code == http.StatusOK
	w.node.crowd.note(func(r *Report) {
		r.Requests = append(r.Requests, request)
		if isOpen {
			r.Open++
		}
	})
	if isOpen {
		over := sync.OnceFunc(func() { w.node.crowd.note(func(r *Report) { r.Open-- }) })
		response.Body = &body{ReadCloser: response.Body, over: over}
	}
	return response, err
}

// intent returns what a request does with which object.
func intent(r *http.Request) (verb Verb, object string) {
	query := r.URL.Query()
	_, name, selects := strings.Cut(query.Get("fieldSelector"), metav1.ObjectNameField+"=")
	switch {
	case query.Has("watch"):
		return Watch, name
	case selects:
		return List, name
	}
	return Get, path.Base(r.URL.Path)
}

// body is that of a watch.
type body struct {
	io.ReadCloser

	over func()
}

// Read is [io.Reader].
func (b *body) Read(p []byte) (int, error) {
	k, err := b.ReadCloser.Read(p)
	if err != nil {
		b.over()
	}
	return k, err
}

// Close is [io.Closer].
func (b *body) Close() error {
	b.over()
	return b.ReadCloser.Close()
}
