package nodes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
)

// connection is a stream to a port of a pod. No port of this machine leads to it: others may be
// logged in here.
type connection struct {
	httpstream.Stream

	carrier httpstream.Connection
	// trouble receives the error that the node reports about the stream, empty for none.
	trouble chan string
}

// connect opens a stream to a driver. Dialling does not end with ctx by itself, so what comes too
// late is closed.
func (d *Drivers) connect(ctx context.Context, p pod) (*connection, error) {
	type result struct {
		c   *connection
		err error
	}
	came := make(chan result, 1)
	go func() {
		c, err := d.open(p)
		came <- result{c, err}
	}()
	select {
	case r := <-came:
		return r.c, r.err
	case <-ctx.Done():
		go func() {
			if r := <-came; r.err == nil {
				_ = r.c.Close() // Nobody wants it any more.
			}
		}()
		return nil, ctx.Err()
	}
}

// open opens a stream as `kubectl port-forward` does: two streams of one connection, of which one
// carries errors.
func (d *Drivers) open(p pod) (*connection, error) {
	carrier, err := d.dial(p)
	if err != nil {
		return nil, err
	}
	c := &connection{carrier: carrier, trouble: make(chan string, 1)}
	headers := http.Header{}
	headers.Set(corev1.PortHeader, strconv.Itoa(p.port))
	headers.Set(corev1.PortForwardRequestIDHeader, "0")
	headers.Set(corev1.StreamType, corev1.StreamTypeError)
	errs, err := carrier.CreateStream(headers)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open a stream for errors: %w", err), carrier.Close())
	}
	headers.Set(corev1.StreamType, corev1.StreamTypeData)
	c.Stream, err = carrier.CreateStream(headers)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open a stream: %w", err), carrier.Close())
	}
	go c.listen(errs)
	return c, nil
}

// dial reaches a pod by a WebSocket, or by SPDY where that is refused: by old clusters, and by some
// proxies.
func (d *Drivers) dial(p pod) (httpstream.Connection, error) {
	url := d.client.CoreV1().RESTClient().Post().
		Resource("pods").Namespace(d.namespace).Name(p.name).SubResource("portforward").URL()
	first, err := portforward.NewSPDYOverWebsocketDialerForStreaming(url, d.config)
	if err != nil {
		return nil, fmt.Errorf("prepare a WebSocket: %w", err)
	}
	carrier, protocol, errOfFirst := first.Dial(portforward.PortForwardProtocolV1Name)
	if errOfFirst == nil {
		return negotiated(carrier, protocol)
	}
	if !httpstream.IsUpgradeFailure(errOfFirst) && !httpstream.IsHTTPSProxyError(errOfFirst) {
		return nil, errOfFirst
	}
	transport, upgrader, err := spdy.RoundTripperFor(d.config)
	if err != nil {
		return nil, fmt.Errorf("prepare SPDY: %w", err)
	}
	second := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, url)
	carrier, protocol, err = second.Dial(portforward.PortForwardProtocolV1Name)
	if err != nil {
		return nil, cause(errOfFirst, err)
	}
	return negotiated(carrier, protocol)
}

// cause returns what keeps both ways of reaching a pod from working. Only the first has the kind of
// an error of the API server.
func cause(first, second error) error {
	var upgrade *httpstream.UpgradeFailureError
	isOfFirst := errors.As(first, &upgrade)
	switch {
	case isOfFirst && apierrors.IsForbidden(upgrade.Cause) && strings.Contains(second.Error(), "forbidden"):
		return upgrade.Cause
	case isOfFirst && apierrors.IsNotFound(upgrade.Cause) && strings.Contains(second.Error(), "not found"):
		return upgrade.Cause
	default:
		return fmt.Errorf("%w, and by SPDY: %w", first, second)
	}
}

// negotiated returns the connection if both ends use the same.
func negotiated(carrier httpstream.Connection, protocol string) (httpstream.Connection, error) {
	if protocol != portforward.PortForwardProtocolV1Name {
		return nil, errors.Join(fmt.Errorf("the API server forwards ports by the protocol %q, which is not known here", protocol), carrier.Close())
	}
	return carrier, nil
}

// listen receives the errors that the node reports. It ends with the connection.
func (c *connection) listen(errs httpstream.Stream) {
	_ = errs.Close()            // Nothing is written to it.
	text, _ := io.ReadAll(errs) // A text that was cut still helps.
	c.trouble <- strings.TrimSpace(string(text))
}

// explain returns the error that the node reports, or else the error that was seen here.
func (c *connection) explain(ctx context.Context, seen error) error {
	select {
	case text := <-c.trouble:
		if text != "" {
			return fmt.Errorf("the node cannot forward the port: %s", text)
		}
	case <-time.After(time.Second): // A node that reports an error does so before it ends the stream.
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return seen
}

// Close ends both directions, and the connection with them. A Read that waits returns.
func (c *connection) Close() error { return errors.Join(c.Reset(), c.carrier.Close()) }
