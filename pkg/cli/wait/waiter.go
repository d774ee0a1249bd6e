package wait

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilwait "k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/observe"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/selection"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/session"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/versions"
)

// pause is how long a node has until it is asked again, and a little more.
const pause = time.Second

type waiter struct {
	*session.Session

	cluster *observe.Cluster
	info    *resource.Info
	objects []api.Ref
	// among returns those of the places that were asked for.
	among func([]versions.Place) []versions.Place
	// once looks once and does not wait.
	once bool
	// asking has a place for each workload that may be looked at now.
	asking chan struct{}

	selector *observe.Selector
	targets  []*target
	// has are the pods, by UID, that had a target when they were last judged. Files do not age.
	reached  map[hold]bool
	isEnded  bool // The last look found a release that has ended.
	reported string
}

type hold struct {
	pod    string
	target *target
}

func (v *waiter) wait(ctx context.Context, w selection.Workload) error {
	if err := v.inTurn(ctx, func() error { return v.begin(ctx, w) }); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
		return err
	}
	return v.follow(ctx)
}

func (v *waiter) inTurn(ctx context.Context, ask func() error) error {
	select {
	case v.asking <- struct{}{}:
		defer func() { <-v.asking }()
		return ask()
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (v *waiter) begin(ctx context.Context, w selection.Workload) error {
	pods, err := v.cluster.FindPods(ctx, w, v.objects)
	if err != nil {
		return err
	}
	v.among, v.selector, v.reached = pods.Among, pods.Selector, map[hold]bool{}
	for object, isCopied := range observe.Copied(pods.All()) {
		t := &target{object: object, seenFrom: v.info.Namespace, copied: isCopied}
		t.now, err = t.find(ctx, v.cluster)
		if err != nil {
			return fmt.Errorf("it is not known what to wait for: %w", err)
		}
		t.now.OrNewer = true
		v.targets = append(v.targets, t)
	}
	slices.SortFunc(v.targets, func(a, b *target) int { return strings.Compare(a.object.String(), b.object.String()) })
	return nil
}

// follow looks at the pods until all have the targets. It looks again when a pod changes, and a
// second later anyway, also when the API server could not be asked.
func (v *waiter) follow(ctx context.Context) error {
	watch, err := v.selector.Watch(ctx)
	if err != nil {
		return err
	}
	defer watch.Stop()
	var last error // The result of the last look.
	for {
		var look snapshot
		err := v.inTurn(ctx, func() (err error) {
			look, err = v.look(ctx, watch)
			return err
		})
		switch {
		case ctx.Err() != nil && last != nil:
			return fmt.Errorf("%w: %w", context.Cause(ctx), last) // A look that was cut short knows less.
		case ctx.Err() != nil:
			return fmt.Errorf("%w: the API server and the drivers have not answered so far", context.Cause(ctx))
		case err != nil && (v.once || !session.MayPass(err)):
			return err
		case err != nil:
			v.report(fmt.Sprintf("will look again: %s", err))
			last = err
		case look.isDone():
			_, err := fmt.Fprintf(v.Out, "%s: %s\n", selection.Subject(v.info), look)
			return err
		case v.once, look.isEnded:
			return look.err()
		default:
			v.report(look.String())
			last = look.err()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), last)
		case err := <-watch.Failed:
			return err
		case <-watch.Changed:
		case <-time.After(utilwait.Jitter(pause, 0.5)):
		}
	}
}

func (v *waiter) look(ctx context.Context, watch *observe.Watch) (snapshot, error) {
	var l snapshot
	if err := v.refresh(ctx); err != nil {
		return l, err
	}
	all, err := v.selector.Own(ctx, watch.Pods())
	if err != nil {
		return l, err
	}
	running, _ := observe.Running(all)
	l.running, l.wanted = len(running), v.selector.Wanted()
	for _, t := range v.targets {
		l.names = append(l.names, t.name())
	}
	v.isEnded = false
	l.lags, err = v.judge(ctx, running)
	l.isEnded = v.isEnded
	return l, err
}

// refresh takes in what became of the workload and of the objects.
func (v *waiter) refresh(ctx context.Context) error {
	from := v.info.Client.Get().NamespaceIfScoped(v.info.Namespace, v.info.Namespaced())
	object, err := from.Resource(v.info.Mapping.Resource.Resource).Name(v.info.Name).Do(ctx).Get()
	switch {
	case apierrors.IsNotFound(err):
		return errors.New("it was deleted")
	case err != nil:
		return fmt.Errorf("get it: %w", err)
	}
	if err := v.info.Refresh(object, true); err != nil {
		return err
	}
	if err := selection.AsTyped(v.info); err != nil {
		return err
	}
	w, ok := selection.AsWorkload(v.info.Object)
	if !ok || w.Meta.UID != v.selector.Meta.UID {
		return errors.New("it was deleted and created again")
	}
	if w.Pod != nil && (w.Pod.Status.Phase == corev1.PodSucceeded || w.Pod.Status.Phase == corev1.PodFailed) {
		return fmt.Errorf("it has ended: it is %s", w.Pod.Status.Phase)
	}
	v.selector.Workload = w
	for _, t := range v.targets {
		found, err := t.find(ctx, v.cluster)
		if err != nil {
			return err
		}
		t.follow(found)
	}
	return nil
}

// judge returns the pods that do not have all targets, each with why. Only nodes of pods that may
// not are asked.
func (v *waiter) judge(ctx context.Context, pods []*corev1.Pod) ([]string, error) {
	asked := &observe.Workload{}
	for _, pod := range pods {
		places, err := versions.Places(pod.Annotations, &pod.Spec, pod.Namespace, v.cluster.Driver)
		if err != nil {
			return nil, fmt.Errorf("pod %s: %w", pod.Name, err)
		}
		if slices.ContainsFunc(v.targets, func(t *target) bool { return !v.reached[hold{string(pod.UID), t}] }) {
			asksNode := observe.HasVolume(v.among(slices.Clone(places)))
			asked.Running = append(asked.Running, &observe.Pod{Pod: pod, Places: places, AsksNode: asksNode})
		}
	}
	answers := v.cluster.Ask(ctx, []*observe.Workload{asked}, nil)
	var lags []string
	for _, pod := range asked.Running {
		answer, why := answers[pod.Spec.NodeName], ""
		switch {
		case answer.Err != nil && answer.Err.Forbidden:
			return nil, answer.Err
		case answer.Err != nil:
			why = answer.Err.Error()
		}
		if text := v.lag(pod.On(answer), pod.Places); text != "" {
			lags = append(lags, fmt.Sprintf("pod %s on node %s: %s", pod.Name, pod.Spec.NodeName, cmp.Or(why, text)))
		}
	}
	return lags, nil
}

func (v *waiter) lag(pod versions.Pod, places []versions.Place) string {
	var lags []string
	for _, t := range v.targets {
		has := hold{pod.UID, t}
		if v.reached[has] {
			continue
		}
		text, isEnded := t.lag(pod, places)
		v.isEnded = v.isEnded || isEnded
		if text == "" {
			v.reached[has] = true
			continue
		}
		lags = append(lags, t.object.Kind.Resource()+"/"+t.object.Name+": "+text)
	}
	return strings.Join(lags, ", ")
}

// lag returns why a pod does not have the target, and nothing if it does. If that has ended, only a
// person changes it.
func (t *target) lag(pod versions.Pod, places []versions.Place) (why string, isEnded bool) {
	found := false
	for _, place := range places {
		if place.Object != t.object {
			continue
		}
		found = true
		if verdict := pod.Judge(place, t.now); verdict.State != versions.Current {
			return fmt.Sprintf("it has %s: %s", cmp.Or(verdict.Has, "nothing of it"), verdict.Why), verdict.IsEnded
		}
	}
	if !found {
		return "it is of a revision that does not show it", false
	}
	return "", false
}

func (v *waiter) report(how string) {
	if how == v.reported {
		return
	}
	v.reported = how
	v.Remark("%s: %s", selection.Subject(v.info), how)
}

type snapshot struct {
	names   []string
	running int
	wanted  int
	lags    []string // The pods that do not have all, each with why.
	isEnded bool     // Some of them will not have all until a person does something.
}

func (l snapshot) isDone() bool { return len(l.lags) == 0 && (l.running > 0 || l.wanted == 0) }

func (l snapshot) String() string {
	what := strings.Join(l.names, " and ")
	switch {
	case l.running == 0 && l.wanted == 0:
		return "0 replicas wanted, 0 running"
	case l.running == 0:
		return "no pod of it runs yet"
	default:
		return fmt.Sprintf("%d of %d running pods have %s", l.running-len(l.lags), l.running, what)
	}
}

func (l snapshot) err() error {
	const most = 5
	parts := append([]string{l.String()}, l.lags...)
	if len(l.lags) > most {
		parts = append(parts[:1+most], fmt.Sprintf("and %d more", len(l.lags)-most))
	}
	return errors.New(strings.Join(parts, "; "))
}
