package driver

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/fakekubelet"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
	"github.com/liveconfig-csi/liveconfig/test/kit/node"
)

// reader is the identity that reads a source, and that rights have to be granted to.
type reader string

const (
	byDriver reader = "driver" // Nothing: anyone who may create the pod may mount it.
	byPod    reader = "pod"    // get, list and watch to the pod's service account, whose token is used.
	byReview reader = "review" // get to the pod's service account; the driver asks and reads.
)

// mode is a way to run the driver, with the identities that read.
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

// cell is one kind of source, in one namespace, read in one mode: with a separate namespace and one volume.
type cell struct {
	*rig
	name   string
	reader reader
	kind   string
	source string // The source's namespace.
	pod    *corev1.Pod
	edits  int
}

// lifetimeKey is an annotation of pods whose tokens live shorter than others'. A token with a negative lifetime is as good as
// others; it only looks expired, as on a node whose clock is ahead.
const lifetimeKey = "lifetime"

// running is a driver that was started in a mode.
type running struct {
	mode
	name string
	node *node.Node
}

// startModes starts a driver for each mode, with a separate CSIDriver object.
func startModes(t *testing.T) []*running {
	t.Helper()
	var all []*running
	for name, m := range modes() {
		first := &rig{fixture.NewBare(t)}
		driver := name + "." + first.Namespace
		installCSIDriver(first.Fixture, driver)
		args := append([]string{"--driver-name=" + driver, "--recheck-interval=2s", "--publish-timeout=200ms"}, m.flags...)
		n := environment.NodeOf(t, m.installation, args...)
		n.UseTokens(first.token)
		all = append(all, &running{mode: m, name: name, node: n})
	}
	return all
}

// newCells makes one cell for each kind of source and namespace of each driver. A driver may serve several sets of cells.
func newCells(t *testing.T, drivers []*running) matrix {
	t.Helper()
	var cells matrix
	for _, d := range drivers {
		for place, r := range d.readers {
			c := &cell{rig: &rig{fixture.NewBare(t)}, name: d.name + ": " + place, reader: r}
			c.Node = d.node
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
func (b *rig) token(ctx context.Context, pod *corev1.Pod) (authenticationv1.TokenRequestStatus, error) {
	text, ok := pod.Annotations[lifetimeKey]
	if !ok {
		return b.Cluster.PodToken(ctx, pod)
	}
	lifetime, err := time.ParseDuration(text)
	if err != nil {
		return authenticationv1.TokenRequestStatus{}, err
	}
	if lifetime < 0 {
		status, err := b.Cluster.PodToken(ctx, pod)
		status.ExpirationTimestamp = metav1.NewTime(time.Now().Add(lifetime))
		return status, err
	}
	return b.Cluster.ShortToken(ctx, pod, lifetime)
}

// newPod returns a pod of a separate service account with the cell's source.
func (c *cell) newPod(name, account string) *corev1.Pod {
	c.T.Helper()
	expect.NoError(c.T, c.Cluster.EnsureServiceAccount(c.T.Context(), c.Namespace, account))
	return c.PodOf(name, account, map[string]string{c.kind: "source", "namespace": c.source})
}

func (c *cell) value() string { return "edit " + strconv.Itoa(c.edits) }

// edit changes the source.
func (c *cell) edit() {
	c.T.Helper()
	c.edits++
	c.set(c.kind, c.source, "source", c.value())
}

// remove deletes the source.
func (c *cell) remove() {
	c.T.Helper()
	core := c.Cluster.Client().CoreV1()
	deleteIt := core.ConfigMaps(c.source).Delete
	if c.kind == "secret" {
		deleteIt = core.Secrets(c.source).Delete
	}
	expect.NoError(c.T, deleteIt(c.T.Context(), "source", metav1.DeleteOptions{}))
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
	expect.NoError(c.T, roles.RoleBindings(c.source).DeleteCollection(c.T.Context(), everything, metav1.ListOptions{}))
	expect.NoError(c.T, roles.Roles(c.source).DeleteCollection(c.T.Context(), everything, metav1.ListOptions{}))
}

// wantCurrent wants the volume to hold the last edit.
func (c *cell) wantCurrent(pod *corev1.Pod, when string) {
	c.T.Helper()
	defer c.nameFailure(when)
	c.WantFile(pod, "key", c.value())
}

// nameFailure names the cell and the situation when the test fails.
func (c *cell) nameFailure(when string) {
	c.T.Helper()
	if c.T.Failed() {
		c.T.Logf("in %s, %s", c.name, when)
	}
}

// wantEnded wants the volume to be reported unwell, and its files to stay as they were before the last edit.
func (c *cell) wantEnded(pod *corev1.Pod, text string) {
	c.T.Helper()
	defer c.nameFailure("waiting for " + text)
	expect.Eventually(c.T, 2*fixture.Soon, func() error { return c.unwell(pod, text) })
	c.WantFile(pod, "key", "edit "+strconv.Itoa(c.edits-1))
}

// unwell returns an error unless the volume is reported unwell with a text.
func (b *rig) unwell(pod *corev1.Pod, text string) error {
	b.T.Helper()
	health, err := b.Node.Node().NodeGetVolumeHealth(b.T.Context(),
		&csi.NodeGetVolumeHealthRequest{VolumeId: fakekubelet.VolumeID(pod, "config")})
	if err := b.Heard(err); err != nil {
		return fmt.Errorf("the health of the volume of pod %s is not known: %w", pod.Name, err)
	}
	if !strings.Contains(fmt.Sprint(health), text) {
		return fmt.Errorf("the health of the volume of pod %s is %v, want %q in it", pod.Name, health, text)
	}
	return nil
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

// chapters returns checks that run in parallel. Each has its own cells, and so its own watches: the driver retries a watch
// later the more often it was refused.
func chapters() map[string]func(matrix) {
	return map[string]func(matrix){
		"lost and regained": matrix.checkLoss, "get alone": matrix.checkGetAlone, "tokens": matrix.checkTokens,
	}
}

// TestAccessMatrix goes through identity modes, kinds of sources and namespaces with everything that can happen to the
// access of a pod, which rule 19 leaves to the owner of the other namespace. It waits for many things, but for all cells
// and all chapters at a time. This is fault 28.
func TestAccessMatrix(t *testing.T) {
	t.Parallel()
	drivers := startModes(t)
	for name, check := range chapters() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(newCells(t, drivers))
		})
	}
}

// asking returns the cells in which a pod's service account needs to be granted something.
func (m matrix) asking() matrix { return m.of(byPod, byReview) }

// publishGranted publishes the volumes of pods that may read their sources.
func (m matrix) publishGranted(names []string, accounts ...string) {
	m.asking().each(func(c *cell) { c.grant(watching(), names, accounts...) })
	m.each(func(c *cell) { publishSoon(c.Fixture, c.pod) })
	m.each(func(c *cell) { c.wantCurrent(c.pod, "granted") })
}

// named is the source, as roles name it.
func named() []string { return []string{"source"} }

// checkLoss goes from denied access to access that is granted as in the answer, revoked, and granted again.
func (m matrix) checkLoss() {
	asking := m.asking()
	// Denied, and granted as in the answer: by resourceNames.
	m.of(byDriver).each(func(c *cell) { publishSoon(c.Fixture, c.pod) })
	asking.each(func(c *cell) {
		c.apply(c.wantDenied(c.pod))
		publishSoon(c.Fixture, c.pod)
	})
	m.each(func(c *cell) { c.wantCurrent(c.pod, "granted by the names of objects") })
	m.each((*cell).edit)
	m.each(func(c *cell) { c.wantCurrent(c.pod, "after an edit") })

	// Revoked, and regained. What the driver reads by itself is not affected.
	asking.each((*cell).revoke)
	asking.each(func(c *cell) { c.WantEvent(c.pod, "AccessLost", "the files stay as they are") })
	m.each((*cell).edit)
	asking.each(func(c *cell) { c.wantEnded(c.pod, "is forbidden") })
	m.of(byDriver).each(func(c *cell) { c.wantCurrent(c.pod, "whatever pods may") })
	asking.each(func(c *cell) { c.grant(watching(), named(), "app") })
	m.each(func(c *cell) { c.wantCurrent(c.pod, "regained") })

	// All objects of the kind, in the place of one by its name.
	asking.each(func(c *cell) { c.grant(watching(), nil, "app") })
	m.each((*cell).edit)
	m.each(func(c *cell) { c.wantCurrent(c.pod, "granted for all objects") })
}

// checkGetAlone takes list and watch away, and grants them again. Meanwhile the driver polls for a pod and reports that in
// an Event; for a review it needs no more than get.
func (m matrix) checkGetAlone() {
	m.publishGranted(named(), "app")
	m.asking().each(func(c *cell) { c.grant([]string{"get"}, named(), "app") })
	m.of(byPod).each(func(c *cell) { c.WantEvent(c.pod, "Polling", "may get it but not watch it") })
	m.each((*cell).edit)
	m.each(func(c *cell) { c.wantCurrent(c.pod, "with get alone") })
	m.of(byReview).each(func(c *cell) {
		if events := eventsOf(c.Fixture, c.pod, "Polling"); len(events) > 0 {
			c.T.Errorf("Events in %s: %v, want none that says Polling", c.name, events)
		}
	})

	// The API server's 404 for a get is the word that the object is gone.
	m.each((*cell).remove)
	m.each(func(c *cell) { c.WantEvent(c.pod, "SourceMissing", "not found") })
	m.each((*cell).edit)
	m.each(func(c *cell) { c.wantCurrent(c.pod, "created again") })

	m.asking().each(func(c *cell) { c.grant(watching(), nil, "app") })
	m.each((*cell).edit)
	m.each(func(c *cell) { c.wantCurrent(c.pod, "granted for all objects after get alone") })
}

// checkTokens is what happens to tokens: they expire, their pod is deleted, their service account is deleted. Only a pod that
// reads with one is affected, and another pod's token of the same service account is as good. A token that looks expired and
// is not serves like any other.
func (m matrix) checkTokens() {
	m.publishGranted(nil, "app", "short", "gone", "other", "ahead")
	ahead := map[*cell]*corev1.Pod{}
	m.each(func(c *cell) {
		ahead[c] = c.newPod("ahead", "ahead")
		ahead[c].Annotations = map[string]string{lifetimeKey: "-1h"}
		publishSoon(c.Fixture, ahead[c])
	})
	short, gone, deleted := map[*cell]*corev1.Pod{}, map[*cell]*corev1.Pod{}, map[*cell]*corev1.Pod{}
	m.each(func(c *cell) {
		short[c], gone[c], deleted[c] = c.newPod("short", "short"), c.newPod("gone", "gone"), c.newPod("other", "other")
		short[c].Annotations = map[string]string{lifetimeKey: "12s"}
		publishSoon(c.Fixture, short[c])
		publishSoon(c.Fixture, gone[c])
		publishSoon(c.Fixture, deleted[c])
		c.DeletePod(gone[c].Name)
		c.DeletePod(c.pod.Name) // Of which the next one is the heir.
		c.pod = c.heir()
		expect.NoError(c.T, c.Cluster.Client().CoreV1().ServiceAccounts(c.Namespace).Delete(c.T.Context(), "other", metav1.DeleteOptions{}))
	})
	pods := m.of(byPod)
	// Some seconds go by, for which the API server remembers that a token was good.
	pods.each(func(c *cell) {
		expect.Eventually(c.T, 2*fixture.Soon, func() error { return c.unwell(short[c], "there is no valid token") })
		expect.Eventually(c.T, 2*fixture.Soon, func() error { return c.unwell(gone[c], "Unauthorized") })
		expect.Eventually(c.T, 2*fixture.Soon, func() error { return c.unwell(deleted[c], "Unauthorized") })
	})
	m.each((*cell).edit)
	m.each(func(c *cell) { c.wantCurrent(c.pod, "with the token of another pod") })
	m.each(func(c *cell) { c.wantCurrent(ahead[c], "with a token that looks expired") })
	pods.each(func(c *cell) {
		c.wantEnded(short[c], "there is no valid token")
		c.wantEnded(gone[c], "Unauthorized")
		c.wantEnded(deleted[c], "Unauthorized")
	})
	m.of(byDriver, byReview).each(func(c *cell) {
		c.wantCurrent(short[c], "without tokens")
		c.wantCurrent(gone[c], "after the pod")
		c.wantCurrent(deleted[c], "after the service account")
	})
	pods.each(func(c *cell) { // The kubelet repeats itself, with a new token.
		delete(short[c].Annotations, lifetimeKey)
		publishSoon(c.Fixture, short[c])
	})
	m.each(func(c *cell) { c.wantCurrent(short[c], "with a new token") })
}

// heir publishes another pod of the service account app, while the first one's volume is live but its token dead.
func (c *cell) heir() *corev1.Pod {
	c.T.Helper()
	first := c.pod
	next := c.newPod("heir", "app")
	publishSoon(c.Fixture, next)
	c.edit()
	c.wantCurrent(first, "with the token of its heir")
	return next
}
