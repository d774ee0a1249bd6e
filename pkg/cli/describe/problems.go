package describe

import (
	"context"
	"io"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/cluster"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/describe/description"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/selection"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/usage"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/versions"
)

// listProblems prints what is wrong with the volumes of all pods.
func (o *command) listProblems(ctx context.Context, asked *cluster.Cluster, args []string) error {
	scope, err := o.Scope(o.Session, "--problems", args)
	if err != nil {
		return err
	}
	if o.output.Name == "wide" {
		return usage.Errorf("-o wide shows all pods and --problems some: leave one out")
	}
	found, err := newDescriber(asked).problems(ctx, scope)
	if err != nil {
		return err
	}
	if o.output.IsEncoded() {
		return o.output.Encode(o.Out, found)
	}
	text := description.Text{Now: time.Now()}
	return o.write(func(page io.Writer) error { return text.PrintProblems(page, found) })
}

// problems looks at the pods of a scope as at those of one workload, without what is the same for
// pods of a template.
func (t *describer) problems(ctx context.Context, scope selection.Scope) (description.Problems, error) {
	all, looked, err := t.Pods(ctx, scope)
	if err != nil {
		return description.Problems{}, err
	}
	d := &report{describer: t, places: map[string][]versions.Place{}, facts: map[api.Ref]description.Fact{}}
	var waiting []*corev1.Pod
	for _, pod := range all {
		d.addPod(pod)
		if pod.Status.Phase == corev1.PodPending {
			waiting = append(waiting, pod)
		}
	}
	d.askNodes(ctx)
	d.askAPI(ctx)
	d.judgePods()
	mounts := t.FailedMounts(ctx, scope.Namespace, waiting)
	found := description.Problems{Looked: looked, Problems: []description.Problem{}, Unknown: slices.Concat([]description.Unknown{}, d.Unknown)}
	for i, pod := range d.running {
		found.Add(pod.Namespace, d.Pods[i], description.Waiting{Since: pod.CreationTimestamp.Time, Why: mounts[string(pod.UID)]}, d.volumesOf(pod))
	}
	return found, ctx.Err()
}
