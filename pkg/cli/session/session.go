// Package session holds what all commands of one run share: how to reach the API server, and where
// to print.
//
// It does not know any command, nor what is asked of the API server.
package session

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/printing"
)

// PageSize is how many objects a command asks for at once in a long list. kubectl asks for as many.
const PageSize = 500

// Session is what all commands of one run share: how to reach the API server, and where to print.
type Session struct {
	*genericclioptions.ConfigFlags
	genericiooptions.IOStreams
}

// Config returns how to reach the API server.
func (s *Session) Config() (*rest.Config, error) {
	config, err := s.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("find out how to reach the cluster: %w; use --kubeconfig or --context", err)
	}
	return config, nil
}

// NamespaceOr returns the namespace of a manifest, or else that of the session.
func NamespaceOr(s *Session, namespace string) string {
	if namespace == "" {
		namespace, _, _ = s.ToRawKubeConfigLoader().Namespace() // Empty after an error.
	}
	return cmp.Or(namespace, corev1.NamespaceDefault)
}

// Remark prints a remark to standard error. A failure to do so is ignored: there is no other place
// to report it.
func (s *Session) Remark(format string, args ...any) {
	_, _ = fmt.Fprintln(s.ErrOut, printing.Plain(fmt.Sprintf(format, args...)))
}

// Clientset returns a client of the API server.
func (s *Session) Clientset() (kubernetes.Interface, error) {
	config, err := s.Config()
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(config)
}

// MayPass reports whether an error of the API server may be temporary: it did not answer, or is
// overloaded.
func MayPass(err error) bool {
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		code := status.Status().Code
		return code >= http.StatusInternalServerError || code == http.StatusTooManyRequests
	}
	if _, isUntrusted := errors.AsType[*tls.CertificateVerificationError](err); isUntrusted {
		return false
	}
	_, isUnanswered := errors.AsType[*url.Error](err)
	_, isCut := errors.AsType[net.Error](err) // While the answer came.
	return isUnanswered || isCut || errors.Is(err, io.ErrUnexpectedEOF)
}
