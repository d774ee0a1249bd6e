package soak

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
)

// How many objects of each kind there are in the pods' namespace, and in the other one.
const (
	homeObjects = 9
	awayObjects = 4
)

// keys are those that objects have.
func keys() []string { return []string{"k0", "k1", "k2", "k3", "k4", "b0", "b1"} }

// Sizes of values.
const (
	smallSize = 60
	someSize  = 6 << 10
	bigSize   = 900 << 10
)

func (r *run) makeObjects() {
	for _, kind := range []string{configMap, secret} {
		for i := range homeObjects {
			r.makeObject(ref{kind, r.home, fmt.Sprintf("o%d", i)})
		}
		for i := range awayObjects {
			r.makeObject(ref{kind, r.away, fmt.Sprintf("a%d", i)})
		}
	}
}

func (r *run) makeObject(at ref) {
	o := newObject(at)
	r.objects[at] = o
	if r.rand.IntN(8) > 0 {
		r.create(o)
	}
}

// anyObject returns an object for which a condition holds, mostly one that live volumes use; nil if there is none.
func (r *run) anyObject(is func(*object) bool) *object {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []*object
	for _, o := range r.objects {
		all = append(all, o)
	}
	slices.SortFunc(all, func(a, b *object) int { return strings.Compare(a.String(), b.String()) })
	all = slices.DeleteFunc(all, func(o *object) bool { return !is(o) })
	if len(all) == 0 {
		return nil
	}
	inUse := map[ref]bool{}
	for w := range r.usedLocked() {
		inUse[w.ref] = true
	}
	used := slices.DeleteFunc(slices.Clone(all), func(o *object) bool { return !inUse[o.ref] })
	if len(used) > 0 && r.rand.IntN(4) > 0 { // More comes of those.
		all = used
	}
	return all[r.rand.IntN(len(all))]
}

func canChange(o *object) bool { return o.exists() && !o.immutable }
func isMissing(o *object) bool { return !o.exists() }
func exists(o *object) bool    { return o.exists() }

// randomVersion returns what an object may hold that is made again.
func (r *run) randomVersion(stamp int) version {
	next := version{}
	for _, key := range keys() {
		if r.rand.IntN(4) > 0 {
			next[key] = entry{stamp, r.rand.IntN(smallSize)}
		}
	}
	return next
}

// changed returns what an object holds after a change.
func (r *run) changed(o *object) version {
	stamp := len(o.versions)
	next := o.copyOfPresent()
	key := keys()[r.rand.IntN(len(keys()))]
	switch n := r.rand.IntN(40); {
	case n == 0:
		return version{}
	case len(next) == 0:
		return r.randomVersion(stamp)
	case n < 4:
		delete(next, key)
	case n < 8:
		next[key] = entry{stamp, r.rand.IntN(smallSize)}
	case n < 11:
		if old := o.versions[r.rand.IntN(len(o.versions))]; old != nil {
			return old // As an edit that takes a change back.
		}
		return r.randomVersion(stamp)
	case n < 14:
		return r.randomVersion(stamp)
	case n < 17:
		next[key] = entry{stamp, r.rand.IntN(someSize)}
	case n == 17:
		return version{"k0": {stamp, bigSize}, "k1": {stamp, 1}}
	default:
		for key, e := range next {
			next[key] = entry{stamp, min(e.size, someSize)}
		}
	}
	return next
}

// total is how long all values are together.
func (v version) total() (n int) {
	for _, e := range v {
		n += e.size
	}
	return n
}

// edit changes an object.
func (r *run) edit(o *object) {
	next := r.changed(o)
	if next.total() > bigSize+someSize {
		next = r.randomVersion(len(o.versions))
	}
	r.remember(o, next)
	r.write(o)
}

// remember is called before the request: readers may see the version before the API server has answered.
func (r *run) remember(o *object, next version) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o.versions = append(o.versions, next)
	r.log.note("  %s: version %d has %d keys, %d bytes", o.ref, o.latest(), len(next), next.total())
}

func (r *run) create(o *object) {
	r.mu.Lock()
	o.immutable = false
	r.mu.Unlock()
	r.remember(o, r.randomVersion(len(o.versions)))
	r.write(o)
}

// remove deletes an object.
func (r *run) remove(o *object) {
	r.mu.Lock()
	o.unwatched = o.unwatched || o.immutable
	o.immutable = false
	r.mu.Unlock()
	r.remember(o, nil)
	core := r.bench.Cluster.Client().CoreV1()
	deleteIt := core.ConfigMaps(o.namespace).Delete
	if o.kind == secret {
		deleteIt = core.Secrets(o.namespace).Delete
	}
	r.try("delete "+o.String(), func(ctx context.Context) error {
		return unless(apierrors.IsNotFound, deleteIt(ctx, o.name, metav1.DeleteOptions{}))
	})
}

// freeze makes an object immutable, as it is.
func (r *run) freeze(o *object) {
	r.mu.Lock()
	o.immutable = true
	r.mu.Unlock()
	r.write(o)
}

// annotate changes an object, but nothing of it that is in volumes.
func (r *run) annotate(o *object) {
	o.edits++
	r.write(o)
}

// write makes the object in the API server what it is in the model.
func (r *run) write(o *object) {
	meta := metav1.ObjectMeta{Name: o.name, Annotations: map[string]string{"edit": strconv.Itoa(o.edits)}}
	text, binary := map[string]string{}, map[string][]byte{}
	for key, e := range o.present() {
		if data := value(o.ref, key, e); isBinary(key) || o.kind == secret {
			binary[key] = data
		} else {
			text[key] = string(data)
		}
	}
	immutable := &o.immutable
	if !o.immutable {
		immutable = nil
	}
	core := r.bench.Cluster.Client().CoreV1()
	r.try("write "+o.String(), func(ctx context.Context) error {
		if o.kind == secret {
			return fixture.Put(ctx, core.Secrets(o.namespace), &corev1.Secret{ObjectMeta: meta, Data: binary, Immutable: immutable})
		}
		return fixture.Put(ctx, core.ConfigMaps(o.namespace),
			&corev1.ConfigMap{ObjectMeta: meta, Data: text, BinaryData: binary, Immutable: immutable})
	})
}

// someID returns a user or a group, or none.
func (r *run) someID() int {
	switch n := r.rand.IntN(4); {
	case n > 1:
		return -1
	case n == 1 || !r.owned:
		return 0
	}
	return 1000 + r.rand.IntN(2)
}

// newSpec returns what a volume is made of. Mostly it is all there.
func (r *run) newSpec(fsGroup int) spec {
	s := spec{
		policy:  []string{atomicPolicy, atomicPolicy, atomicPolicy, replacePolicy, inPlacePolicy, neverPolicy}[r.rand.IntN(6)],
		removes: r.rand.IntN(3) == 0, defaultMode: []int{0o644, 0o400, 0o440, 0o755}[r.rand.IntN(4)],
		uid: r.someID(), gid: r.someID(), fsGroup: fsGroup,
	}
	paths := map[string]bool{}
	for range 1 + r.rand.IntN(4) {
		o := r.anyObject(func(o *object) bool { return o.exists() || r.rand.IntN(4) == 0 })
		if o == nil {
			continue
		}
		if _, found := s.indexOf(o.ref); found {
			continue
		}
		src := source{ref: o.ref, optional: r.rand.IntN(3) == 0}
		if r.rand.IntN(2) == 0 {
			src.items = r.newItems(o, paths)
		}
		s.sources = append(s.sources, src)
	}
	if len(s.sources) == 0 {
		return r.newSpec(fsGroup)
	}
	return s
}

// newItems returns some items of an object, mostly of keys that it has, at paths that no others of the volume have.
func (r *run) newItems(o *object, taken map[string]bool) []item {
	var items []item
	for _, key := range keys() {
		if _, found := o.present()[key]; r.rand.IntN(2) == 0 || !found && r.rand.IntN(10) > 0 {
			continue
		}
		p := []string{key, "d0/" + key, "d0/sub/" + key, "d1/" + o.name + "-" + key, o.name + "." + key}[r.rand.IntN(5)]
		if taken[p] {
			continue
		}
		taken[p] = true
		mode := -1
		if r.rand.IntN(4) == 0 {
			mode = 0o600
		}
		items = append(items, item{key, p, mode})
	}
	return items
}

// accounts are the service accounts of the pods.
var accounts = [...]string{"ann", "bob", "cid"}

// makeAccess makes the service accounts, which may read everything, and the roles.
func (r *run) makeAccess() {
	for _, account := range accounts {
		expect.NoError(r.t, r.bench.Cluster.EnsureServiceAccount(r.t.Context(), r.home, account))
	}
	for _, namespace := range []string{r.home, r.away} {
		roles := r.bench.Cluster.Client().RbacV1().Roles(namespace)
		for _, l := range []level{getOnly, everything} {
			_, err := roles.Create(r.t.Context(), &rbacv1.Role{
				ObjectMeta: metav1.ObjectMeta{Name: l.String()},
				Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets", "configmaps"}, Verbs: l.verbs()}},
			}, metav1.CreateOptions{})
			expect.NoError(r.t, err)
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
		return unless(apierrors.IsNotFound, bindings.Delete(ctx, rd.account, metav1.DeleteOptions{}))
	})
	if l != nothing {
		r.try("bind "+rd.account, func(ctx context.Context) error {
			_, err := bindings.Create(ctx, &rbacv1.RoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: rd.account},
				RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: l.String()},
				Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: r.home, Name: rd.account}},
			}, metav1.CreateOptions{})
			return unless(apierrors.IsAlreadyExists, err)
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
