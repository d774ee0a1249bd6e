package source

import (
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

// object makes the requests about one object. Lists and watches select it by name, so that RBAC can name it and nothing
// else is sent or held.
type object struct {
	client corev1client.CoreV1Interface
	ref    api.Ref
}

func (o object) selector() string {
	return fields.OneTermEqualSelector(metav1.ObjectNameField, o.ref.Name).String()
}

func (o object) list(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	options.FieldSelector = o.selector()
	if o.ref.Kind == api.Secret {
		return o.client.Secrets(o.ref.Namespace).List(ctx, options)
	}
	return o.client.ConfigMaps(o.ref.Namespace).List(ctx, options)
}

func (o object) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	options.FieldSelector = o.selector()
	if o.ref.Kind == api.Secret {
		return o.client.Secrets(o.ref.Namespace).Watch(ctx, options)
	}
	return o.client.ConfigMaps(o.ref.Namespace).Watch(ctx, options)
}

// get returns the list of the object, which is empty when it does not exist.
func (o object) get(ctx context.Context) (runtime.Object, error) {
	if o.ref.Kind == api.Secret {
		secret, err := o.client.Secrets(o.ref.Namespace).Get(ctx, o.ref.Name, metav1.GetOptions{})
		if err != nil {
			return &corev1.SecretList{}, butNotFound(err)
		}
		return &corev1.SecretList{ListMeta: versionOf(&secret.ObjectMeta), Items: []corev1.Secret{*secret}}, nil
	}
	configMap, err := o.client.ConfigMaps(o.ref.Namespace).Get(ctx, o.ref.Name, metav1.GetOptions{})
	if err != nil {
		return &corev1.ConfigMapList{}, butNotFound(err)
	}
	return &corev1.ConfigMapList{ListMeta: versionOf(&configMap.ObjectMeta), Items: []corev1.ConfigMap{*configMap}}, nil
}

func butNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func versionOf(o *metav1.ObjectMeta) metav1.ListMeta {
	return metav1.ListMeta{ResourceVersion: o.ResourceVersion}
}

// contentOf keeps of an object what a volume can need.
func contentOf(ref api.Ref, obj any) (api.Content, error) {
	switch o := obj.(type) {
	case *corev1.ConfigMap:
		data := make(map[string][]byte, len(o.Data)+len(o.BinaryData))
		maps.Copy(data, o.BinaryData)
		for k, v := range o.Data {
			data[k] = []byte(v)
		}
		return content(ref, &o.ObjectMeta, o.Immutable, data), nil
	case *corev1.Secret:
		return content(ref, &o.ObjectMeta, o.Immutable, o.Data), nil
	default:
		return api.Content{}, fmt.Errorf("watch of %s brought a %T", ref, obj)
	}
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
