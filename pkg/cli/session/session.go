// Package session holds what all commands of one run share: how to reach the API server, where to
// print, what a command does that has subcommands, how a command declares the kinds of objects that
// it takes, and the status that the program ends with.
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
	"strings"

	"github.com/spf13/cobra"
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

// kinds is the annotation of a command that takes objects.
const kinds = "kinds"

// Kinds annotates a command with the kinds of objects that it takes, for completion. People mean
// the first ones most.
func Kinds(names ...string) map[string]string {
	return map[string]string{kinds: strings.Join(names, " ")}
}

// KindsOf returns the kinds of objects that a command takes; empty if it takes none.
func KindsOf(c *cobra.Command) []string { return strings.Fields(c.Annotations[kinds]) }

// Group makes a command one that has subcommands and does nothing without them.
func Group(c *cobra.Command) *cobra.Command {
	c.Args = SubcommandOnly
	c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	return c
}

// SubcommandOnly refuses arguments that are not subcommands, and suggests similar ones.
func SubcommandOnly(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	c.SuggestionsMinimumDistance = 2
	near := c.SuggestionsFor(args[0])
	if len(near) == 0 {
		return fmt.Errorf("unknown command %q for %q: see %s --help", args[0], c.CommandPath(), c.CommandPath())
	}
	return fmt.Errorf("unknown command %q for %q, did you mean %s?", args[0], c.CommandPath(), strings.Join(near, " or "))
}

// Exit ends the program with a separate status. It has no error where the status is an answer, and
// all is printed.
type Exit struct {
	Code int
	Err  error
}

func (e *Exit) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit status %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap returns what was wrong.
func (e *Exit) Unwrap() error { return e.Err }
