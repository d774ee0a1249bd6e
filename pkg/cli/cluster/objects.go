package cluster

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/source"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/copies"
)

// Objects reads ConfigMaps and Secrets, each once.
type Objects struct {
	client kubernetes.Interface
	read   map[api.Ref]Object
}

// NewObjects returns a reader that has read nothing.
func NewObjects(client kubernetes.Interface) *Objects {
	return &Objects{client: client, read: map[api.Ref]Object{}}
}

// Object is a ConfigMap or Secret as the API server has it.
type Object struct {
	metav1.Object // Nil if it does not exist, or cannot be read.

	Content api.Content
	// CopyName is the name that a copy of the object has. Verified is nil if the object is an
	// intact copy itself.
	CopyName string
	Verified error
	// Err is why the object cannot be read. An object that does not exist has none.
	Err error
}

// Exists reports whether the object was read.
func (o Object) Exists() bool { return o.Object != nil }

// Of reads an object.
func (o *Objects) Of(ctx context.Context, ref api.Ref) Object {
	if _, found := o.read[ref]; !found {
		o.read[ref] = Get(ctx, o.client, ref)
	}
	return o.read[ref]
}

// Get reads an object.
func Get(ctx context.Context, client kubernetes.Interface, ref api.Ref) Object {
	if ref.Kind == api.Secret {
		secret, err := client.CoreV1().Secrets(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		return objectOf(secret, err, source.ContentOfSecret)
	}
	configMap, err := client.CoreV1().ConfigMaps(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	return objectOf(configMap, err, source.ContentOfConfigMap)
}

func objectOf[O interface {
	copies.Object
	metav1.Object
}](object O, err error, content func(O) api.Content,
) Object {
	switch {
	case apierrors.IsNotFound(err):
		return Object{}
	case err != nil:
		return Object{Err: err}
	}
	digest := copies.DigestOf(object)
	return Object{
		Object: object, Content: content(object),
		CopyName: copies.Name(object.GetName(), digest), Verified: copies.Verify(object, digest),
	}
}
