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
	"github.com/liveconfig-csi/liveconfig/test/kit/fakekubelet"
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
		first := newBareRig(t)
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
			c := &cell{rig: newBareRig(t), name: d.name + ": " + place, reader: r}
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
	must(c.T, c.Cluster.EnsureServiceAccount(c.T.Context(), c.Namespace, account))
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
	must(c.T, roles.RoleBindings(c.source).DeleteCollection(c.T.Context(), everything, metav1.ListOptions{}))
	must(c.T, roles.Roles(c.source).DeleteCollection(c.T.Context(), everything, metav1.ListOptions{}))
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
	environment.Eventually(c.T, 2*soon, func() error { return c.unwell(pod, text) })
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

// wantNoEvent wants that no Event with the reason is on the pod.
func (b *rig) wantNoEvent(pod *corev1.Pod, reason string) {
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
