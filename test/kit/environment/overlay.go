package environment

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
	"github.com/liveconfig-csi/liveconfig/test/kit/node"
)

// NodeOf is [Node] with the rights and the identity flags of another installation than deploy/base, named by its folder
// below deploy. Its service account and roles are installed beside those of the base, under separate names.
func NodeOf(t testing.TB, folder string, args ...string) *node.Node {
	t.Helper()
	c := Cluster(t)
	in := &installation{cluster: c, dir: t.TempDir(), account: DriverAccount + "-" + filepath.Base(folder)}
	objects := Manifests(t, folder)
	if err := in.install(t.Context(), objects); err != nil {
		t.Fatalf("install deploy/%s: %v", folder, err)
	}
	config := filepath.Join(in.dir, "kubeconfig") // It holds a token, and the node's directory must not.
	if err := c.WriteServiceAccountKubeconfig(t.Context(), config, DriverNamespace, in.account); err != nil {
		t.Fatal(err)
	}
	return start(t, node.Config{Binary: racing(driver).path(t), Kubeconfig: config, Dir: shortDir(t), Args: append(in.flags, args...)})
}

// Manifests returns the objects of an installation, named by its folder below deploy.
func Manifests(t testing.TB, folder string) []unstructured.Unstructured {
	t.Helper()
	repo, err := Repo()
	if err != nil {
		t.Fatal(err)
	}
	text, err := Cluster(t).Kubectl(t.Context(), "kustomize", filepath.Join(repo, "deploy", folder))
	if err != nil {
		t.Fatal(err)
	}
	var objects []unstructured.Unstructured
	for document := range strings.SplitSeq(text, "\n---\n") {
		var o unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(document), &o.Object); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, o)
	}
	return objects
}

// installation is one beside the base.
type installation struct {
	cluster *cluster.Cluster
	dir     string // Of its files.
	account string
	flags   []string // Of the driver, as far as they are about identities.
}

// install takes from the objects what says whose rights the driver has.
func (in *installation) install(ctx context.Context, objects []unstructured.Unstructured) error {
	if err := in.cluster.EnsureServiceAccount(ctx, DriverNamespace, in.account); err != nil {
		return err
	}
	for _, o := range objects {
		if err := in.take(ctx, o); err != nil {
			return fmt.Errorf("%s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	return nil
}

func (in *installation) take(ctx context.Context, o unstructured.Unstructured) error {
	switch o.GetKind() {
	case "ClusterRole":
		o.SetName(in.nameOf(o.GetName()))
	case "ClusterRoleBinding":
		var b rbacv1.ClusterRoleBinding
		if err := as(o, &b); err != nil {
			return err
		}
		b.Name, b.RoleRef.Name = in.nameOf(b.Name), in.nameOf(b.RoleRef.Name)
		b.Subjects = []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: DriverNamespace, Name: in.account}}
		return in.apply(ctx, b)
	case "DaemonSet":
		return in.takeFlags(o)
	default:
		return nil
	}
	return in.apply(ctx, o.Object)
}

func (in *installation) nameOf(name string) string { return name + ":" + in.account }

func (in *installation) takeFlags(o unstructured.Unstructured) error {
	var d appsv1.DaemonSet
	if err := as(o, &d); err != nil {
		return err
	}
	for _, arg := range d.Spec.Template.Spec.Containers[0].Args {
		if strings.Contains(arg, "-identity=") {
			in.flags = append(in.flags, arg)
		}
	}
	return nil
}

// apply applies one object through a file, as people do.
func (in *installation) apply(ctx context.Context, object any) error {
	data, err := yaml.Marshal(object)
	if err != nil {
		return err
	}
	path := filepath.Join(in.dir, "object.yaml")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return err
	}
	_, err = in.cluster.Apply(ctx, path)
	return err
}

// as converts an object to its type, and fails when it has a field that the type lacks.
func as(o unstructured.Unstructured, typed metav1.Object) error {
	data, err := o.MarshalJSON()
	if err != nil {
		return err
	}
	return yaml.UnmarshalStrict(data, typed)
}
