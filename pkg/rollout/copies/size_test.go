package copies_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation"
)

// largest is how many bytes of data the API server takes in one object.
const largest = 1 << 20

// overhead is what a copy may have more than a source without any labels and annotations, however long names are.
const overhead = 2000

// bare returns metadata like the least that a source comes with.
func bare(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: strings.Repeat("n", 63), Name: name, UID: "01234567-89ab-cdef-0123-456789abcdef", ResourceVersion: "18446744073709551615"}
}

// TestCopiesOfTheLargestObjects: the data of a copy is that of the source, which the API server has taken, and what comes
// to it does not grow with it. The whole stays far below what a request and an entry of etcd may have (1.5 MiB).
func TestCopiesOfTheLargestObjects(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"foo", strings.Repeat("a", 253)} {
		text := &corev1.ConfigMap{ObjectMeta: bare(name), Data: map[string]string{"key": strings.Repeat("x", largest)}}
		checkSize(t, text, configMapCopy(t, text))

		many := &corev1.ConfigMap{ObjectMeta: bare(name), BinaryData: map[string][]byte{}}
		for i := range 4096 {
			many.BinaryData[fmt.Sprintf("key-%d", i)] = make([]byte, largest/4096)
		}
		checkSize(t, many, configMapCopy(t, many))

		secret := &corev1.Secret{ObjectMeta: bare(name), Type: corev1.SecretTypeOpaque, Data: map[string][]byte{"key": make([]byte, largest)}}
		checkSize(t, secret, secretCopy(t, secret))
	}
}

type object interface {
	metav1.Object
	Size() int
}

func checkSize(t *testing.T, source, made object) {
	t.Helper()
	sourceJSON, madeJSON := length(t, source), length(t, made)
	if madeJSON > sourceJSON+overhead || made.Size() > source.Size()+overhead {
		t.Errorf("the copy has %d bytes as JSON and %d stored, its source %d and %d: want at most %d more",
			madeJSON, made.Size(), sourceJSON, source.Size(), overhead)
	}
	if made.Size() > 3<<19 {
		t.Errorf("the copy has %d bytes stored, want at most %d", made.Size(), 3<<19)
	}
	for key, value := range made.GetLabels() {
		if problems := append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...); len(problems) > 0 {
			t.Errorf("label %s=%s: %v", key, value, problems)
		}
	}
	for key := range made.GetAnnotations() {
		if problems := validation.IsQualifiedName(key); len(problems) > 0 {
			t.Errorf("annotation %s: %v", key, problems)
		}
	}
}

func length(t *testing.T, o any) int {
	t.Helper()
	data, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return len(data)
}
