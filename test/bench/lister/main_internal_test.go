package main

import (
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

func configMap(key, text string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: key}, Data: map[string]string{key: text}}
}

// TestFiles: the directory follows what the informer has.
func TestFiles(t *testing.T) {
	t.Parallel()
	f := files{dir: t.TempDir()}
	for _, step := range []struct {
		name string
		do   func()
		want map[string]string
	}{
		{"an object appears", func() { f.write(configMap("a", "1")) }, map[string]string{"a": "1"}},
		{"it changes", func() { f.write(configMap("a", "2")) }, map[string]string{"a": "2"}},
		{"another appears", func() { f.write(configMap("b", "2")) }, map[string]string{"a": "2", "b": "2"}},
		{"the first goes", func() { f.remove(configMap("a", "2")) }, map[string]string{"b": "2"}},
		{"the other went unseen", func() { f.remove(cache.DeletedFinalStateUnknown{Obj: configMap("b", "2")}) }, nil},
	} {
		step.do()
		entries, err := os.ReadDir(f.dir)
		if err != nil || len(entries) != len(step.want) {
			t.Errorf("%s: the directory has %v, %v, want %v", step.name, entries, err, step.want)
		}
		for name, want := range step.want {
			if got, err := os.ReadFile(filepath.Join(f.dir, name)); string(got) != want {
				t.Errorf("%s: %s has %q, %v, want %q", step.name, name, got, err, want)
			}
		}
	}
}
