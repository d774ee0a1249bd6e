package network_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/network"
)

func TestMain(m *testing.M) { os.Exit(cluster.ForMain(m)) }

// ground is a front, a namespace, and a client through the front that may do everything.
type ground struct {
	*testing.T
	*network.Front
	cluster   *cluster.Cluster
	namespace string
	maps      corev1client.ConfigMapInterface
}

func newGround(t *testing.T) *ground {
	t.Helper()
	c := cluster.ForTest(t)
	g := &ground{T: t, Front: network.NewFront(t, c), cluster: c, namespace: cluster.NewNamespace(t, c)}
	_, err := c.Client().RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: g.namespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: g.namespace, Name: "default"}},
	}, metav1.CreateOptions{})
	expect.NoError(t, err)
	straight, way := filepath.Join(t.TempDir(), "straight"), filepath.Join(t.TempDir(), "way")
	expect.NoError(t, c.WriteServiceAccountKubeconfig(t.Context(), straight, g.namespace, "default"))
	expect.NoError(t, g.Kubeconfig(straight, way))
	config, err := clientcmd.BuildConfigFromFlags("", way)
	expect.NoError(t, err)
	config.ContentType = "application/vnd.kubernetes.protobuf"
	client, err := kubernetes.NewForConfig(config)
	expect.NoError(t, err)
	g.maps = client.CoreV1().ConfigMaps(g.namespace)
	deadline := time.Now().Add(soon)
	for _, err = g.list("none"); apierrors.IsForbidden(err) && time.Now().Before(deadline); _, err = g.list("none") {
	}
	expect.NoError(t, err)
	return g
}

// put makes the ConfigMap web, or changes it, behind the front's back, and returns its version.
func (g *ground) put(value string) (version string) {
	g.Helper()
	maps, ctx := g.cluster.Client().CoreV1().ConfigMaps(g.namespace), g.Context()
	o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Data: map[string]string{"k": value}}
	done, err := maps.Update(ctx, o, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		done, err = maps.Create(ctx, o, metav1.CreateOptions{})
	}
	expect.NoError(g, err)
	return done.ResourceVersion
}

func (g *ground) list(name string) (value string, err error) {
	g.Helper()
	ctx, cancel := context.WithTimeout(g.Context(), soon)
	defer cancel()
	l, err := g.maps.List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil || len(l.Items) == 0 {
		return "", err
	}
	return l.Items[0].Data["k"], nil
}

func (g *ground) wantList(want string) {
	g.Helper()
	if got, err := g.list("web"); got != want || err != nil {
		g.Errorf("the list of web has %q, %v, want %q", got, err, want)
	}
}

func (g *ground) watch(version string) watch.Interface {
	g.Helper()
	w, err := g.maps.Watch(g.Context(), metav1.ListOptions{
		FieldSelector: "metadata.name=web", ResourceVersion: version, AllowWatchBookmarks: true,
	})
	expect.NoError(g, err)
	g.Cleanup(w.Stop)
	return w
}

// wantEvent wants the next event to bring the value, or the watch to end where that is empty.
func (g *ground) wantEvent(w watch.Interface, want string) {
	g.Helper()
	select {
	case e, open := <-w.ResultChan():
		o, ok := e.Object.(*corev1.ConfigMap)
		if open != (want != "") || open && (!ok || o.Data["k"] != want) {
			g.Errorf("the watch brought %v %v, open: %t, want %q", e.Type, e.Object, open, want)
		}
	case <-time.After(soon):
		g.Errorf("the watch brought nothing within %s, want %q", soon, want)
	}
}

func (g *ground) wantNoEvent(w watch.Interface) {
	g.Helper()
	select {
	case e, open := <-w.ResultChan():
		g.Errorf("the watch brought %v %v, open: %t, want nothing", e.Type, e.Object, open)
	case <-time.After(moment):
	}
}

func TestAFrontPassesEverythingOn(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	g.wantList("")
	w := g.watch(g.put("one"))
	g.wantList("one")
	g.put("two")
	g.wantEvent(w, "two")
	if _, err := g.maps.Get(t.Context(), "web", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	var verbs []string
	for _, r := range g.Asked(network.About("configmaps", g.namespace, "web")) {
		verbs = append(verbs, r.Verb)
		if r.Token == "" || r.At.IsZero() {
			t.Errorf("%+v lacks its token or time", r)
		}
	}
	if got, want := strings.Join(verbs, " "), "list watch list get"; got != want {
		t.Errorf("it was asked to %s, want %s", got, want)
	}
}

func TestAFrontRefuses(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	for status, is := range map[int]func(error) bool{
		http.StatusTooManyRequests: apierrors.IsTooManyRequests, http.StatusGone: apierrors.IsResourceExpired,
		http.StatusInternalServerError: apierrors.IsInternalError, http.StatusForbidden: apierrors.IsForbidden,
		http.StatusServiceUnavailable: apierrors.IsServiceUnavailable, http.StatusGatewayTimeout: apierrors.IsTimeout,
	} {
		g.Set(network.Fault{Of: network.Verb("list"), Status: status})
		if _, err := g.list("web"); !is(err) {
			t.Errorf("a list that is answered %d = %v", status, err)
		}
	}
	g.Set(network.Fault{Status: http.StatusTooManyRequests, RetryAfter: 7 * time.Second, Of: network.Verb("get")})
	_, err := g.maps.Get(canceled(t), "web", metav1.GetOptions{})
	if err == nil {
		t.Error("a get that was refused succeeded")
	}
	g.Set(network.Fault{Status: http.StatusInternalServerError, Share: 0.5})
	var failed int
	const rounds = 100
	for range rounds {
		if _, err := g.list("web"); err != nil {
			failed++
		}
	}
	if failed != rounds/2 {
		t.Errorf("%d of %d requests failed, want a half", failed, rounds)
	}
	g.Set()
	g.wantList("")
}

// canceled returns a context that ends before a client repeats what it is asked to repeat in a while.
func canceled(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), moment)
	t.Cleanup(cancel)
	return ctx
}

func TestAFrontDelaysOneObject(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	g.Set(network.Fault{Of: network.All(network.Verb("list"), network.About("configmaps", g.namespace, "slow")), Delay: time.Hour})
	g.wantList("")
	if _, err := g.maps.List(canceled(t), metav1.ListOptions{FieldSelector: "metadata.name=slow"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the slow list = %v, want no answer in time", err)
	}
}

func TestAFrontEndsWatches(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	version := g.put("one")
	w := g.watch(version)
	if got := g.Watching(network.About("configmaps", g.namespace, "web")); got != 1 {
		t.Errorf("%d watches are open, want the one", got)
	}
	g.Set(network.Fault{EndAfter: moment})
	g.wantEvent(g.watch(version), "")
	g.wantNoEvent(w)
	if got := g.EndWatches(network.Verb("watch")); got != 1 {
		t.Errorf("%d watches were open, want the one", got)
	}
	g.wantEvent(w, "")
}

func TestASilentWatchStaysOpenAndBringsNothing(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	version := g.put("one")
	old := g.watch(version)
	if got := g.Silence(nil); got != 1 {
		t.Errorf("%d watches were open, want the one", got)
	}
	g.put("two")
	g.wantEvent(g.watch(version), "two")
	g.wantNoEvent(old)
}
