// Package fleet simulates nodes of a cluster, as far as the API server notices them: each has separate connections and
// credentials, and watches objects by the driver's source layer or in the kubelet's way. It is separate from test/kit/fakenodes, which
// plays what happens to pods, because here each watch is measured and no pod exists.
//
// It does not know where the API server runs, nor what is measured.
package fleet

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/kubeclient"
)

// Way is how nodes keep objects current.
type Way string

// The ways.
const (
	// Driver is the driver's source layer.
	Driver Way = "liveconfig"
	// Kubelet is a reflector per object with the settings of the kubelet's own volumes.
	Kubelet Way = "kubelet"
)

// Shared is the object that all nodes watch.
const Shared = "shared"

// Key is what objects have their value under.
const Key = "payload"

// Own names an object that one node watches.
func Own(node, i int) string { return fmt.Sprintf("own-%d-%d", node, i) }

// Agent is what the requests of a node say that they are from.
func Agent(node int) string { return "liveconfig-scale/" + strconv.Itoa(node) }

// Config says what the nodes do. All fields are required, but Own may be zero.
type Config struct {
	Way Way
	// Kubeconfigs is a folder with a file for each node, named by its number.
	Kubeconfigs string
	Namespace   string
	// Own is how many objects each node watches besides the shared one.
	Own int
}

// Crowd is some nodes.
type Crowd struct {
	*Log

	cfg   Config
	types *kubeclient.Types
	ctx   context.Context // Ends the nodes.
	stop  context.CancelFunc
	wg    sync.WaitGroup // Counts what the nodes run.

	// watches is how many the nodes are to have open.
	watches int
	// closers undo what nodes have acquired.
	closers []func()
}

// New returns a crowd of nobody. It ends with ctx, or when it is closed.
func New(ctx context.Context, cfg Config) (*Crowd, error) {
	types, err := kubeclient.New()
	if err != nil {
		return nil, err
	}
	// It has no log: of nodes whose API server is away that would be long.
	ctx, stop := context.WithCancel(klog.NewContext(ctx, klog.Logger{}))
	return &Crowd{Log: newLog(), cfg: cfg, types: types, ctx: ctx, stop: stop}, nil
}

// Start starts a node. It does not wait for anything.
func (c *Crowd) Start(number int) error {
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(c.cfg.Kubeconfigs, strconv.Itoa(number)))
	if err != nil {
		return fmt.Errorf("read how node %d reaches the API server: %w", number, err)
	}
	config.UserAgent = Agent(number)
	config.QPS = -1
	config.ContentType = "application/vnd.kubernetes.protobuf"
	n := &node{number: number, crowd: c}
	config.Dial = n.dial
	refs := []api.Ref{{Kind: api.ConfigMap, Namespace: c.cfg.Namespace, Name: Shared}}
	for i := range c.cfg.Own {
		refs = append(refs, api.Ref{Kind: api.ConfigMap, Namespace: c.cfg.Namespace, Name: Own(number, i)})
	}
	c.watches += len(refs)
	if c.cfg.Way == Kubelet {
		return n.reflect(config, refs)
	}
	return n.acquire(config, refs)
}

// AwaitOpen returns when all watches of all nodes are open, or ctx ends.
func (c *Crowd) AwaitOpen(ctx context.Context) error {
	if err := c.awaitOpen(ctx, c.watches); err != nil {
		return fmt.Errorf("wait for %d watches to be open: %w", c.watches, err)
	}
	return nil
}

// Release has all nodes give up what they watch, and waits until their watches are closed.
func (c *Crowd) Release(ctx context.Context) error {
	for _, f := range c.closers {
		f()
	}
	c.closers, c.watches = nil, 0
	return c.AwaitOpen(ctx)
}

// Close ends all nodes.
func (c *Crowd) Close() {
	c.stop()
	c.wg.Wait()
}

// node is one of them.
type node struct {
	number int
	crowd  *Crowd
}

// saw notes that the node knows a version of an object.
func (n *node) saw(object, value string) { n.crowd.see(n.number, object, value) }
