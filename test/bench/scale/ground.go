package scale

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/liveconfig-csi/liveconfig/test/bench/scale/fleet"
	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
	"github.com/liveconfig-csi/liveconfig/test/kit/workdir"
)

// The driver's service account, as deploy/base makes it.
const (
	driverNamespace = "liveconfig-system"
	driverAccount   = "liveconfig-driver"
)

const (
	namespace = "scale"
	// objectBytes is the size of each object's value.
	objectBytes = 1 << 10
	// atOnce is how many requests prepare things at a time.
	atOnce = 8
)

// ground is a cluster with objects, and credentials for nodes.
type ground struct {
	*cluster.Cluster

	dir    *workdir.Dir
	client kubernetes.Interface // An administrator's, in the shortest encoding.
}

// prepare starts a cluster where the driver's rights are those of deploy/base.
func prepare(ctx context.Context, repo, logs string) (_ *ground, err error) {
	dir, err := workdir.New("lc-scale-")
	if err != nil {
		return nil, err
	}
	g := &ground{dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.close())
		}
	}()
	g.Cluster, err = cluster.Start(ctx, cluster.Config{BinDir: filepath.Join(repo, "bin", "k8s"), LogDir: logs})
	if err != nil {
		return nil, err
	}
	config := g.AdminConfig()
	config.QPS, config.ContentType = -1, "application/vnd.kubernetes.protobuf"
	if g.client, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	if _, err := g.Apply(ctx, filepath.Join(repo, "deploy", "base")); err != nil {
		return nil, err
	}
	if err := g.CreateNamespace(ctx, namespace); err != nil {
		return nil, err
	}
	if err := g.put(ctx, fleet.Shared, "0"); err != nil {
		return nil, err
	}
	return g, g.allow(ctx)
}

func (g *ground) close() error {
	var err error
	if g.Cluster != nil {
		err = g.Stop()
	}
	return errors.Join(err, g.dir.Remove())
}

// allow lets nodes in the kubelet's way read ConfigMaps by RBAC, since there are no pods by which their own authorizer could.
func (g *ground) allow(ctx context.Context) error {
	const name = "scale-kubelets"
	meta := metav1.ObjectMeta{Name: name}
	_, err := g.client.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list", "watch"}},
	}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	_, err = g.client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "system:nodes"}},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	return g.AwaitAccess(ctx, cluster.ServiceAccountUser(driverNamespace, driverAccount), authorizationv1.ResourceAttributes{
		Namespace: namespace, Verb: "watch", Resource: "configmaps", Name: fleet.Shared,
	})
}

// kubeconfigs is the folder with the credentials of nodes of a way.
func (g *ground) kubeconfigs(way fleet.Way) string { return filepath.Join(g.dir.Path(), string(way)) }

// furnish makes the objects and the credentials of nodes from one number up to another: those of the driver's service account,
// with a token for each, or a certificate for each kubelet.
func (g *ground) furnish(ctx context.Context, way fleet.Way, from, to, own int) error {
	dir := g.kubeconfigs(way)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for n := from; n < to; n++ {
		group.Go(func() error {
			path := filepath.Join(dir, strconv.Itoa(n))
			if way == fleet.Kubelet {
				return g.WriteUserKubeconfig(path, fmt.Sprintf("system:node:node-%d", n), "system:nodes")
			}
			return g.WriteServiceAccountKubeconfig(ctx, path, driverNamespace, driverAccount)
		})
		for i := range own {
			group.Go(func() error { return g.put(ctx, fleet.Own(n, i), "0") })
		}
	}
	return group.Wait()
}

// put creates or updates an object; its value begins with a word.
func (g *ground) put(ctx context.Context, name, head string) error {
	maps := g.client.CoreV1().ConfigMaps(namespace)
	o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{fleet.Key: valueOf(head)}}
	_, err := maps.Update(ctx, o, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = maps.Create(ctx, o, metav1.CreateOptions{})
	}
	return err
}

func valueOf(head string) string { return head + strings.Repeat("x", objectBytes-len(head)) }
