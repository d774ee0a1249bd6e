package rollout

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/copies"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
)

// newRolesSite returns a site whose controller may write Roles and does not run yet. The service account web may read the
// Secret key, by a Role that its owner has made for the copies too.
func newRolesSite(t *testing.T, annotation string) *site {
	t.Helper()
	s := newIdleSite(t, "--roles")
	user := s.limit()
	rbac := s.client.RbacV1().Roles(s.namespace)
	own, err := rbac.Get(t.Context(), "controller", metav1.GetOptions{})
	expect.NoError(t, err)
	s.allow("controller", append(own.Rules, rbacv1.PolicyRule{
		APIGroups: []string{rbacv1.GroupName}, Resources: []string{"roles"}, Verbs: []string{"get", "list", "watch", "patch"},
	})...)
	action := authorizationv1.ResourceAttributes{Namespace: s.namespace, Verb: "patch", Group: rbacv1.GroupName, Resource: "roles"}
	expect.NoError(t, s.c.AwaitAccess(t.Context(), user, action))
	expect.NoError(t, s.c.EnsureServiceAccount(t.Context(), s.namespace, "web"))
	s.allow("web", rbacv1.PolicyRule{
		APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"key"}, Verbs: []string{"get", "list", "watch"},
	})
	if annotation != "" {
		s.kubectl("annotate", "role/web", copies.OfAnnotation+"="+annotation)
	}
	return s
}

// webWithKey is a Deployment whose pods read the Secret key as the service account web, and which has one old revision.
func webWithKey() string {
	return manifest("deployment", "web", append(secretVolume(), "      containers:", "      serviceAccountName: web\n      containers:",
		"  progressDeadlineSeconds:", "  revisionHistoryLimit: 1\n  progressDeadlineSeconds:")...)
}

// named returns the names in the Role of the service account web.
func (s *site) named() []string {
	s.t.Helper()
	role, err := s.client.RbacV1().Roles(s.namespace).Get(s.t.Context(), "web", metav1.GetOptions{})
	expect.NoError(s.t, err)
	return role.Rules[0].ResourceNames
}

// eventuallyNamed waits until the Role of the service account web has these names, in any order.
func (s *site) eventuallyNamed(want ...string) {
	s.t.Helper()
	s.eventually(func() error {
		got := s.named()
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			return fmt.Errorf("the Role names %q, want %q", got, want)
		}
		return nil
	})
}

// wantReads wants that pods of the service account web may read a Secret.
func (s *site) wantReads(web kubernetes.Interface, name string) {
	s.t.Helper()
	if _, err := web.CoreV1().Secrets(s.namespace).Get(s.t.Context(), name, metav1.GetOptions{}); err != nil {
		s.t.Errorf("to get secret %s as the pods' account: %v", name, err)
	}
}

// firstSeen follows the Role and the Deployment, and records in which version of the cluster each first had a name.
type firstSeen struct{ role, deployment map[string]int64 }

func (s *site) watchNames() (stop func() firstSeen) {
	s.t.Helper()
	seen := firstSeen{map[string]int64{}, map[string]int64{}}
	only := metav1.ListOptions{FieldSelector: "metadata.name=web"}
	roles, err := s.client.RbacV1().Roles(s.namespace).Watch(s.t.Context(), only)
	expect.NoError(s.t, err)
	deployments, err := s.client.AppsV1().Deployments(s.namespace).Watch(s.t.Context(), only)
	expect.NoError(s.t, err)
	note := func(in map[string]int64, name, version string) {
		number, err := strconv.ParseInt(version, 10, 64)
		if _, known := in[name]; !known && err == nil {
			in[name] = number
		}
	}
	done := make(chan struct{}, 2)
	go func() {
		for e := range roles.ResultChan() {
			if role, ok := e.Object.(*rbacv1.Role); ok {
				for _, name := range role.Rules[0].ResourceNames {
					note(seen.role, name, role.ResourceVersion)
				}
			}
		}
		done <- struct{}{}
	}()
	go func() {
		for e := range deployments.ResultChan() {
			if d, ok := e.Object.(*appsv1.Deployment); ok {
				note(seen.deployment, d.Spec.Template.Spec.Volumes[0].CSI.VolumeAttributes["secret"], d.ResourceVersion)
			}
		}
		done <- struct{}{}
	}()
	return func() firstSeen {
		roles.Stop()
		deployments.Stop()
		<-done
		<-done
		return seen
	}
}

// TestRoleNamesCopies has pods whose account may read one Secret get its copies, by a Role that the controller writes their
// names into: before the pods need them, and until the copies are gone.
//
// Fault 35.
func TestRoleNamesCopies(t *testing.T) {
	t.Parallel()
	s := newRolesSite(t, "secret/key")
	config, err := s.c.ServiceAccountConfig(t.Context(), s.namespace, "web")
	expect.NoError(t, err)
	web, err := kubernetes.NewForConfig(config)
	expect.NoError(t, err)
	stop := s.watchNames()
	s.key("one")
	s.apply(webWithKey())
	s.start()
	var made []string
	for _, value := range []string{"one", "two", "three"} {
		s.key(value)
		name := s.follows("web", "secret/key")[api.Ref{Kind: api.Secret, Name: "key"}]
		s.wantReads(web, name)
		made = append(made, name)
	}
	s.eventuallyNamed("key", made[1], made[2]) // The first copy went with its revision.
	s.undoes("deployment/web")
	if got := s.deployment("web").Spec.Template.Spec.Volumes[0].CSI.VolumeAttributes["secret"]; got != made[1] {
		t.Errorf("after the undo the template names %s, want %s", got, made[1])
	}
	s.wantReads(web, made[1])
	seen := stop()
	for _, name := range made {
		if in, at := seen.role[name], seen.deployment[name]; in == 0 || at == 0 || in >= at {
			t.Errorf("%s is in the Role from version %d on, and in the Deployment from %d on, want the Role first", name, in, at)
		}
	}
	if _, err := web.CoreV1().Secrets(s.namespace).List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("to list all Secrets as the pods' account: %v, want that it is forbidden", err)
	}
	if held := s.heldBack("web"); len(held) > 0 {
		t.Errorf("rollouts were held back: %q", held)
	}
	// A tool applies the owner's Role again.
	s.kubectl("patch", "role/web", "--type=json", `--patch=[{"op": "replace", "path": "/rules/0/resourceNames", "value": ["other", "key"]}]`)
	s.eventuallyNamed("other", "key", made[1], made[2])
	s.kubectl("annotate", "role/web", copies.OfAnnotation+"-")
	s.key("four")
	s.event("Deployment/web", rollout.ReasonHeldBack, "give it a Role that names key and has the annotation "+copies.OfAnnotation+"=secret/key")
	s.kubectl("annotate", "role/web", copies.OfAnnotation+"=secret/key")
	s.follows("web", "secret/key")
}

// heldBack returns the notes of the Events that report a change of a Deployment that waits.
func (s *site) heldBack(name string) []string {
	s.t.Helper()
	list, err := s.client.CoreV1().Events(s.namespace).List(s.t.Context(), metav1.ListOptions{})
	expect.NoError(s.t, err)
	var notes []string
	for _, e := range list.Items {
		if e.InvolvedObject.Kind == "Deployment" && e.InvolvedObject.Name == name && e.Reason == rollout.ReasonHeldBack {
			notes = append(notes, e.Message)
		}
	}
	return notes
}

// TestRoleThatCannotBeKept has the controller report on the Role what is wrong with it.
//
// Fault 35.
func TestRoleThatCannotBeKept(t *testing.T) {
	t.Parallel()
	s := newRolesSite(t, "secret/key,secret/kye")
	s.key("one")
	// A writer of a Role must have what the Role allows, and the controller may not create pods.
	s.apply(`
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: pods, annotations: {liveconfig.internal/copies-of: secret/key}}
rules:
- {apiGroups: [""], resources: [secrets], resourceNames: [key], verbs: [get]}
- {apiGroups: [""], resources: [pods], verbs: [create]}
`)
	s.apply(webWithKey())
	s.start()
	s.event("Role/web", rollout.ReasonHeldBack, "lists secret/kye, and no rule names it: add a rule with")
	s.event("Role/pods", rollout.ReasonHeldBack, "refuses to let role pods name the copies of secret/key")
	s.event("Deployment/web", rollout.ReasonHeldBack, "refuses to let role pods name the copies of secret/key")
	s.kubectl("delete", "role/pods")
	s.follows("web", "secret/key")
}

// TestRoleNamesNoOtherObject: a Secret that is no copy has the name of the next copy. Pods may not read it, and the rollout waits
// until it is gone.
func TestRoleNamesNoOtherObject(t *testing.T) {
	t.Parallel()
	s := newRolesSite(t, "secret/key")
	s.key("one")
	secrets := s.client.CoreV1().Secrets(s.namespace)
	source, err := secrets.Get(t.Context(), "key", metav1.GetOptions{})
	expect.NoError(t, err)
	taken := copies.Name("key", copies.DigestOf(source))
	s.apply("apiVersion: v1\nkind: Secret\nmetadata: {name: " + taken + "}\nstringData: {password: another}\n")
	s.apply(webWithKey())
	s.start()
	s.event("Deployment/web", rollout.ReasonHeldBack, "secret "+s.namespace+"/"+taken+" is not the copy that should have this name: delete it")
	s.eventuallyNamed("key")
	s.kubectl("delete", "secret/"+taken)
	s.follows("web", "secret/key")
	s.eventuallyNamed("key", taken)
}
