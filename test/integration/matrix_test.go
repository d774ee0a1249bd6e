package integration

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/liveconfig-csi/liveconfig/test/kit/kubelet"
	"github.com/liveconfig-csi/liveconfig/test/kit/lab"
	"github.com/liveconfig-csi/liveconfig/test/kit/node"
)

// reader is who reads a source, and so what has to be granted to whom.
type reader string

const (
	byDriver reader = "driver" // Nothing: whoever may create the pod may mount it.
	byPod    reader = "pod"    // get, list and watch to the pod's service account, whose token is used.
	byReview reader = "review" // get to the pod's service account; the driver asks and reads.
)

// mode is a way to run the driver, with who reads what.
type mode struct {
	installation string // Below deploy.
	flags        []string
	readers      map[string]reader // By kind and «own» or «other» namespace.
}

func modes() map[string]mode {
	return map[string]mode{
		"default": {"base", nil, map[string]reader{
			"configMap own": byDriver, "configMap other": byPod, "secret own": byPod, "secret other": byPod,
		}},
		"strictest": {"base", []string{"--configmap-identity=pod"}, map[string]reader{
			"configMap own": byPod, "configMap other": byPod, "secret own": byPod, "secret other": byPod,
		}},
		"driver": {"overlays/driver-identity", nil, map[string]reader{
			"configMap own": byDriver, "configMap other": byReview, "secret own": byDriver, "secret other": byReview,
		}},
		"mixed": {"overlays/driver-identity", []string{"--configmap-identity=pod"}, map[string]reader{
			"configMap own": byPod, "configMap other": byPod, "secret own": byDriver, "secret other": byReview,
		}},
	}
}

// cell is one kind of source, in one namespace, read in one mode: with a namespace of its own and one volume.
type cell struct {
	*bench
	name   string
	reader reader
	kind   string
	source string // The source's namespace.
	driver string // The name of its CSIDriver object.
	pod    *corev1.Pod
	edits  int
}

// lifetimeKey is an annotation of pods whose tokens live shorter than others'.
const lifetimeKey = "lifetime"

// newCells starts a driver for each mode, with a CSIDriver object of its own.
func newCells(t *testing.T) []*cell {
	t.Helper()
	var cells []*cell
	for name, m := range modes() {
		first := newCorner(t)
		driver := name + "." + first.Namespace
		first.installCSIDriver(driver)
		args := append([]string{"--driver-name=" + driver, "--recheck-interval=2s", "--publish-timeout=200ms"}, m.flags...)
		n := lab.NodeOf(t, m.installation, args...)
		n.UseTokens(first.token)
		for place, r := range m.readers {
			c := &cell{bench: newCorner(t), name: name + ": " + place, reader: r, driver: driver}
			c.Node = n
			c.kind, _, _ = strings.Cut(place, " ")
			c.source = c.Namespace
			if strings.HasSuffix(place, "other") {
				c.source = c.otherNamespace()
			}
			c.edit()
			c.pod = c.newPod("web", "app")
			cells = append(cells, c)
		}
	}
	return cells
}

// token is the token of a pod, which may be a short one.
func (b *bench) token(ctx context.Context, pod *corev1.Pod) (authenticationv1.TokenRequestStatus, error) {
	text, ok := pod.Annotations[lifetimeKey]
	if !ok {
		return b.Cluster.PodToken(ctx, pod)
	}
	lifetime, err := time.ParseDuration(text)
	if err != nil {
		return authenticationv1.TokenRequestStatus{}, err
	}
	return b.Cluster.ShortToken(ctx, pod, lifetime)
}

// installCSIDriver makes a CSIDriver object as ours, under another name that every driver of the lab may read.
func (b *bench) installCSIDriver(name string) {
	b.T.Helper()
	objects := b.Cluster.Client().StorageV1().CSIDrivers()
	object, err := objects.Get(b.T.Context(), node.DriverName, metav1.GetOptions{})
	if err != nil {
		b.T.Fatal(err)
	}
	object.ObjectMeta = metav1.ObjectMeta{Name: name}
	if _, err := objects.Create(b.T.Context(), object, metav1.CreateOptions{}); err != nil {
		b.T.Fatal(err)
	}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{"storage.k8s.io"}, Resources: []string{"csidrivers"}, ResourceNames: []string{name},
		Verbs: []string{"get", "list", "watch"},
	}}}
	if _, err := b.Cluster.Client().RbacV1().ClusterRoles().Create(b.T.Context(), role, metav1.CreateOptions{}); err != nil {
		b.T.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:serviceaccounts:" + lab.DriverNamespace}},
	}
	if _, err := b.Cluster.Client().RbacV1().ClusterRoleBindings().Create(b.T.Context(), binding, metav1.CreateOptions{}); err != nil {
		b.T.Fatal(err)
	}
}

// newPod returns a pod of a service account of its own with the cell's source.
func (c *cell) newPod(name, account string) *corev1.Pod {
	c.T.Helper()
	if err := c.Cluster.EnsureServiceAccount(c.T.Context(), c.Namespace, account); err != nil {
		c.T.Fatal(err)
	}
	return c.PodOf(name, account, map[string]string{c.kind: "source", "namespace": c.source})
}

func (c *cell) value() string { return "edit " + strconv.Itoa(c.edits) }

// edit changes the source.
func (c *cell) edit() {
	c.T.Helper()
	c.edits++
	c.set(c.kind, c.source, "source", c.value())
}

// grant lets service accounts use verbs on the source, or on all of its kind when it is not named. It replaces what was
// granted before.
func (c *cell) grant(verbs, names []string, accounts ...string) {
	c.T.Helper()
	c.revoke()
	roles := c.Cluster.Client().RbacV1()
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "granted"}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{""}, Resources: []string{strings.ToLower(c.kind) + "s"}, ResourceNames: names, Verbs: verbs,
	}}}
	if _, err := roles.Roles(c.source).Create(c.T.Context(), role, metav1.CreateOptions{}); err != nil {
		c.T.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "granted"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "granted"},
	}
	for _, account := range accounts {
		binding.Subjects = append(binding.Subjects, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: c.Namespace, Name: account})
	}
	if _, err := roles.RoleBindings(c.source).Create(c.T.Context(), binding, metav1.CreateOptions{}); err != nil {
		c.T.Fatal(err)
	}
}

// revoke takes back everything.
func (c *cell) revoke() {
	c.T.Helper()
	everything := metav1.DeleteOptions{}
	roles := c.Cluster.Client().RbacV1()
	if err := roles.RoleBindings(c.source).DeleteCollection(c.T.Context(), everything, metav1.ListOptions{}); err != nil {
		c.T.Fatal(err)
	}
	if err := roles.Roles(c.source).DeleteCollection(c.T.Context(), everything, metav1.ListOptions{}); err != nil {
		c.T.Fatal(err)
	}
}

// wantCurrent wants the volume to hold the last edit.
func (c *cell) wantCurrent(pod *corev1.Pod, when string) {
	c.T.Helper()
	defer c.say(when)
	c.WantFile(pod, "key", c.value())
}

// say names the cell and the situation when the test fails.
func (c *cell) say(when string) {
	c.T.Helper()
	if c.T.Failed() {
		c.T.Logf("in %s, %s", c.name, when)
	}
}

// wantEnded wants the volume to be reported unwell, and its files to stay as they were before the last edit.
func (c *cell) wantEnded(pod *corev1.Pod, text string) {
	c.T.Helper()
	defer c.say("waiting for " + text)
	lab.Eventually(c.T, 2*soon, func() error { return c.unwell(pod, text) })
	c.WantFile(pod, "key", "edit "+strconv.Itoa(c.edits-1))
}

// unwell returns an error unless the volume is reported unwell with a text.
func (b *bench) unwell(pod *corev1.Pod, text string) error {
	b.T.Helper()
	health, err := b.Node.Node().NodeGetVolumeHealth(b.T.Context(),
		&csi.NodeGetVolumeHealthRequest{VolumeId: kubelet.VolumeID(pod, "config")})
	if err := b.Heard(err); err != nil {
		return fmt.Errorf("the health of the volume of pod %s is not told: %w", pod.Name, err)
	}
	if !strings.Contains(fmt.Sprint(health), text) {
		return fmt.Errorf("the health of the volume of pod %s is %v, want %q in it", pod.Name, health, text)
	}
	return nil
}

// wantNoEvent wants that no Event with the reason is on the pod.
func (b *bench) wantNoEvent(pod *corev1.Pod, reason string) {
	b.T.Helper()
	events, err := b.Cluster.Client().CoreV1().Events(b.Namespace).List(b.T.Context(),
		metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(pod.UID) + ",reason=" + reason})
	if err != nil || len(events.Items) > 0 {
		b.T.Errorf("Events %s: %v, %v, want none", reason, events.Items, err)
	}
}

// matrix does the same in all cells, so that they wait together.
type matrix []*cell

// of returns the cells whose source is read by one of the readers.
func (m matrix) of(readers ...reader) matrix {
	var some matrix
	for _, c := range m {
		for _, r := range readers {
			if c.reader == r {
				some = append(some, c)
			}
		}
	}
	return some
}

func (m matrix) each(do func(*cell)) {
	for _, c := range m {
		do(c)
	}
}

// watching are the verbs that a pod's service account needs.
func watching() []string { return []string{"get", "list", "watch"} }

// TestAccessMatrix goes through identity modes, kinds of sources and namespaces with everything that can happen to the
// access of a pod, which rule 19 leaves to the owner of the other namespace. It waits for many things, but for all cells
// at a time. This is fault 28.
func TestAccessMatrix(t *testing.T) {
	t.Parallel()
	all := matrix(newCells(t))
	named, asking := []string{"source"}, all.of(byPod, byReview)

	// Denied, and granted as the answer says: by resourceNames.
	all.of(byDriver).each(func(c *cell) { c.publishSoon(c.pod) })
	asking.each(func(c *cell) {
		c.apply(c.wantDenied(c.pod))
		c.publishSoon(c.pod)
	})
	all.each(func(c *cell) { c.wantCurrent(c.pod, "granted by the names of objects") })
	all.each((*cell).edit)
	all.each(func(c *cell) { c.wantCurrent(c.pod, "after an edit") })

	// Revoked, and regained. What the driver reads by itself is not affected.
	asking.each((*cell).revoke)
	asking.each(func(c *cell) { c.WantEvent(c.pod, "AccessLost", "the files stay as they are") })
	all.each((*cell).edit)
	asking.each(func(c *cell) { c.wantEnded(c.pod, "is forbidden") })
	all.of(byDriver).each(func(c *cell) { c.wantCurrent(c.pod, "whatever pods may") })
	asking.each(func(c *cell) { c.grant(watching(), named, "app") })
	all.each(func(c *cell) { c.wantCurrent(c.pod, "regained") })

	// Only get: a pod polls, and is told so; for a review it is all that is needed.
	asking.each(func(c *cell) { c.grant([]string{"get"}, named, "app") })
	all.of(byPod).each(func(c *cell) { c.WantEvent(c.pod, "Polling", "may get it but not watch it") })
	all.each((*cell).edit)
	all.each(func(c *cell) { c.wantCurrent(c.pod, "with get alone") })
	all.of(byReview).each(func(c *cell) { c.wantNoEvent(c.pod, "Polling") })

	// All objects of the kind, in the place of one by its name.
	asking.each(func(c *cell) { c.grant(watching(), nil, "app", "short", "gone", "other") })
	all.each((*cell).edit)
	all.each(func(c *cell) { c.wantCurrent(c.pod, "granted for all objects") })

	all.checkTokens()
	all.checkUnvouched()
}

// checkTokens is what happens to tokens: they expire, their pod is deleted, their service account is deleted. Only who
// reads with one is affected, and another pod's token of the same service account is as good.
func (m matrix) checkTokens() {
	short, gone, deleted := map[*cell]*corev1.Pod{}, map[*cell]*corev1.Pod{}, map[*cell]*corev1.Pod{}
	m.each(func(c *cell) {
		short[c], gone[c], deleted[c] = c.newPod("short", "short"), c.newPod("gone", "gone"), c.newPod("other", "other")
		short[c].Annotations = map[string]string{lifetimeKey: "20s"}
		c.publishSoon(short[c])
		c.publishSoon(gone[c])
		c.publishSoon(deleted[c])
		c.deletePod(gone[c])
		c.deletePod(c.pod) // Of which the next one is the heir.
		c.pod = c.heir()
		if err := c.Cluster.Client().CoreV1().ServiceAccounts(c.Namespace).Delete(c.T.Context(), "other", metav1.DeleteOptions{}); err != nil {
			c.T.Fatal(err)
		}
	})
	pods := m.of(byPod)
	// Some seconds go by, for which the API server remembers that a token was good.
	pods.each(func(c *cell) {
		lab.Eventually(c.T, 2*soon, func() error { return c.unwell(short[c], "no valid token is held") })
		lab.Eventually(c.T, 2*soon, func() error { return c.unwell(gone[c], "Unauthorized") })
		lab.Eventually(c.T, 2*soon, func() error { return c.unwell(deleted[c], "Unauthorized") })
	})
	m.each((*cell).edit)
	m.each(func(c *cell) { c.wantCurrent(c.pod, "with the token of another pod") })
	pods.each(func(c *cell) {
		c.wantEnded(short[c], "no valid token is held")
		c.wantEnded(gone[c], "Unauthorized")
		c.wantEnded(deleted[c], "Unauthorized")
	})
	m.of(byDriver, byReview).each(func(c *cell) {
		c.wantCurrent(short[c], "without tokens")
		c.wantCurrent(gone[c], "after the pod")
		c.wantCurrent(deleted[c], "after the service account")
	})
	pods.each(func(c *cell) { c.publishSoon(short[c]) }) // The kubelet repeats itself, with a new token.
	m.each(func(c *cell) { c.wantCurrent(short[c], "with a new token") })
}

// heir publishes another pod of the service account app, while the first one's volume is live but its token dead.
func (c *cell) heir() *corev1.Pod {
	c.T.Helper()
	first := c.pod
	next := c.newPod("heir", "app")
	c.publishSoon(next)
	c.edit()
	c.wantCurrent(first, "with the token of its heir")
	return next
}

// deletePod deletes a pod at the API server; its volume stays for a while.
func (c *cell) deletePod(pod *corev1.Pod) {
	c.T.Helper()
	now := int64(0)
	err := c.Cluster.Client().CoreV1().Pods(pod.Namespace).Delete(c.T.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now})
	if err != nil {
		c.T.Fatal(err)
	}
}

// checkUnvouched switches podInfoOnMount off and on: new volumes are refused meanwhile, live ones are served on.
func (m matrix) checkUnvouched() {
	drivers := map[string]*cell{}
	m.each(func(c *cell) { drivers[c.driver] = c })
	vouch := func(value bool) {
		for name, c := range drivers {
			patch := fmt.Appendf(nil, `{"spec": {"podInfoOnMount": %t}}`, value)
			_, err := c.Cluster.Client().StorageV1().CSIDrivers().Patch(c.T.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{})
			if err != nil {
				c.T.Fatal(err)
			}
		}
	}
	vouch(false)
	late := map[*cell]*corev1.Pod{}
	m.each(func(c *cell) {
		late[c] = c.newPod("late", "app")
		lab.Eventually(c.T, soon, func() error {
			err := c.TryPublish(c.T.Context(), late[c])
			if want := "podInfoOnMount: true; run: kubectl patch csidriver " + c.driver; status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), want) {
				c.Unpublish(late[c])
				return fmt.Errorf("want publish refused with %s, got: %w", want, err)
			}
			return nil
		})
		c.WantNothing(late[c], "a publish that nobody vouches for")
		c.publishSoon(c.pod)
		c.edit()
	})
	m.each(func(c *cell) { c.wantCurrent(c.pod, "while nobody vouches for new pods") })
	vouch(true)
	m.each(func(c *cell) {
		c.publishSoon(late[c])
		c.wantCurrent(late[c], "vouched for")
	})
}
