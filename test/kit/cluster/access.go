package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/liveconfig-csi/liveconfig/test/kit/pace"
)

const (
	// accessTimeout is long: the API server learns of a change of RBAC within milliseconds.
	accessTimeout = 20 * time.Second
	// accessInterval is short because a test waits for it.
	accessInterval = 25 * time.Millisecond
	// serviceAccountPrefix starts the user name of a service account; its namespace, a colon and its name follow.
	serviceAccountPrefix = "system:serviceaccount:"
)

// ServiceAccountUser returns the user name by which the API server knows a service account, as in [Request].
func ServiceAccountUser(namespace, name string) string {
	return serviceAccountPrefix + namespace + ":" + name
}

// AdminConfig returns a copy of the configuration of a cluster administrator.
func (c *Cluster) AdminConfig() *rest.Config { return rest.CopyConfig(c.admin) }

// Client is the admin's client.
func (c *Cluster) Client() kubernetes.Interface { return c.client }

// Token asks the API server for a token of a service account, which must exist. The zero spec means the API server's own
// audience and one hour; a BoundObjectRef ties the token to a pod.
func (c *Cluster) Token(
	ctx context.Context, namespace, serviceAccount string, spec authenticationv1.TokenRequestSpec,
) (authenticationv1.TokenRequestStatus, error) {
	request := &authenticationv1.TokenRequest{Spec: spec}
	accounts := c.client.CoreV1().ServiceAccounts(namespace)
	response, err := accounts.CreateToken(ctx, serviceAccount, request, metav1.CreateOptions{})
	if err != nil {
		return authenticationv1.TokenRequestStatus{},
			fmt.Errorf("request a token for service account %s/%s: %w", namespace, serviceAccount, err)
	}
	return response.Status, nil
}

// ServiceAccountConfig returns the configuration of a service account by a token that is good for one hour.
func (c *Cluster) ServiceAccountConfig(ctx context.Context, namespace, name string) (*rest.Config, error) {
	token, err := c.Token(ctx, namespace, name, authenticationv1.TokenRequestSpec{})
	if err != nil {
		return nil, err
	}
	config := c.restConfig()
	config.BearerToken = token.Token
	return config, nil
}

// WriteAdminKubeconfig writes a kubeconfig with mode 0600 for a cluster administrator.
func (c *Cluster) WriteAdminKubeconfig(path string) error {
	return writeKubeconfig(path, c.admin)
}

// WriteUserKubeconfig writes a kubeconfig with mode 0600 for a user who is known by a certificate, such as a component of
// Kubernetes.
func (c *Cluster) WriteUserKubeconfig(path, user string, groups ...string) error {
	pair, err := c.ca.client(time.Now(), user, groups...)
	if err != nil {
		return err
	}
	config := c.restConfig()
	config.CertData, config.KeyData = pair.cert, pair.key
	return writeKubeconfig(path, config)
}

// WriteServiceAccountKubeconfig writes a kubeconfig with mode 0600 for a service account. Its token is good for one
// hour; writing the file again replaces it in one step.
func (c *Cluster) WriteServiceAccountKubeconfig(ctx context.Context, path, namespace, name string) error {
	config, err := c.ServiceAccountConfig(ctx, namespace, name)
	if err != nil {
		return err
	}
	return writeKubeconfig(path, config)
}

// AwaitAccess returns when the API server lets a user do something. It learns of new roles and bindings a moment after
// it has answered their creation.
func (c *Cluster) AwaitAccess(ctx context.Context, user string, action authorizationv1.ResourceAttributes) error {
	return c.awaitReview(ctx, user, action, func(s authorizationv1.SubjectAccessReviewStatus) bool { return s.Allowed })
}

// AwaitDenial returns when the API server no longer lets a user do something.
func (c *Cluster) AwaitDenial(ctx context.Context, user string, action authorizationv1.ResourceAttributes) error {
	return c.awaitReview(ctx, user, action, func(s authorizationv1.SubjectAccessReviewStatus) bool { return !s.Allowed })
}

// awaitReview asks the API server about a user, who is known to be in the groups that the user's name implies, until
// the answer is the wanted one.
func (c *Cluster) awaitReview(
	ctx context.Context, user string, action authorizationv1.ResourceAttributes,
	wanted func(authorizationv1.SubjectAccessReviewStatus) bool,
) error {
	ctx, cancel := context.WithTimeout(ctx, pace.Within(accessTimeout))
	defer cancel()
	groups := []string{"system:authenticated"}
	if account, found := strings.CutPrefix(user, serviceAccountPrefix); found {
		namespace, _, _ := strings.Cut(account, ":")
		groups = append(groups, "system:serviceaccounts", "system:serviceaccounts:"+namespace)
	}
	review := &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{User: user, Groups: groups, ResourceAttributes: &action},
	}
	reviews := c.client.AuthorizationV1().SubjectAccessReviews()
	err := wait.PollUntilContextCancel(ctx, accessInterval, true, func(ctx context.Context) (bool, error) {
		response, err := reviews.Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return false, err
		}
		return wanted(response.Status), nil
	})
	if err != nil {
		return fmt.Errorf("wait for the access of %s to %s %s in %q: %w",
			user, action.Verb, action.Resource, action.Namespace, err)
	}
	return nil
}

func writeKubeconfig(path string, config *rest.Config) error {
	const name = "test"
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.CurrentContext = name
	kubeconfig.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	kubeconfig.Clusters[name] = &clientcmdapi.Cluster{
		Server:                   config.Host,
		CertificateAuthorityData: config.CAData,
	}
	kubeconfig.AuthInfos[name] = &clientcmdapi.AuthInfo{
		Token:                 config.BearerToken,
		ClientCertificateData: config.CertData,
		ClientKeyData:         config.KeyData,
	}
	data, err := clientcmd.Write(*kubeconfig)
	if err != nil {
		return fmt.Errorf("encode kubeconfig %s: %w", path, err)
	}
	if err := replaceFile(path, data); err != nil {
		return fmt.Errorf("write kubeconfig %s: %w", path, err)
	}
	return nil
}

// replaceFile writes a file that only its owner can read, by rename: a reader sees the old bytes or the new ones.
func replaceFile(path string, data []byte) error {
	// Such a file is made with mode 0600.
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err := errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return os.Rename(f.Name(), path)
}
