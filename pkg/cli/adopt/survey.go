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
	// owners are the workloads by UID, and owned has the UID of the owner of what makes their pods.
	owners map[types.UID]*Workload
	owned  map[types.UID]types.UID
	// needs are what the pods of workloads would read, by namespace.
	needs map[string][]roles.Pods
	// isReleased is whether edits of an object are released step by step.
	isReleased map[api.Ref]bool
}

func newSurvey(client kubernetes.Interface, convert admission.Policy, policy roles.Policy) *survey {
	return &survey{
		client: client, convert: convert, roles: policy, byName: map[string]*Namespace{},
		owners: map[types.UID]*Workload{}, owned: map[types.UID]types.UID{}, needs: map[string][]roles.Pods{},
		isReleased: map[api.Ref]bool{},
	}
}

// read reads the namespaces of a scope and what is in them.
func (s *survey) read(ctx context.Context, scope selection.Scope) error {
	s.policy = findPolicy(ctx, s.client, s.convert.Driver)
	if err := s.readNamespaces(ctx, scope); err != nil {
		return err
	}
	for _, list := range lists(s.client, scope.Namespace) {
		err := pages(ctx, list.plural, scope, list.fetch, func(object runtime.Object) error {
			if w, ok := selection.AsWorkload(object); ok {
				return s.add(list.kind, w)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	for _, n := range s.namespaces {
		slices.SortStableFunc(n.Workloads, func(a, b *Workload) int { return strings.Compare(a.Name, b.Name) })
	}
	return nil
}

func (s *survey) readNamespaces(ctx context.Context, scope selection.Scope) error {
	if scope.Namespace == "" {
		return pages(ctx, "namespaces", scope, func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return s.client.CoreV1().Namespaces().List(ctx, o)
		}, func(object runtime.Object) error {
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
func (s *survey) add(kind string, w selection.Workload) error {
	n := s.byName[w.Meta.Namespace]
	if n == nil { // It is not looked at, or younger than the list.
		return nil
	}
	if owner := s.ownerOf(w.Meta); owner != "" {
		s.owned[w.Meta.UID] = owner
		if w.Pod != nil {
			s.owners[owner].count(w.Pod)
		}
		return nil
	}
	if makesNoPods(w) {
		return nil
	}
	policy := s.convert
	policy.Namespace, policy.Value = n.Name, n.Value
	found := judge(policy, kind, w)
	s.owners[w.Meta.UID] = found
	if len(found.Volumes) == 0 {
		return nil
	}
	if w.Pod != nil {
		found.count(w.Pod)
	}
	n.Workloads = append(n.Workloads, found)
	return s.need(policy, w)
}

// ownerOf returns the UID of the workload that an object is of, or "" if the object stands for
// itself. A ReplicaSet that a controller unknown to the plugin owns stands for itself.
func (s *survey) ownerOf(object *metav1.ObjectMeta) types.UID {
	controller := metav1.GetControllerOfNoCopy(object)
	if controller == nil {
		return ""
	}
	uid := controller.UID
	if above, found := s.owned[uid]; found {
		uid = above
	}
	if s.owners[uid] == nil {
		return ""
	}
	return uid
}

// need notes what the pods of a workload would read in volumes that the API server converts.
func (s *survey) need(policy admission.Policy, w selection.Workload) error {
	template := policy.Template(*w.Template)
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
