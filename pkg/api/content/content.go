// Package content takes from ConfigMaps and Secrets what volumes can need.
//
// It is pure: it does not know where the objects come from.
package content

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

// OfConfigMap returns what a volume can need of a ConfigMap.
func OfConfigMap(m *corev1.ConfigMap) api.Content {
	data := make(map[string][]byte, len(m.Data)+len(m.BinaryData))
	maps.Copy(data, m.BinaryData)
	for k, v := range m.Data {
		data[k] = []byte(v)
	}
	return of(api.ConfigMap, &m.ObjectMeta, m.Immutable, data)
}

// OfSecret returns what a volume can need of a Secret.
func OfSecret(s *corev1.Secret) api.Content {
	return of(api.Secret, &s.ObjectMeta, s.Immutable, s.Data)
}

func of(kind api.Kind, meta *metav1.ObjectMeta, immutable *bool, data map[string][]byte) api.Content {
	return api.Content{
		Ref: api.Ref{Kind: kind, Namespace: meta.Namespace, Name: meta.Name},
		UID: string(meta.UID), ResourceVersion: meta.ResourceVersion,
		Immutable: immutable != nil && *immutable, Data: data, ChangedAt: ChangedAt(meta),
	}
}

// ChangedAt returns when an object was last changed, as far as the API server has recorded it;
// zero if it has not.
func ChangedAt(o metav1.Object) time.Time {
	var newest time.Time
	for _, f := range o.GetManagedFields() {
		if f.Time != nil && f.Time.After(newest) {
			newest = f.Time.Time
		}
	}
	return newest
}
