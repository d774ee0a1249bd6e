package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

// object makes the requests about one object. Lists and watches select it by name, so that RBAC can name it and nothing
// else is sent or held.
type object struct {
	client     rest.Interface // Of the core group.
	parameters runtime.ParameterCodec
	ref        api.Ref
}

// request returns one about the object's kind.
func (o object) request() *rest.Request {
	return o.client.Get().Namespace(o.ref.Namespace).Resource(o.ref.Kind.Resource() + "s")
}

func (o object) selecting(options metav1.ListOptions) *rest.Request {
	options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, o.ref.Name).String()
	return o.request().VersionedParams(&options, o.parameters)
}

// kept is an object of one of the kinds that are read.
type kept interface {
	meta() *metav1.ObjectMeta
	// content is what a volume can need of it.
	content(ref api.Ref) api.Content
}

type (
	configMap struct{ *corev1.ConfigMap }
	secret    struct{ *corev1.Secret }
)

// listed is the answer to a list.
type listed struct {
	version string
	object  kept // Nil if there is none.
}

func (o object) list(ctx context.Context, options metav1.ListOptions) (listed, error) {
	if o.ref.Kind == api.Secret {
		var list corev1.SecretList
		err := o.selecting(options).Do(ctx).Into(&list)
		if err != nil || len(list.Items) == 0 {
			return listed{version: list.ResourceVersion}, err
		}
		return listed{version: list.ResourceVersion, object: secret{&list.Items[0]}}, nil
	}
	var list corev1.ConfigMapList
	err := o.selecting(options).Do(ctx).Into(&list)
	if err != nil || len(list.Items) == 0 {
		return listed{version: list.ResourceVersion}, err
	}
	return listed{version: list.ResourceVersion, object: configMap{&list.Items[0]}}, nil
}

// watch returns the events as the API server writes them.
func (o object) watch(ctx context.Context, options metav1.ListOptions) (io.ReadCloser, error) {
	options.Watch = true
	return o.selecting(options).Stream(ctx)
}

// get returns the list of the object, which is empty when it does not exist.
func (o object) get(ctx context.Context) (listed, error) {
	result := o.request().Name(o.ref.Name).Do(ctx)
	var found kept
	var err error
	if o.ref.Kind == api.Secret {
		s := secret{&corev1.Secret{}}
		found, err = s, result.Into(s.Secret)
	} else {
		m := configMap{&corev1.ConfigMap{}}
		found, err = m, result.Into(m.ConfigMap)
	}
	switch {
	case o.isAbsence(err):
		return listed{}, nil
	case apierrors.IsNotFound(err):
		return listed{}, &strangeAnswerError{ref: o.ref, cause: err}
	case err != nil:
		return listed{}, err
	}
	return listed{version: found.meta().ResourceVersion, object: found}, nil
}

// isAbsence reports whether an error is the answer of an API server that the object does not exist: a Status that names the
// object. API servers send the same Status when the namespace does not exist. Other answers with the status 404 come from
// proxies, from unknown paths, or are about something else; the client library makes a Status of its own of some of them.
func (o object) isAbsence(err error) bool {
	answer, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok || apierrors.IsUnexpectedServerError(err) {
		return false
	}
	status := answer.Status()
	about := status.Details
	if status.Reason != metav1.StatusReasonNotFound || about == nil {
		return false
	}
	isKind := about.Kind == "" || about.Kind == o.ref.Kind.Resource()+"s"
	return isKind && about.Name == o.ref.Name && about.Group == corev1.GroupName
}

// strangeAnswerError is an answer with the status 404 that is not about the object. It does not unwrap to its cause, which
// looks like the absence of the object.
type strangeAnswerError struct {
	ref   api.Ref
	cause error
}

func (e *strangeAnswerError) Error() string {
	return fmt.Sprintf("the answer has the status 404, but does not say that %s is not found; "+
		"it may come from a proxy and not from the API server: %v", e.ref, e.cause)
}

// keptOf returns the object of an event. It is not ok if the event is of no sort that is known, or about anything else than
// the ref. Of a bookmark only the kind is the ref's.
func keptOf(ref api.Ref, e watch.Event) (_ kept, ok bool) {
	var found kept
	switch o := e.Object.(type) {
	case *corev1.ConfigMap:
		found, ok = configMap{o}, ref.Kind == api.ConfigMap
	case *corev1.Secret:
		found, ok = secret{o}, ref.Kind == api.Secret
	}
	if !ok {
		return nil, false
	}
	switch e.Type {
	case watch.Bookmark:
		return found, true
	case watch.Added, watch.Modified, watch.Deleted:
		return found, found.meta().Name == ref.Name && found.meta().Namespace == ref.Namespace
	default:
		return nil, false
	}
}

func (m configMap) meta() *metav1.ObjectMeta { return &m.ObjectMeta }
func (s secret) meta() *metav1.ObjectMeta    { return &s.ObjectMeta }

func (m configMap) content(ref api.Ref) api.Content {
	data := make(map[string][]byte, len(m.Data)+len(m.BinaryData))
	maps.Copy(data, m.BinaryData)
	for k, v := range m.Data {
		data[k] = []byte(v)
	}
	return content(ref, &m.ObjectMeta, m.Immutable, data)
}

func (s secret) content(ref api.Ref) api.Content {
	return content(ref, &s.ObjectMeta, s.Immutable, s.Data)
}

// ContentOfConfigMap returns what a volume can need of a ConfigMap, for whoever has come by it in another way than a [Cache].
func ContentOfConfigMap(m *corev1.ConfigMap) api.Content {
	return configMap{m}.content(api.Ref{Kind: api.ConfigMap, Namespace: m.Namespace, Name: m.Name})
}

// ContentOfSecret is [ContentOfConfigMap] for a Secret.
func ContentOfSecret(s *corev1.Secret) api.Content {
	return secret{s}.content(api.Ref{Kind: api.Secret, Namespace: s.Namespace, Name: s.Name})
}

func content(ref api.Ref, meta *metav1.ObjectMeta, immutable *bool, data map[string][]byte) api.Content {
	return api.Content{
		Ref: ref, UID: string(meta.UID), ResourceVersion: meta.ResourceVersion,
		Immutable: immutable != nil && *immutable, Data: data, ChangedAt: changedAt(meta),
	}
}

// changedAt returns when somebody last changed the object, as far as the API server has kept it; zero if it has not.
func changedAt(meta *metav1.ObjectMeta) time.Time {
	var newest time.Time
	for _, f := range meta.ManagedFields {
		if f.Time != nil && f.Time.After(newest) {
			newest = f.Time.Time
		}
	}
	return newest
}
