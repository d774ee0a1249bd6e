package source

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
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
		return ContentOfSecret(s)
	}
	m, _ := o.(*corev1.ConfigMap)
	return ContentOfConfigMap(m)
}

// ContentOfConfigMap returns what a volume can need of a ConfigMap.
func ContentOfConfigMap(m *corev1.ConfigMap) api.Content {
	data := make(map[string][]byte, len(m.Data)+len(m.BinaryData))
	maps.Copy(data, m.BinaryData)
	for k, v := range m.Data {
		data[k] = []byte(v)
	}
	return content(api.ConfigMap, &m.ObjectMeta, m.Immutable, data)
}

// ContentOfSecret returns what a volume can need of a Secret.
func ContentOfSecret(s *corev1.Secret) api.Content {
	return content(api.Secret, &s.ObjectMeta, s.Immutable, s.Data)
}

func content(kind api.Kind, meta *metav1.ObjectMeta, immutable *bool, data map[string][]byte) api.Content {
	return api.Content{
		Ref: api.Ref{Kind: kind, Namespace: meta.Namespace, Name: meta.Name},
		UID: string(meta.UID), ResourceVersion: meta.ResourceVersion,
		Immutable: immutable != nil && *immutable, Data: data, ChangedAt: changedAt(meta),
	}
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

// changedAt returns when the object was last changed, as far as the API server has recorded it;
// zero if it has not.
func changedAt(meta *metav1.ObjectMeta) time.Time {
	var newest time.Time
	for _, f := range meta.ManagedFields {
		if f.Time != nil && f.Time.After(newest) {
			newest = f.Time.Time
		}
	}
	return newest
}
