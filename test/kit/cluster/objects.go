package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CreateNamespace makes a namespace and, as the controller manager would, its default service account. Namespaces
// cannot be removed here (nothing empties them), so tests that share a cluster choose separate names.
func (c *Cluster) CreateNamespace(ctx context.Context, name string) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := c.client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create namespace %s: %w", name, err)
	}
	return c.EnsureServiceAccount(ctx, name, "default")
}

// EnsureServiceAccount makes a service account unless it exists. A new one can do what every authenticated user can,
// which is next to nothing.
func (c *Cluster) EnsureServiceAccount(ctx context.Context, namespace, name string) error {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	_, err := c.client.CoreV1().ServiceAccounts(namespace).Create(ctx, account, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create service account %s/%s: %w", namespace, name, err)
	}
	return nil
}

// Kubectl runs kubectl as the admin and returns what it prints on stdout. What it prints on stderr is in the error. To
// be someone else, pass --kubeconfig.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(c.cfg.BinDir, "kubectl"), args...)
	cmd.Env = append(os.Environ(),
		"KUBECONFIG="+c.path("admin.kubeconfig"),
		"KUBECACHEDIR="+c.path("kubectl-cache"),
		"HOME="+c.dir.Path(), // The user's own preferences must not change what a test sees.
	)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// Apply applies a file of manifests, a folder of them, or a folder with a kustomization, and returns what kubectl
// printed: one line for each object.
func (c *Cluster) Apply(ctx context.Context, path string) (string, error) {
	flag := "--filename"
	if isKustomization(path) {
		flag = "--kustomize"
	}
	return c.Kubectl(ctx, "apply", flag, path)
}

// isKustomization looks for the three names that kubectl looks for.
func isKustomization(dir string) bool {
	for _, name := range []string{"kustomization.yaml", "kustomization.yml", "Kustomization"} {
		if _, err := os.Stat(filepath.Join(dir, name)); !errors.Is(err, os.ErrNotExist) {
			return err == nil
		}
	}
	return false
}
