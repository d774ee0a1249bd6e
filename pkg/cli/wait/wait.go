// Package wait is `kubectl liveconfig wait`.
//
// It does not know when a pod is current: that is up to pkg/cli/versions.
package wait

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/observe"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/selection"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/session"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/versions"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
)

type command struct {
	*session.Session
	selection.Selection

	driver     observe.Flags
	conditions []string
	timeout    time.Duration
}

// New returns the command.
func New(s *session.Session) *cobra.Command {
	o := &command{Session: s}
	c := &cobra.Command{
		Use:         "wait TYPE/NAME... --for=projected=OBJECT",
		Annotations: session.Kinds("deployment", "statefulset", "daemonset", "pod"),
		Short:       "Wait until all pods have the config that there is now",
		Long: "Waits until every running pod of a workload has the version of each OBJECT that the API server has when " +
			"the command\n" +
			"is given, or a later one. Of an object that triggers rollouts that is when no pod with another copy of " +
			"it is left.\n" +
			"With 0 replicas wanted there is nothing to wait for.\n\n" +
			"The exit code is 1 when that is not so after --timeout, and then the pods that lag are named.",
		Example: "  kubectl apply -f config.yaml && kubectl liveconfig wait deployment/web --for=projected=configmap/web\n" +
			"  kubectl liveconfig wait deployment/web --for=projected=configmap/web --for=projected=secret/tls --timeout=2m",
		RunE: func(c *cobra.Command, args []string) error { return o.run(c.Context(), args) },
	}
	o.AddClusterFlags(c)
	o.driver.AddFlags(c)
	c.Flags().StringArrayVar(&o.conditions, "for", nil,
		"what to wait for: projected=configmap/NAME or projected=secret/NAME; may be repeated")
	c.Flags().DurationVar(&o.timeout, "timeout", 30*time.Second, "how long to wait at most; 0 looks once")
	return c
}

func (o *command) run(ctx context.Context, args []string) error {
	objects, err := o.objects()
	if err != nil {
		return err
	}
	if o.timeout < 0 {
		return fmt.Errorf("--timeout %s is in the past", o.timeout)
	}
	asked, err := observe.New(o.Session, o.driver)
	if err != nil {
		return err
	}
	found, err := o.Workloads(o.Session, args)
	if err != nil {
		return err
	}
	var mu sync.Mutex // Lines of several workloads must not mix.
	out := *o.Session
	out.Out, out.ErrOut = &lockedWriter{mu: &mu, to: o.Out}, &lockedWriter{mu: &mu, to: o.ErrOut}
	limited := ctx
	if o.timeout > 0 { // It covers everything that is asked.
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("timed out after %s", o.timeout))
		defer cancel()
	}
	errs := make([]error, len(found))
	var all sync.WaitGroup
	asking := make(chan struct{}, atOnce)
	for i, one := range found {
		all.Go(func() {
			v := &waiter{Session: &out, cluster: asked, info: one.Info, objects: objects, once: o.timeout == 0, asking: asking}
			if err := v.wait(limited, one.Workload); err != nil {
				errs[i] = fmt.Errorf("%s: %w", selection.Subject(one.Info), err)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// atOnce is how many workloads are looked at at the same time. The others wait for their next look.
const atOnce = 32

// lockedWriter lets several goroutines write, one line after the other.
type lockedWriter struct {
	mu *sync.Mutex
	to io.Writer
}

// Write implements [io.Writer].
func (w *lockedWriter) Write(text []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(text)
}

func (o *command) objects() ([]api.Ref, error) {
	if len(o.conditions) == 0 {
		return nil, errors.New("name what to wait for, such as --for=projected=configmap/web")
	}
	var objects []api.Ref
	for _, condition := range o.conditions {
		text, ok := strings.CutPrefix(condition, "projected=")
		if !ok {
			return nil, fmt.Errorf("--for %q is not known: the condition is projected, such as --for=projected=configmap/web",
				condition)
		}
		found, err := trigger.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("--for %q: %w", condition, err)
		}
		objects = append(objects, found...)
	}
	slices.SortFunc(objects, trigger.Compare)
	return slices.Compact(objects), nil
}

type target struct {
	object api.Ref
	// seenFrom is the namespace of the workload.
	seenFrom string
	// copied is true if pods have copies of it.
	copied bool
	now    versions.Now
}

func (t *target) name() string {
	name := t.object.SeenFrom(t.seenFrom)
	if t.copied && len(t.now.Copies) > 0 {
		return name + " as " + t.now.Copies[len(t.now.Copies)-1]
	}
	return name + " at version " + t.now.Version.ResourceVersion + " or later"
}

// find reads the object. An object that does not exist is an error.
func (t *target) find(ctx context.Context, c *observe.Cluster) (versions.Now, error) {
	ask := c.Version
	if t.copied {
		ask = c.Content
	}
	found, err := ask(ctx, t.object)
	if err == nil && found.Version == nil {
		err = fmt.Errorf("%s does not exist", t.object)
	}
	return found, err
}

// follow accepts a newer state of the object: after a deletion the new object, and the copies of
// later contents.
func (t *target) follow(found versions.Now) {
	if found.Version.UID != t.now.Version.UID {
		t.now.Version, t.now.ChangedAt = found.Version, found.ChangedAt
	}
	for _, name := range found.Copies {
		if !slices.Contains(t.now.Copies, name) {
			t.now.Copies = append(t.now.Copies, name)
		}
	}
}
