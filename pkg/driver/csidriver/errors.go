package csidriver

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Kind is why the kubelet's statements about pods cannot be trusted. The set is closed.
type Kind string

// The kinds of errors.
const (
	// Unread: the state of the object is not known, because the API server has not answered yet
	// or does not let the driver read it. It may pass without anybody changing the object.
	Unread Kind = "Unread"
	// Missing: the object is known not to exist.
	Missing Kind = "Missing"
	// Unvouched: the object is known not to have podInfoOnMount: true.
	Unvouched Kind = "Unvouched"
)

// Error is the error of [Watcher.Check]. Its message is one line with the command to type.
type Error struct {
	// Name is that of the CSIDriver object.
	Name string
	Kind Kind
	// Err is why the object cannot be read. For other kinds than Unread it is why a change may be
	// seen late. It is nil while nothing has gone wrong.
	Err error
}

func (e *Error) Error() string {
	switch e.Kind {
	case Missing:
		return fmt.Sprintf("the kubelet does not vouch for pods: the CSIDriver object %[1]s does not exist; "+
			"run: kubectl apply -f deploy/base/csidriver.yaml (its metadata.name must be %[1]s)", e.Name) + e.delay()
	case Unvouched:
		return fmt.Sprintf("the kubelet does not vouch for pods: the CSIDriver object %[1]s does not have "+
			"podInfoOnMount: true; run: kubectl patch csidriver %[1]s --type=merge -p '{\"spec\":{\"podInfoOnMount\":true}}' "+
			"(before Kubernetes 1.29: kubectl replace --force -f deploy/base/csidriver.yaml)", e.Name) + e.delay()
	case Unread:
	}
	if e.Err == nil {
		return fmt.Sprintf("whether the kubelet vouches for pods is not known: "+
			"the CSIDriver object %s has not been read yet", e.Name)
	}
	return fmt.Sprintf("whether the kubelet vouches for pods is not known: %v", e.Err)
}

// delay warns a user who has typed the command and sees the message again.
func (e *Error) delay() string {
	if e.Err == nil {
		return ""
	}
	return fmt.Sprintf("; a change may be seen late: %v", e.Err)
}

// Unwrap returns the API server's or the network's error, if there is one.
func (e *Error) Unwrap() error { return e.Err }

// errStopping is the error for callers that wait when the watcher ends.
var errStopping = errors.New("the driver is being stopped")

// cannotRead returns the error of a request for the object, with a remedy if it was denied.
func cannotRead(name string, err error) error {
	if !apierrors.IsForbidden(err) {
		return fmt.Errorf("the CSIDriver object %s cannot be read: %w", name, err)
	}
	return fmt.Errorf("the CSIDriver object %s cannot be read: %w; add to the rules of the driver's ClusterRole: "+
		"{apiGroups: [storage.k8s.io], resources: [csidrivers], resourceNames: [%[1]s], verbs: [get, list, watch]}", name,
		err)
}
