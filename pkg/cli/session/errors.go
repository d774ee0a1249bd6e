package session

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

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
