package describe

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/admission"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/inventory"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/observe"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/selection"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/versions"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/template"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
)

// Usage is the report on one ConfigMap or Secret: who uses it, and when an edit reaches them.
type Usage struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Exists and Released are of the object in the API. Unread explains why they are not known.
	Exists   bool   `json:"exists"`
	Released bool   `json:"released"`
	Unread   string `json:"unread,omitempty"`
	// AllNamespaces is whether pods of other namespaces were looked at, too.
	AllNamespaces bool     `json:"allNamespaces"`
	Uses          []PodUse `json:"uses"`

	ref    api.Ref
	labels map[string]string
}

// PodUse is one way in which pods of a workload use an object.
type PodUse struct {
	Namespace string `json:"namespace"`
	// Workload is such as deployment/web.
	Workload string `json:"workload"`
	// Pods counts the pods that use the object in this way now, and New is whether new pods do.
	Pods int  `json:"pods"`
	New  bool `json:"newPods"`
	// Names is the copy that the pods have instead of the object.
	Names string `json:"copy,omitempty"`
	// As is the place in the pod. Live is whether that is a volume of liveconfig.
	As      string `json:"as"`
	Live    bool   `json:"live"`
	Arrives string `json:"anEditArrives"`
}

// way is what uses of one kind have in common.
type way struct{ names, as, arrives string }

// usages collects the uses of objects.
type usages struct {
	*observe.Cluster

	all []*Usage
	// labels has the labels of namespaces that decide about the volumes of new pods.
	labels map[string]string
	// workloads has the names of workloads, and found the uses, by the UID of the workload.
	workloads map[types.UID]string
	found     map[*Usage]map[types.UID]map[way]*PodUse
}

// usagesOf finds out who uses objects among the workloads and pods of a scope.
func usagesOf(
	ctx context.Context, c *observe.Cluster, scope selection.Scope, objects []api.Ref,
) ([]*Usage, error) {
	u := &usages{
		Cluster: c, labels: map[string]string{}, workloads: map[types.UID]string{},
		found: map[*Usage]map[types.UID]map[way]*PodUse{},
	}
	for _, ref := range objects {
		one := &Usage{
			Kind: string(ref.Kind), Namespace: ref.Namespace, Name: ref.Name, AllNamespaces: scope.Namespace == "",
			Uses: []PodUse{}, ref: ref,
		}
		found, about, err := c.Metadata(ctx, ref)
		if err != nil {
			one.Unread = err.Error()
		}
		one.Exists = found.Version != nil
		_, one.Released = about.Annotations[release.Annotation]
		one.labels = about.Labels
		u.all, u.found[one] = append(u.all, one), map[types.UID]map[way]*PodUse{}
	}
	if err := inventory.Each(ctx, c.Client, scope, func(item inventory.Item) error {
		u.add(ctx, item)
		return nil
	}); err != nil {
		return nil, err
	}
	u.sort()
	return u.all, nil
}

// add adds the uses of a pod, and of the new pods of a workload.
func (u *usages) add(ctx context.Context, item inventory.Item) {
	owner := cmp.Or(item.Owner, item.Meta.UID)
	isWorkload := item.Owner == ""
	if isWorkload {
		u.workloads[owner] = item.Kind + "/" + item.Meta.Name
	}
	if item.Pod == nil && !isWorkload {
		return // A ReplicaSet or Job of a workload that is looked at.
	}
	spec := item.Template.Spec
	if item.Pod == nil {
		spec = u.converted(ctx, item)
	}
	for _, one := range u.all {
		for _, use := range u.uses(one, item.Template.Annotations, &spec, item.Meta.Namespace) {
			found := u.use(one, owner, item.Meta.Namespace, use)
			found.New = found.New || item.Pod == nil
			if item.Pod != nil && item.Pod.DeletionTimestamp == nil {
				found.Pods++
			}
		}
	}
}

func (u *usages) use(one *Usage, owner types.UID, namespace string, use PodUse) *PodUse {
	byWay := u.found[one][owner]
	if byWay == nil {
		byWay = map[way]*PodUse{}
		u.found[one][owner] = byWay
	}
	key := way{use.Names, use.As, use.Arrives}
	if byWay[key] == nil {
		use.Namespace, use.Workload = namespace, u.workloads[owner]
		byWay[key] = &use
	}
	return byWay[key]
}

// converted returns the pod spec of a workload as its new pods have it. A namespace that cannot be
// read counts as one without the label.
func (u *usages) converted(ctx context.Context, item inventory.Item) corev1.PodSpec {
	namespace := item.Meta.Namespace
	if _, known := u.labels[namespace]; !known {
		found, err := u.Client.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
		u.labels[namespace] = ""
		if err == nil {
			u.labels[namespace] = found.Labels[admission.Label]
		}
	}
	if u.labels[namespace] == "" {
		return item.Template.Spec
	}
	policy := admission.Policy{Driver: u.Driver, Namespace: namespace, Value: u.labels[namespace]}
	return policy.Template(item.Workload).Spec
}

// uses returns in which ways a pod uses an object.
func (u *usages) uses(one *Usage, annotations map[string]string, spec *corev1.PodSpec, namespace string) []PodUse {
	var all []PodUse
	// Places that cannot be read name nothing.
	places, _ := versions.Places(annotations, spec, namespace, u.Driver)
	volumes := volumesOf(spec, template.Place{Namespace: namespace, Driver: u.Driver}, nil)
	for _, place := range observe.Distinct(places) {
		at := slices.IndexFunc(volumes, func(v Volume) bool { return v.Name == place.Volume })
		shows := place.Object == one.ref || one.Exists && place.Object.Selects(one.ref, one.labels)
		if at < 0 || !shows {
			continue
		}
		all = append(all, live(one, place, volumes[at]))
	}
	if namespace != one.ref.Namespace {
		return all
	}
	config, _ := trigger.ParseConfig(annotations[trigger.ConfigAnnotation]) // A mistake names nothing.
	originals := versions.Originals(config, namespace)
	for _, other := range othersOf(spec, namespace) {
		ref, err := trigger.ParseObject(other.Object)
		if err != nil {
			continue
		}
		ref = ref.In(namespace)
		original := cmp.Or(originals[ref], ref)
		switch {
		case original != one.ref:
		case original != ref:
			all = append(all, PodUse{Names: ref.Name, As: place(other), Arrives: asRollout})
		default:
			all = append(all, PodUse{As: place(other), Arrives: arrival(other)})
		}
	}
	return all
}

const asRollout = "as a rollout"

// live describes a volume of liveconfig.
func live(one *Usage, place versions.Place, v Volume) PodUse {
	mounts := make([]string, len(v.Mounts))
	for i, m := range v.Mounts {
		mounts[i] = mount(m)
	}
	text := "live volume " + v.Name
	if len(mounts) > 0 {
		text += ": " + strings.Join(mounts, "; ")
	}
	use := PodUse{As: text, Live: true, Arrives: liveArrival(v)}
	switch {
	case place.IsCopy():
		use.Names, use.Arrives = place.Names.Name, asRollout
	case one.Released && use.Arrives != never:
		use.Arrives = "step by step, as a release"
	}
	return use
}

const never = "never: subPath"

func liveArrival(v Volume) string {
	isPart := func(m Mount) bool { return m.SubPath != "" }
	isWhole := func(m Mount) bool { return m.SubPath == "" }
	switch {
	case v.UpdatePolicy == string(api.UpdateNever):
		return "never: updatePolicy " + v.UpdatePolicy
	case v.UpdatePolicy == string(api.UpdateInPlace):
		return "at once, file by file in place"
	case !slices.ContainsFunc(v.Mounts, isPart):
		return "at once"
	case !slices.ContainsFunc(v.Mounts, isWhole):
		return never
	default:
		return "at once; in subPath mounts never"
	}
}

func isForeign(use PodUse, of *Usage) int {
	if use.Namespace != of.Namespace {
		return 1
	}
	return 0
}

// sort puts the uses in order: the namespace of the object first, and by workload and place.
func (u *usages) sort() {
	for one, byOwner := range u.found {
		for _, byWay := range byOwner {
			for use := range maps.Values(byWay) {
				one.Uses = append(one.Uses, *use)
			}
		}
		slices.SortFunc(one.Uses, func(a, b PodUse) int {
			return cmp.Or(isForeign(a, one)-isForeign(b, one), strings.Compare(a.Namespace, b.Namespace),
				strings.Compare(a.Workload, b.Workload), strings.Compare(a.As, b.As),
				strings.Compare(a.Arrives, b.Arrives), strings.Compare(a.Names, b.Names))
		})
	}
}
