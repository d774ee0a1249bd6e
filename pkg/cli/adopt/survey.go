package adopt

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/admission"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/inventory"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/roles"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/selection"
)

// survey is what is known of the workloads of some namespaces. Of a workload, only what the report
// has stays in memory.
type survey struct {
	client  kubernetes.Interface
	convert admission.Policy
	roles   roles.Policy

	policy     installed
	namespaces []*Namespace
	byName     map[string]*Namespace
	// found are the workloads with volumes to convert, by UID.
	found map[types.UID]*Workload
	// needs are what the pods of workloads would read, by namespace.
	needs map[string][]roles.Pods
	// isReleased is whether edits of an object are released step by step.
	isReleased map[api.Ref]bool
}

func newSurvey(client kubernetes.Interface, convert admission.Policy, policy roles.Policy) *survey {
	return &survey{
		client: client, convert: convert, roles: policy, byName: map[string]*Namespace{},
		found: map[types.UID]*Workload{}, needs: map[string][]roles.Pods{}, isReleased: map[api.Ref]bool{},
	}
}

// read reads the namespaces of a scope and what is in them.
func (s *survey) read(ctx context.Context, scope selection.Scope) error {
	s.policy = findPolicy(ctx, s.client, s.convert.Driver)
	if err := s.readNamespaces(ctx, scope); err != nil {
		return err
	}
	if err := inventory.Each(ctx, s.client, scope, s.add); err != nil {
		return err
	}
	for _, n := range s.namespaces {
		slices.SortStableFunc(n.Workloads, func(a, b *Workload) int { return strings.Compare(a.Name, b.Name) })
	}
	return nil
}

func (s *survey) readNamespaces(ctx context.Context, scope selection.Scope) error {
	if scope.Namespace == "" {
		list := func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return s.client.CoreV1().Namespaces().List(ctx, o)
		}
		return inventory.Pages(ctx, "namespaces", scope, list, func(object runtime.Object) error {
			if n, ok := object.(*corev1.Namespace); ok && n.Name != early {
				s.addNamespace(n.Name, n.Labels[admission.Label])
			}
			return nil
		})
	}
	n, err := s.client.CoreV1().Namespaces().Get(ctx, scope.Namespace, metav1.GetOptions{})
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Errorf("you may not get namespace %s, which has the label; see kubectl auth can-i get namespace/%[1]s",
			scope.Namespace)
	case err != nil:
		return fmt.Errorf("read namespace %s: %w", scope.Namespace, err)
	}
	s.addNamespace(n.Name, n.Labels[admission.Label])
	return nil
}

func (s *survey) addNamespace(name, label string) {
	value := cmp.Or(s.convert.Value, label, admission.Values()[0])
	n := &Namespace{Name: name, Label: label, Value: value, Workloads: []*Workload{}, Missing: []Missing{}}
	s.namespaces, s.byName[name] = append(s.namespaces, n), n
}

// add judges a workload, or counts a pod for its workload.
func (s *survey) add(item inventory.Item) error {
	n := s.byName[item.Meta.Namespace]
	if n == nil { // It is not looked at, or younger than the list.
		return nil
	}
	if item.Owner != "" {
		if above := s.found[item.Owner]; item.Pod != nil && above != nil {
			above.count(item.Pod)
		}
		return nil
	}
	policy := s.convert
	policy.Namespace, policy.Value = n.Name, n.Value
	found := judge(policy, item.Kind, item.Workload)
	if len(found.Volumes) == 0 {
		return nil
	}
	if item.Pod != nil {
		found.count(item.Pod)
	}
	n.Workloads = append(n.Workloads, found)
	s.found[item.Meta.UID] = found
	return s.need(policy, item.Workload)
}

// need notes what the pods of a workload would read in volumes that the API server converts.
func (s *survey) need(policy admission.Policy, w selection.Workload) error {
	template := policy.Template(w)
	for i, v := range w.Template.Spec.Volumes {
		if v.CSI != nil { // It is live already, or of another driver.
			template.Spec.Volumes[i] = corev1.Volume{Name: v.Name}
		}
	}
	w.Template = &template
	pods, _, err := roles.PodsOf(infoOf(w), w, policy.Driver)
	if err != nil {
		return fmt.Errorf("%s/%s: %w", w.Meta.Namespace, w.Meta.Name, err)
	}
	s.needs[pods.Namespace] = append(s.needs[pods.Namespace], pods)
	return nil
}

// report returns what was found, without namespaces that have no volumes to convert.
func (s *survey) report() Report {
	r := Report{Policy: string(s.policy.state), Reason: s.policy.reason, Namespaces: []*Namespace{}}
	for _, n := range s.namespaces {
		if len(n.Workloads) > 0 || len(s.namespaces) == 1 {
			r.Namespaces = append(r.Namespaces, n)
		}
	}
	return r
}

// waits returns the Roles that are missing.
func (s *survey) waits() []Missing {
	var all []Missing
	for _, n := range s.namespaces {
		all = append(all, n.Missing...)
	}
	return all
}

// granted forgets what was missing.
func (s *survey) granted() {
	for _, n := range s.namespaces {
		n.Missing = []Missing{}
	}
}

// inNeed returns the namespaces whose pods would read something, in order.
func (s *survey) inNeed() []string { return slices.Sorted(maps.Keys(s.needs)) }
