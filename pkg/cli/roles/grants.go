// Package roles works out the least Roles and RoleBindings by which pods may read what their
// volumes hold.
//
// It does not know the API server. pkg/driver/access, which the driver uses too, chooses the
// identity that reads an object, and writes the Role of one object.
package roles

import (
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/copies"
)

// Policy is which identity reads objects of the pods' namespace, as configured in the driver.
type Policy struct {
	ConfigMaps, Secrets access.Reader
	// NamedCopies means that the rollout controller writes the names of copies into Roles that ask
	// for them. Otherwise pods that read copies need a Role for all objects of the kind.
	NamedCopies bool
}

// Pods are the pods of one workload.
type Pods struct {
	Namespace, ServiceAccount string
	// Refs are what their volumes hold.
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
	// None is true if they need nothing.
	None bool
}

// Grants collects what pods need.
type Grants struct {
	authority   *access.Authority
	namedCopies bool
	needs       []need
}

// need is one object that an identity reads, or all of the kind if the ref has no name.
type need struct {
	id  access.Identity
	ref api.Ref
	// withCopies means that the identity reads the copies of the object too.
	withCopies bool
}

// New returns no grants.
func New(policy Policy) (*Grants, error) {
	authority, err := access.New(access.Config{
		Server: &rest.Config{}, ConfigMaps: policy.ConfigMaps, Secrets: policy.Secrets, // It chooses readers, and reads nothing.
	})
	if err != nil {
		return nil, err
	}
	return &Grants{authority: authority, namedCopies: policy.NamedCopies}, nil
}

// Add adds what pods need.
func (g *Grants) Add(pods Pods) Added {
	added := Added{None: true}
	pod := api.Pod{Namespace: pods.Namespace, ServiceAccount: pods.ServiceAccount}
	for _, ref := range pods.Refs {
		if source, isCopy := pods.Copies[ref]; isCopy {
			ref = source
		}
		id := g.authority.Choose(pod, ref)
		if id == access.Driver() {
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
	return added
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
	if n.ref.Name == "" {
		return n.all(), nil
	}
	roleText, bindingText, _ := strings.Cut(access.Grant(n.id, n.ref), "---\n")
	role, binding := &rbacv1.Role{}, &rbacv1.RoleBinding{}
	if err := yaml.UnmarshalStrict([]byte(roleText), role); err != nil {
		return nil, fmt.Errorf("read the Role for %s: %w", n.ref, err)
	}
	if err := yaml.UnmarshalStrict([]byte(bindingText), binding); err != nil {
		return nil, fmt.Errorf("read the RoleBinding for %s: %w", n.ref, err)
	}
	if n.withCopies {
		role.Annotations = map[string]string{copies.OfAnnotation: n.ref.Kind.Resource() + "/" + n.ref.Name}
	}
	return []Object{{Object: role, Meta: &role.ObjectMeta}, {Object: binding, Meta: &binding.ObjectMeta}}, nil
}

// all returns the grant of all objects of the kind in the namespace. Nobody knows the names of
// copies before.
func (n need) all() []Object {
	resource := n.ref.Kind.Resource() + "s"
	name := "read-" + resource
	role := &rbacv1.Role{
		TypeMeta:   typeOf("Role"),
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: n.ref.Namespace},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{resource}, Verbs: []string{"get", "list", "watch"}}},
	}
	binding := &rbacv1.RoleBinding{
		TypeMeta:   typeOf("RoleBinding"),
		ObjectMeta: metav1.ObjectMeta{Name: name + ":" + n.id.Namespace + ":" + n.id.ServiceAccount, Namespace: n.ref.Namespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: n.id.ServiceAccount, Namespace: n.id.Namespace}},
	}
	return []Object{{Object: role, Meta: &role.ObjectMeta}, {Object: binding, Meta: &binding.ObjectMeta}}
}

func typeOf(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
}

// Object is a Role or a RoleBinding.
type Object struct {
	runtime.Object

	Meta *metav1.ObjectMeta
}

// String returns the object's kind, namespace and name.
func (o Object) String() string {
	return o.GetObjectKind().GroupVersionKind().Kind + " " + o.Meta.Namespace + "/" + o.Meta.Name
}
