package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
	"github.com/liveconfig-csi/liveconfig/test/kit/lab"
)

// newAccessBench is a bench on which pods read Secrets, and what is in other namespaces, with their own tokens. tokens
// are all that were ever sent.
func newAccessBench(t *testing.T) (b *bench, tokens *[]string) {
	t.Helper()
	b = newBench(t, "--secret-identity=pod", "--recheck-interval=2s", "--publish-timeout=200ms")
	tokens = &[]string{}
	b.node.UseTokens(func(ctx context.Context, namespace, account string) (authenticationv1.TokenRequestStatus, error) {
		s, err := b.cluster.Token(ctx, namespace, account, authenticationv1.TokenRequestSpec{})
		*tokens = append(*tokens, s.Token)
		return s, err
	})
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "app"}}
	_, err := b.cluster.Client().CoreV1().ServiceAccounts(b.namespace).Create(t.Context(), account, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return b, tokens
}

func (b *bench) podOf(account string, attributes map[string]string) *corev1.Pod {
	pod := b.pod("web", attributes)
	pod.Spec.ServiceAccountName = account
	return pod
}

func (b *bench) setSecret(namespace, value string) {
	b.t.Helper()
	secrets := b.cluster.Client().CoreV1().Secrets(namespace)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "tls"}, Data: map[string][]byte{"key": []byte(value)}}
	_, err := secrets.Update(b.t.Context(), secret, metav1.UpdateOptions{})
	if err != nil {
		_, err = secrets.Create(b.t.Context(), secret, metav1.CreateOptions{})
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// grant applies what a denied publish says would allow it, and publishes until it does. It returns the file to apply.
func (b *bench) grant(pod *corev1.Pod) (file string) {
	b.t.Helper()
	err := b.node.PublishAll(b.t.Context(), pod)
	_, yaml, found := strings.Cut(fmt.Sprint(err), "to allow it, apply:\n")
	if status.Code(err) != codes.PermissionDenied || !found {
		b.t.Fatalf("publish = %v, want it denied, and what would allow it", err)
	}
	b.wantNothing(pod, "a denied publish")
	file = filepath.Join(b.t.TempDir(), "grant.yaml")
	if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.cluster.Apply(b.t.Context(), file); err != nil {
		b.t.Fatal(err)
	}
	lab.Eventually(b.t, soon, func() error { return b.node.PublishAll(b.t.Context(), pod) })
	b.t.Cleanup(func() { b.unpublish(pod) })
	return file
}

// TestAPodReadsWithItsOwnRights is the way of a Secret, in the pod's namespace and in another one: denied, granted as the
// message says, current also over a restart without a call of the kubelet, revoked, and granted again.
func TestAPodReadsWithItsOwnRights(t *testing.T) {
	t.Parallel()
	for name, where := range map[string]func(b *bench) string{
		"in its namespace": func(b *bench) string { return b.namespace },
		"in another namespace": func(b *bench) string {
			if err := b.cluster.CreateNamespace(b.t.Context(), b.namespace+"-certs"); err != nil {
				b.t.Fatal(err)
			}
			return b.namespace + "-certs"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			b, tokens := newAccessBench(t)
			namespace := where(b)
			b.setSecret(namespace, "one")
			onDelete := map[bool]string{true: "Keep", false: "Remove"}[namespace == b.namespace]
			pod := b.podOf("app", map[string]string{"secret": "tls", "namespace": namespace, "onDelete": onDelete})
			grant := b.grant(pod)
			b.wantFile(pod, "key", "one")
			b.setSecret(namespace, "two")
			b.wantFile(pod, "key", "two")

			if err := b.node.Kill(); err != nil {
				t.Fatal(err)
			}
			b.setSecret(namespace, "three")
			if err := b.node.StartDriver(t.Context()); err != nil {
				t.Fatal(err)
			}
			b.wantFile(pod, "key", "three")

			roles := b.cluster.Client().RbacV1().RoleBindings(namespace)
			if err := roles.Delete(t.Context(), "read-secret-tls", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			if onDelete == "Keep" {
				b.wantEvent(pod, "AccessLost", "the files stay")
				b.wantFile(pod, "key", "three")
			} else {
				b.wantEvent(pod, "AccessLost", "the files of the source are removed")
				b.wantNoFile(pod, "key")
			}
			if _, err := b.cluster.Apply(t.Context(), grant); err != nil {
				t.Fatal(err)
			}
			b.setSecret(namespace, "four")
			b.wantFile(pod, "key", "four")
			b.wantNoSecretOf(namespace, began)
			b.wantNoToken(*tokens)
		})
	}
}

// wantNoSecretOf wants that the driver itself has not asked for a Secret of the namespace.
func (b *bench) wantNoSecretOf(namespace string, since time.Time) {
	b.t.Helper()
	requests, err := b.cluster.Requests(since)
	if err != nil {
		b.t.Fatal(err)
	}
	driver, byPod := cluster.ServiceAccountUser(lab.DriverNamespace, lab.DriverAccount), 0
	for _, r := range requests {
		if !strings.Contains(r.URI, "/namespaces/"+namespace+"/secrets") {
			continue
		}
		if r.User == driver {
			b.t.Errorf("the driver itself has asked: %s", r)
		}
		if r.User == cluster.ServiceAccountUser(b.namespace, "app") {
			byPod++
		}
	}
	if byPod == 0 {
		b.t.Error("the pod's service account has never asked")
	}
}

// wantNoToken wants none in the log and in the records. Files that hold tokens are for nobody else to read.
func (b *bench) wantNoToken(tokens []string) {
	b.t.Helper()
	err := filepath.WalkDir(filepath.Dir(b.node.StateDir()), func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		for _, token := range tokens {
			if strings.Contains(string(data), token) && (info.Mode().Perm() != 0o600 || filepath.Base(filepath.Dir(path)) != "tokens") {
				b.t.Errorf("%s (%s) holds a token", path, info.Mode())
			}
		}
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
}

// TestNoTokenIsSaid: the kubelet sends none because the CSIDriver object does not ask for any.
func TestNoTokenIsSaid(t *testing.T) {
	t.Parallel()
	b := newBench(t, "--secret-identity=pod", "--publish-timeout=200ms")
	pod := b.pod("web", map[string]string{"secret": "tls"})
	b.wantRefusal(pod, codes.Unavailable, `if the CSIDriver object has tokenRequests: [{audience: ""}]`)
	b.wantNothing(pod, "without a token")
}

// TestTheDriverOfPodsHasNoRightToSecrets renders the manifests in which pods read their Secrets themselves.
func TestTheDriverOfPodsHasNoRightToSecrets(t *testing.T) {
	t.Parallel()
	c := lab.Cluster(t)
	repo, err := lab.Repo()
	if err != nil {
		t.Fatal(err)
	}
	manifests, err := c.Kubectl(t.Context(), "kustomize", filepath.Join(repo, "deploy", "overlays", "pod-identity"))
	if err != nil {
		t.Fatal(err)
	}
	roles := 0
	for document := range strings.SplitSeq(manifests, "\n---\n") {
		var role rbacv1.ClusterRole
		if err := yaml.Unmarshal([]byte(document), &role); err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(role.Kind, "Role") {
			continue
		}
		roles++
		for _, rule := range role.Rules {
			for _, resource := range rule.Resources {
				if resource == "secrets" || resource == "*" {
					t.Errorf("%s %s has a rule on %s", role.Kind, role.Name, resource)
				}
			}
		}
	}
	if roles == 0 {
		t.Error("the manifests have no role at all")
	}
}
