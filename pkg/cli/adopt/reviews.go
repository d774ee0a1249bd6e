package adopt

import (
	"context"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/roles"
	"github.com/liveconfig-csi/liveconfig/pkg/release/stable"
)

// mostReviews is how many objects of service accounts the command asks the API server about.
const mostReviews = 1000

// missing returns the Roles and RoleBindings without which pods would wait, and notes them in the
// report.
func (s *survey) missing(ctx context.Context) ([]roles.Object, error) {
	var all []roles.Object
	asked := 0
	for _, namespace := range s.inNeed() {
		wanted := roles.New(s.roles)
		for _, pods := range s.needs[namespace] {
			pods.Released = s.released(ctx, pods)
			wanted.Add(pods)
		}
		objects, err := wanted.Objects()
		if err != nil {
			return nil, err
		}
		if asked += len(objects) / 2; asked > mostReviews {
			return nil, fmt.Errorf("the pods would read more than %d objects with their service accounts, which are too many "+
				"to ask the API server about: name one namespace with -n, or use --kinds=configMaps", mostReviews)
		}
		denied, err := s.denied(ctx, s.byName[namespace], objects)
		if err != nil {
			return nil, err
		}
		all = append(all, denied...)
	}
	return all, nil
}

// released returns which objects that pods read by themselves are released, as far as the caller
// may read them. Pods then read a second object.
func (s *survey) released(ctx context.Context, pods roles.Pods) []api.Ref {
	var released []api.Ref
	for _, ref := range pods.Refs {
		if roles.New(s.roles).Add(roles.Pods{
			Namespace: pods.Namespace, ServiceAccount: pods.ServiceAccount, Refs: []api.Ref{ref},
		}).None {
			continue
		}
		is, known := s.isReleased[ref]
		if !known && len(s.isReleased) < mostReviews {
			found, err := stable.Read(ctx, s.client, ref)
			is = err == nil && found.IsReleased
			s.isReleased[ref] = is
		}
		if is {
			released = append(released, ref)
		}
	}
	return released
}

// denied returns the RoleBindings for what the API server denies service accounts, each after its
// Role.
func (s *survey) denied(ctx context.Context, n *Namespace, objects []roles.Object) ([]roles.Object, error) {
	var denied []roles.Object
	byName := map[string]roles.Object{}
	for _, object := range objects {
		binding, isBinding := object.Object.(*rbacv1.RoleBinding)
		if !isBinding {
			byName[object.Meta.Name] = object
			continue
		}
		roleObject := byName[binding.RoleRef.Name]
		role, _ := roleObject.Object.(*rbacv1.Role)
		allowed, err := s.allows(ctx, n.Name, binding.Subjects[0].Name, role.Rules[0])
		if err != nil {
			return nil, err
		}
		if allowed {
			continue
		}
		if !contains(denied, roleObject) {
			denied = append(denied, roleObject)
		}
		denied = append(denied, object)
		n.Missing = append(n.Missing, missingOf(binding.Subjects[0].Name, role.Rules[0]))
	}
	return denied, nil
}

func contains(objects []roles.Object, object roles.Object) bool {
	for _, o := range objects {
		if o.String() == object.String() {
			return true
		}
	}
	return false
}

func missingOf(account string, rule rbacv1.PolicyRule) Missing {
	object := rule.Resources[0]
	if len(rule.ResourceNames) > 0 {
		object = object[:len(object)-1] + "/" + rule.ResourceNames[0]
	}
	return Missing{ServiceAccount: account, Object: object, Verbs: rule.Verbs}
}

// allows asks whether a service account may do what a rule allows.
func (s *survey) allows(ctx context.Context, namespace, account string, rule rbacv1.PolicyRule) (bool, error) {
	name := ""
	if len(rule.ResourceNames) > 0 {
		name = rule.ResourceNames[0]
	}
	for _, verb := range rule.Verbs {
		review := &authorizationv1.LocalSubjectAccessReview{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace},
			Spec: authorizationv1.SubjectAccessReviewSpec{
				User:   "system:serviceaccount:" + namespace + ":" + account,
				Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
				ResourceAttributes: &authorizationv1.ResourceAttributes{
					Namespace: namespace, Verb: verb, Version: "v1", Resource: rule.Resources[0], Name: name,
				},
			},
		}
		answer, err := s.client.AuthorizationV1().LocalSubjectAccessReviews(namespace).Create(ctx, review,
			metav1.CreateOptions{})
		switch {
		case apierrors.IsForbidden(err):
			return false, fmt.Errorf("whether Roles are missing is not known: you may not create localsubjectaccessreviews in "+
				"namespace %s, which the ClusterRole admin allows; see kubectl -n %[1]s auth can-i create "+
				"localsubjectaccessreviews, or use --kinds=configMaps", namespace)
		case err != nil:
			return false, fmt.Errorf("ask whether service account %s/%s may %s %s %s: %w", namespace, account, verb,
				rule.Resources[0], name, err)
		case !answer.Status.Allowed:
			return false, nil
		}
	}
	return true, nil
}
