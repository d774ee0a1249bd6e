// Package roles works out the least Roles and RoleBindings by which pods may read what their
// volumes hold.
//
// It does not know the API server. pkg/api/identity, which the driver uses too, chooses the
// identity that reads an object, and writes the Role of one object.
package roles

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/resource"
	"sigs.k8s.io/yaml"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/identity"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/selection"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/versions"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/copies"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/reloader"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
)

// Policy is which identity reads objects of the pods' namespace, as configured in the driver.
type Policy struct {
	identity.Readers

	// NamedCopies means that the rollout controller writes the names of copies into Roles that ask
	// for them. Otherwise pods that read copies need a Role for all objects of the kind.
	NamedCopies bool
	// SourceNamespaces are the other namespaces in which the caller consents to Roles, and "*" to
	// ClusterRoles. Any author of a workload can name any source: that a source is named is no
	// reason to grant it.
	SourceNamespaces []string
}

// Pods are the pods of one workload.
type Pods struct {
	Namespace, ServiceAccount string
	// Refs are what their volumes hold. One without a name is of all objects of the kind, and one
	// without a namespace too of all in the cluster: labels select among them.
	Refs []api.Ref
	// Triggers are what triggers rollouts of theirs. Pods read copies of that.
	Triggers []api.Ref
	// Copies are the copies that volumes hold now, with what they are of.
	Copies map[api.Ref]api.Ref
	// Released are those whose edits are released step by step. Pods read their stable copies too.
	Released []api.Ref
}

// Added describes what was added for pods.
type Added struct {
	// Copied are the sources whose copies they read by themselves.
	Copied []api.Ref
	// Foreign are the sources in namespaces without consent. They got no Role.
	Foreign []api.Ref
	// None is true if they need nothing else.
	None bool
}

// Grants collects what pods need.
type Grants struct {
	readers          identity.Readers
	namedCopies      bool
	sourceNamespaces []string
	needs            []need
}

// need is one object that an identity reads, or all of the kind if the ref has no name.
type need struct {
	id  identity.Identity
	ref api.Ref
	// withCopies means that the identity reads the copies of the object too.
	withCopies bool
}

// New returns no grants.
func New(policy Policy) *Grants {
	return &Grants{readers: policy.Readers, namedCopies: policy.NamedCopies, sourceNamespaces: policy.SourceNamespaces}
}

// Add adds what pods need.
func (g *Grants) Add(pods Pods) Added {
	added := Added{None: true}
	pod := api.Pod{Namespace: pods.Namespace, ServiceAccount: pods.ServiceAccount}
	for _, ref := range pods.Refs {
		if source, isCopy := pods.Copies[ref]; isCopy {
			ref = source
		}
		id := g.readers.Choose(pod, ref)
		if id == identity.Driver() {
			continue
		}
		if ref.Namespace != pods.Namespace && !g.consents(ref.Namespace) {
			added.Foreign = append(added.Foreign, ref)
			continue
		}
		added.None = false
		isCopied := slices.Contains(pods.Triggers, ref)
		if isCopied && !slices.Contains(added.Copied, ref) {
			added.Copied = append(added.Copied, ref)
		}
		if isCopied && !g.namedCopies {
			ref.Name = ""
		}
		g.need(need{id, ref, isCopied && g.namedCopies})
		if ref.Name != "" && slices.Contains(pods.Released, ref) {
			g.need(need{id: id, ref: release.StableOf(ref)})
		}
	}
	added.Foreign = distinct(added.Foreign)
	return added
}

// consents reports whether the caller consents to Roles in another namespace, or to ClusterRoles if
// it is empty.
func (g *Grants) consents(namespace string) bool {
	return slices.Contains(g.sourceNamespaces, cmp.Or(namespace, api.AllNamespaces))
}

// distinct returns each ref once.
func distinct(refs []api.Ref) []api.Ref {
	var once []api.Ref
	for _, ref := range refs {
		if !slices.Contains(once, ref) {
			once = append(once, ref)
		}
	}
	return once
}

// need adds a need, before those of objects without copies: one Role is for both.
func (g *Grants) need(n need) {
	switch {
	case slices.Contains(g.needs, n):
	case n.withCopies:
		g.needs = slices.Insert(g.needs, 0, n)
	default:
		g.needs = append(g.needs, n)
	}
}

// Objects returns each Role and RoleBinding once, each Role before its bindings.
func (g *Grants) Objects() ([]Object, error) {
	var objects []Object
	for _, n := range g.needs {
		whole := n
		whole.ref.Name, whole.withCopies = "", false
		if n != whole && slices.Contains(g.needs, whole) {
			continue
		}
		found, err := n.objects()
		if err != nil {
			return nil, err
		}
		for _, object := range found {
			if !slices.ContainsFunc(objects, func(o Object) bool { return o.String() == object.String() }) {
				objects = append(objects, object)
			}
		}
	}
	return objects, nil
}

func (n need) objects() ([]Object, error) {
	roleText, bindingText, _ := strings.Cut(identity.Grant(n.id, n.ref), "---\n")
	role, binding := &rbacv1.Role{}, &rbacv1.RoleBinding{}
	if err := yaml.UnmarshalStrict([]byte(roleText), role); err != nil {
		return nil, fmt.Errorf("read the Role for %s: %w", n.ref, err)
	}
	if err := yaml.UnmarshalStrict([]byte(bindingText), binding); err != nil {
		return nil, fmt.Errorf("read the RoleBinding for %s: %w", n.ref, err)
	}
	if n.ref.Namespace == "" {
		return cluster(role, binding), nil
	}
	if n.ref.Name == "" { // Nobody knows the names of copies before.
		rule := &role.Rules[0]
		rule.ResourceNames, rule.Verbs = nil, []string{"get", "list", "watch"}
		role.Name = "read-" + rule.Resources[0]
		binding.Name, binding.RoleRef.Name = role.Name+":"+n.id.Namespace+":"+n.id.ServiceAccount, role.Name
	}
	if n.withCopies {
		role.Annotations = map[string]string{copies.OfAnnotation: release.NameOf(n.ref)}
	}
	return []Object{{Object: role, Meta: &role.ObjectMeta}, {Object: binding, Meta: &binding.ObjectMeta}}, nil
}

// cluster returns a ClusterRole and its binding for what was read as a Role. Stable copies are read
// by their names.
func cluster(role *rbacv1.Role, binding *rbacv1.RoleBinding) []Object {
	role.Rules[0].Verbs = []string{"get", "list", "watch"}
	of := &rbacv1.ClusterRole{TypeMeta: role.TypeMeta, ObjectMeta: role.ObjectMeta, Rules: role.Rules}
	to := &rbacv1.ClusterRoleBinding{
		TypeMeta: binding.TypeMeta, ObjectMeta: binding.ObjectMeta, RoleRef: binding.RoleRef, Subjects: binding.Subjects,
	}
	return []Object{{Object: of, Meta: &of.ObjectMeta}, {Object: to, Meta: &to.ObjectMeta}}
}

// Object is a Role or a RoleBinding, or one of a cluster.
type Object struct {
	runtime.Object

	Meta *metav1.ObjectMeta
}

// String returns the object's kind, namespace and name.
func (o Object) String() string {
	return o.GetObjectKind().GroupVersionKind().Kind + " " + o.Meta.Namespace + "/" + o.Meta.Name
}

// KeepCopies copies the names of copies, and the annotation that asks the rollout controller for
// them, from the Role in the cluster to the wanted one, if that Role has the annotation. It copies
// nothing else: somebody else may have written the Role, and it may allow more.
func KeepCopies(wanted, live *rbacv1.Role) {
	source, found := sourceOf(wanted)
	if !found {
		return
	}
	listed, err := trigger.Parse(live.Annotations[copies.OfAnnotation])
	if err != nil || !slices.Contains(listed, source) {
		return
	}
	if wanted.Annotations == nil {
		wanted.Annotations = map[string]string{}
	}
	wanted.Annotations[copies.OfAnnotation] = live.Annotations[copies.OfAnnotation] // It can list more.
	rule := &wanted.Rules[0]
	for _, there := range live.Rules {
		if !isSameBesidesNames(*rule, there) {
			continue
		}
		names := slices.DeleteFunc(slices.Clone(there.ResourceNames), func(name string) bool {
			return name != source.Name && !copies.IsName(source.Name, name)
		})
		if !slices.Contains(names, source.Name) {
			names = slices.Insert(names, 0, source.Name)
		}
		rule.ResourceNames, rule.Verbs = names, there.Verbs // Another order of the verbs would be a conflict.
		return
	}
}

// sourceOf returns the object that a wanted Role names. It reports false for a Role that names none
// or several.
func sourceOf(wanted *rbacv1.Role) (api.Ref, bool) {
	if len(wanted.Rules) != 1 || len(wanted.Rules[0].ResourceNames) != 1 {
		return api.Ref{}, false
	}
	rule := wanted.Rules[0]
	for _, kind := range []api.Kind{api.ConfigMap, api.Secret} {
		if slices.Equal(rule.APIGroups, []string{corev1.GroupName}) &&
			slices.Equal(rule.Resources, []string{kind.Resource() + "s"}) {
			return api.Ref{Kind: kind, Name: rule.ResourceNames[0]}, true
		}
	}
	return api.Ref{}, false
}

func isSameBesidesNames(a, b rbacv1.PolicyRule) bool {
	isSame := func(a, b []string) bool {
		return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
	}
	return isSame(a.APIGroups, b.APIGroups) && isSame(a.Resources, b.Resources) && isSame(a.Verbs, b.Verbs) &&
		len(b.NonResourceURLs) == 0
}

// PodsOf returns what the volumes of a workload's pods hold, and how many volumes of the driver
// there are.
func PodsOf(info *resource.Info, w selection.Workload, driver string) (Pods, int, error) {
	pods := Pods{
		Namespace:      selection.NamespaceOfPods(info, w),
		ServiceAccount: cmp.Or(w.Template.Spec.ServiceAccountName, w.Template.Spec.DeprecatedServiceAccount, "default"),
	}
	var errs []error
	count := 0
	for i, v := range w.Template.Spec.Volumes {
		if v.CSI == nil || v.CSI.Driver != driver {
			continue
		}
		count++
		spec, err := api.Parse(v.CSI.VolumeAttributes, pods.Namespace)
		if err != nil {
			errs = append(errs, fmt.Errorf("spec.volumes[%d] (%s): %w", i, v.Name, err))
			continue
		}
		pods.Refs = append(append(pods.Refs, spec.Refs()...), spec.Ranges()...)
	}
	if text, _, found := reloader.Wanted(w.Meta.Annotations, w.Template); found {
		objects, err := trigger.Parse(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("the annotation %s %w", trigger.TriggeredBy, err))
		}
		for _, object := range objects {
			pods.Triggers = append(pods.Triggers, object.In(pods.Namespace))
		}
	}
	if config, err := trigger.ParseConfig(w.Template.Annotations[trigger.ConfigAnnotation]); err == nil {
		pods.Copies = versions.Originals(config, pods.Namespace)
	}
	return pods, count, errors.Join(errs...)
}
