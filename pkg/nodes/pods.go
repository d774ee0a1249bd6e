package nodes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
)

// driverLabels are on the pods of the driver, whatever the release of the chart is called.
const driverLabels = "app.kubernetes.io/name=liveconfig,app.kubernetes.io/component=driver"

type pod struct {
	name, container string
	port            int
}

func (d *Drivers) known(node string) (p pod, isKnown bool) {
	value, _ := d.pods.Load(node)
	p, isKnown = value.(pod)
	return p, isKnown
}

// learn looks for the pods of the drivers of many nodes in the list of all, instead of one by one.
// It leaves out those that are not ready: find returns what is wrong.
func (d *Drivers) learn(ctx context.Context, nodes []string) {
	wanted := map[string]bool{}
	for _, node := range nodes {
		if _, isKnown := d.known(node); !isKnown {
			wanted[node] = true
		}
	}
	if len(wanted) <= fewNodes {
		return
	}
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return d.client.CoreV1().Pods(d.namespace).List(ctx, options)
	})
	pages.PageSize = pageSize
	_ = pages.EachListItem(ctx, metav1.ListOptions{LabelSelector: driverLabels}, func(o runtime.Object) error {
		p, isPod := o.(*corev1.Pod)
		if !isPod {
			return nil
		}
		if container, port := served(p); wanted[p.Spec.NodeName] && fitness(p) == ready && port > 0 {
			d.pods.Store(p.Spec.NodeName, pod{name: p.Name, container: container, port: port})
		}
		return nil
	}) // After an error find returns the same.
}

func (d *Drivers) find(ctx context.Context, node string) (pod, *Unavailable) {
	list, err := d.client.CoreV1().Pods(d.namespace).List(ctx, metav1.ListOptions{
		LabelSelector: driverLabels, FieldSelector: "spec.nodeName=" + node,
	})
	var p corev1.Pod
	if err == nil {
		p = slices.MaxFunc(append(list.Items, p), func(a, b corev1.Pod) int {
			return cmp.Or(cmp.Compare(fitness(&a), fitness(&b)), a.CreationTimestamp.Compare(b.CreationTimestamp.Time))
		})
	}
	container, port := served(&p)
	u := d.unavailable(node, "", nil)
	u.pod = p.Name
	switch {
	case apierrors.IsForbidden(err):
		u.Why = fmt.Sprintf("you may not look for its pod, which takes the verb list on pods in namespace %s", d.namespace)
		u.Type, u.Forbidden = fmt.Sprintf("kubectl -n %s auth can-i list pods", d.namespace), true
	case err != nil:
		u.Why, u.Err = "its pod cannot be looked for", err
	case p.Name == "":
		u.Why = fmt.Sprintf("no pod of it runs on the node in namespace %s; use --driver-namespace if it is in another",
			d.namespace)
	case fitness(&p) == going:
		u.Why = fmt.Sprintf("its pod %s is being deleted", p.Name)
	case fitness(&p) == starting:
		u.Why, u.Type = fmt.Sprintf("its pod %s does not run", p.Name),
			fmt.Sprintf("kubectl -n %s describe pod %s", d.namespace, p.Name)
	case port == 0:
		u.Why = fmt.Sprintf("its pod %s serves no HTTP: it is run without --http-endpoint", p.Name)
		u.Type = fmt.Sprintf("kubectl -n %s get pod %s -o yaml", d.namespace, p.Name)
	default:
		return pod{name: p.Name, container: container, port: port}, nil
	}
	return pod{}, u
}

// How far a pod of a driver is.
const (
	none = iota
	going
	starting
	running // Not ready, or marked so because its node was silent: it may answer all the same.
	ready
)

func fitness(p *corev1.Pod) int {
	isReady := slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
	switch {
	case p.Name == "":
		return none
	case p.DeletionTimestamp != nil:
		return going
	case !isReady && p.Status.Phase == corev1.PodRunning:
		return running
	case !isReady:
		return starting
	default:
		return ready
	}
}

// served returns which container of a driver's pod serves HTTP, and on which port; 0 if none does.
// The flag is what counts, and the port's name where the flag cannot be read.
func served(p *corev1.Pod) (container string, port int) {
	for _, c := range p.Spec.Containers {
		if endpoint, found := flag(slices.Concat(c.Command, c.Args), "http-endpoint"); found {
			if _, text, err := net.SplitHostPort(endpoint); err == nil {
				port, _ = strconv.Atoi(text) // Zero if it is not a number.
				return c.Name, port
			}
		}
	}
	for _, c := range p.Spec.Containers {
		for _, p := range c.Ports {
			if p.Name == "http" {
				return c.Name, int(p.ContainerPort)
			}
		}
	}
	return "", 0
}

// flag returns the value of a flag of a command line, of which the last counts.
func flag(words []string, name string) (value string, found bool) {
	for i, word := range words {
		bare := strings.TrimPrefix(strings.TrimPrefix(word, "-"), "-")
		switch text, given := strings.CutPrefix(bare, name+"="); {
		case bare == word:
		case given:
			value, found = text, true
		case bare == name && i+1 < len(words):
			value, found = words[i+1], true
		}
	}
	return value, found
}

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
	go func() { // It ends with the connection.
		_ = errs.Close()            // Nothing is written to it.
		text, _ := io.ReadAll(errs) // A text that was cut still helps.
		c.trouble <- strings.TrimSpace(string(text))
	}()
	return c, nil
}

// dial reaches a pod by a WebSocket, or by SPDY where that is refused: by old clusters, and by some
// proxies.
func (d *Drivers) dial(p pod) (httpstream.Connection, error) {
	url := d.client.CoreV1().RESTClient().Post().
		Resource("pods").Namespace(d.namespace).Name(p.name).SubResource("portforward").URL()
	first, errOfFirst := portforward.NewSPDYOverWebsocketDialerForStreaming(url, d.config)
	transport, upgrader, errOfSecond := spdy.RoundTripperFor(d.config)
	if err := errors.Join(errOfFirst, errOfSecond); err != nil {
		return nil, fmt.Errorf("prepare to forward a port: %w", err)
	}
	second := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, url)
	var refused error // Of the first.
	either := portforward.NewFallbackDialerForStreaming(first, second, func(err error) bool {
		if httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err) {
			refused = err
		}
		return refused != nil
	})
	carrier, protocol, err := either.Dial(portforward.PortForwardProtocolV1Name)
	switch {
	case err != nil && refused != nil:
		return nil, cause(refused, err)
	case err == nil && protocol != portforward.PortForwardProtocolV1Name:
		err := fmt.Errorf("the API server forwards ports by the protocol %q, which is not known here", protocol)
		return nil, errors.Join(err, carrier.Close())
	default:
		return carrier, err
	}
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
