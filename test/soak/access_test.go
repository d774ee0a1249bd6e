package soak

import (
	"context"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
)

// accounts are the service accounts of the pods.
var accounts = [...]string{"ann", "bob", "cid"}

// makeAccess makes the service accounts, which may read everything, and the roles.
func (r *run) makeAccess() {
	for _, account := range accounts {
		must(r.t, r.bench.Cluster.EnsureServiceAccount(r.t.Context(), r.home, account))
	}
	for _, namespace := range []string{r.home, r.away} {
		roles := r.bench.Cluster.Client().RbacV1().Roles(namespace)
		for _, l := range []level{getOnly, everything} {
			_, err := roles.Create(r.t.Context(), &rbacv1.Role{
				ObjectMeta: metav1.ObjectMeta{Name: l.String()},
				Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets", "configmaps"}, Verbs: l.verbs()}},
			}, metav1.CreateOptions{})
			must(r.t, err)
		}
		for _, account := range accounts {
			r.access[reader{account, namespace}] = &access{}
			r.setAccess(reader{account, namespace}, everything)
		}
	}
}

func (l level) verbs() []string {
	if l == getOnly {
		return []string{"get"}
	}
	return []string{"get", "list", "watch"}
}

// setAccess lets a service account do something in a namespace, and returns when the API server knows.
func (r *run) setAccess(rd reader, l level) {
	a := r.access[rd]
	r.mu.Lock()
	r.log.note("  %s may do %s in %s", rd.account, l, rd.namespace)
	a.doubted, a.blindTo = true, nil // Between two bindings there is none.
	if l == nothing {
		a.level = nothing
	}
	r.mu.Unlock()
	r.bind(rd, l)
	r.mu.Lock()
	defer r.mu.Unlock()
	a.level, a.changed = l, time.Now()
}

func (r *run) bind(rd reader, l level) {
	bindings := r.bench.Cluster.Client().RbacV1().RoleBindings(rd.namespace)
	r.try("unbind "+rd.account, func(ctx context.Context) error {
		err := bindings.Delete(ctx, rd.account, metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
	if l != nothing {
		r.try("bind "+rd.account, func(ctx context.Context) error {
			_, err := bindings.Create(ctx, &rbacv1.RoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: rd.account},
				RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: l.String()},
				Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: r.home, Name: rd.account}},
			}, metav1.CreateOptions{})
			if apierrors.IsAlreadyExists(err) {
				return nil
			}
			return err
		})
	}
	user, c := cluster.ServiceAccountUser(r.home, rd.account), r.bench.Cluster
	to := func(verb string) authorizationv1.ResourceAttributes {
		return authorizationv1.ResourceAttributes{Namespace: rd.namespace, Verb: verb, Version: "v1", Resource: "secrets"}
	}
	for verb, isAllowed := range map[string]bool{"get": l != nothing, "watch": l == everything} {
		r.try("wait for the access of "+rd.account, func(ctx context.Context) error {
			if isAllowed {
				return c.AwaitAccess(ctx, user, to(verb))
			}
			return c.AwaitDenial(ctx, user, to(verb))
		})
	}
}

// anyReader returns a service account and a namespace.
func (r *run) anyReader() reader {
	return reader{accounts[r.rand.IntN(len(accounts))], []string{r.home, r.away}[r.rand.IntN(2)]}
}
