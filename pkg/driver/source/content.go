package source

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/content"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/objectwatch"
)

// kinds returns the kinds of objects that are read.
func kinds() map[api.Kind]*objectwatch.Kind {
	return map[api.Kind]*objectwatch.Kind{
		api.ConfigMap: {Name: api.ConfigMap.Resource(), Object: &corev1.ConfigMap{}, List: &corev1.ConfigMapList{}},
		api.Secret:    {Name: api.Secret.Resource(), Object: &corev1.Secret{}, List: &corev1.SecretList{}},
	}
}

// contentOf returns the content of an object of one of the kinds.
func contentOf(o metav1.Object) api.Content {
	if s, ok := o.(*corev1.Secret); ok {
		return content.OfSecret(s)
	}
	m, _ := o.(*corev1.ConfigMap)
	return content.OfConfigMap(m)
}

// sizeOf returns about how many bytes the metadata of an object have in an event.
func sizeOf(meta metav1.Object) int64 {
	size := 0
	for _, texts := range []map[string]string{meta.GetAnnotations(), meta.GetLabels()} {
		for name, value := range texts {
			size += len(name) + len(value)
		}
	}
	for _, f := range meta.GetManagedFields() {
		if f.FieldsV1 != nil {
			size += f.FieldsV1.Size()
		}
	}
	return int64(size)
}
