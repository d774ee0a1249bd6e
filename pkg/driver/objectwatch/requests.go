package objectwatch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// Lists and watches select the object by name, so that RBAC can name it and nothing else is sent.
// Those of a selection have its labels instead.

// listed is the answer to a list.
type listed struct {
	version string
	object  metav1.Object // Nil if it does not exist.
}

func (f *Follower) request() *rest.Request {
	return f.target.Client.Get().Namespace(f.target.Namespace).Resource(f.target.Kind.resource())
}

func (f *Follower) selecting(o metav1.ListOptions) *rest.Request {
	if o.LabelSelector = f.target.Selector; o.LabelSelector == "" {
		o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, f.target.Name).String()
	}
	return f.request().VersionedParams(&o, f.group.parameters)
}

func (f *Follower) list(ctx context.Context, o metav1.ListOptions) (listed, error) {
	list := f.target.Kind.List.DeepCopyObject()
	if err := f.selecting(o).Do(ctx).Into(list); err != nil {
		return listed{}, err
	}
	version, err := meta.NewAccessor().ResourceVersion(list)
	if err != nil || meta.LenList(list) == 0 {
		return listed{version: version}, err
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return listed{}, err
	}
	found, err := meta.Accessor(items[0])
	return listed{version: version, object: found}, err
}

// watch returns the events as the API server writes them.
func (f *Follower) watch(ctx context.Context, o metav1.ListOptions) (io.ReadCloser, error) {
	o.Watch = true
	return f.selecting(o).Stream(ctx)
}

// get returns the list of the object, which is empty if it does not exist.
func (f *Follower) get(ctx context.Context) (listed, error) {
	o := f.target.Kind.Object.DeepCopyObject()
	err := f.request().Name(f.target.Name).Do(ctx).Into(o)
	switch {
	case f.target.isAbsence(err):
		return listed{}, nil
	case apierrors.IsNotFound(err):
		return listed{}, &strangeAnswerError{target: f.target.String(), cause: err}
	case err != nil:
		return listed{}, err
	}
	found, err := meta.Accessor(o)
	if err != nil {
		return listed{}, err
	}
	return listed{version: found.GetResourceVersion(), object: found}, nil
}

// String returns the kind and the name, as messages of the API server do.
func (t Target) String() string {
	name := t.Name
	if t.Namespace != "" {
		name = t.Namespace + "/" + name
	}
	return t.Kind.Name + " " + name
}

// isAbsence reports whether an error is the API server's answer that the object does not exist: a
// Status that names the object. API servers send the same Status if the namespace does not exist.
// Other answers with the status 404 come from proxies or unknown paths, or are about something
// else; the client library makes a Status of some of them.
func (t Target) isAbsence(err error) bool {
	answer, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok || apierrors.IsUnexpectedServerError(err) {
		return false
	}
	status := answer.Status()
	about := status.Details
	if status.Reason != metav1.StatusReasonNotFound || about == nil {
		return false
	}
	isKind := about.Kind == "" || about.Kind == t.Kind.resource()
	return isKind && about.Name == t.Name && about.Group == t.Kind.Group
}

// strangeAnswerError is an answer with the status 404 that is not about the object. It does not
// unwrap to its cause, which looks like the absence of the object.
type strangeAnswerError struct {
	target string
	cause  error
}

func (e *strangeAnswerError) Error() string {
	return fmt.Sprintf("the answer has the status 404, but does not report that %s is not found; "+
		"it may come from a proxy and not from the API server: %v", e.target, e.cause)
}

// objectOf returns the object of an event. It is not ok if the type of the event is unknown, or if
// the event is about another object. Only the kind of a bookmark is the target's.
func (t Target) objectOf(e watch.Event) (_ metav1.Object, ok bool) {
	o, ok := e.Object.(metav1.Object)
	if !ok || reflect.TypeOf(e.Object) != reflect.TypeOf(t.Kind.Object) {
		return nil, false
	}
	switch e.Type {
	case watch.Bookmark:
		return o, true
	case watch.Added, watch.Modified, watch.Deleted:
		isNamed := t.Selector != "" || o.GetName() == t.Name
		isInNamespace := t.Selector != "" && t.Namespace == "" || o.GetNamespace() == t.Namespace
		return o, isNamed && isInNamespace
	default:
		return nil, false
	}
}
