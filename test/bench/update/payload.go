package update

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const (
	// payloadKey is the one key of the objects.
	payloadKey = "payload"
	// versionDigits is how long the number is with which a payload begins.
	versionDigits = 10
	// line is what follows it, over and over.
	line = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.\n"
)

// payload is one size of content.
type payload struct {
	name string
	size int
}

func payloads() []payload {
	// An object holds at most 1 MiB, keys included.
	return []payload{{"1 KiB", 1 << 10}, {"64 KiB", 64 << 10}, {"1 MiB", 1<<20 - 1<<10}}
}

// object returns a ConfigMap of a version.
func object(namespace, name string, version, size int) *corev1.ConfigMap {
	text := fmt.Sprintf("%0*d", versionDigits, version)
	rest := size - len(text)
	text += strings.Repeat(line, rest/len(line)+1)[:rest]
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string]string{payloadKey: text},
	}
}

func versionOf(cm *corev1.ConfigMap) (int, error) {
	text := cm.Data[payloadKey]
	if len(text) < versionDigits {
		return 0, fmt.Errorf("object %s has %d bytes of payload", cm.Name, len(text))
	}
	return strconv.Atoi(text[:versionDigits])
}

// writer makes versions of one object.
type writer struct {
	client          kubernetes.Interface
	namespace, name string
	version         int
}

func (w *writer) create(ctx context.Context, size int) error {
	w.version = 1
	_, err := w.client.CoreV1().ConfigMaps(w.namespace).Create(ctx, object(w.namespace, w.name, w.version, size), metav1.CreateOptions{})
	return err
}

// next returns the next version, which [writer.send] writes.
func (w *writer) next(size int) *corev1.ConfigMap {
	w.version++
	return object(w.namespace, w.name, w.version, size)
}

func (w *writer) send(ctx context.Context, cm *corev1.ConfigMap) error {
	_, err := w.client.CoreV1().ConfigMaps(w.namespace).Update(ctx, cm, metav1.UpdateOptions{})
	return err
}
