package version

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clientgotesting "k8s.io/client-go/testing"
)

func podOf(component, container, image string) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app.kubernetes.io/name": "liveconfig", labelComponent: component}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "registrar", Image: "registrar:v9"}, {Name: container, Image: image}}},
	}
}

// paged is an API server that has pods in so many pages, one a page.
func paged(pods []corev1.Pod, pages int) *fake.Clientset {
	client, page := fake.NewClientset(), 0
	client.PrependReactor("list", "pods", func(clientgotesting.Action) (bool, runtime.Object, error) {
		list := &corev1.PodList{Items: pods[page%len(pods) : page%len(pods)+1]}
		if page++; page < pages {
			list.Continue = "more"
		}
		return true, list, nil
	})
	return client
}

func TestInstalled(t *testing.T) {
	t.Parallel()
	pods := []corev1.Pod{
		podOf("controller", "controller", "registry.example:5000/liveconfig:v1"), podOf("driver", "driver", "liveconfig:v2"),
		podOf("driver", "driver", "liveconfig:v1"), podOf("driver", "driver", "liveconfig:v2@sha256:0123"), podOf("driver", "other", "x:v3"),
	}
	got, err := installed(t.Context(), paged(pods, len(pods)), "liveconfig-system")
	want := []installation{{"driver", "v1", 1}, {"driver", "v2", 2}, {"controller", "v1", 1}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(installation{})); err != nil || diff != "" {
		t.Errorf("installed returns %v (-want +got):\n%s", err, diff)
	}
	many := paged(pods, mostPages+1)
	if _, err := installed(t.Context(), many, "liveconfig-system"); err == nil || len(many.Actions()) != mostPages {
		t.Errorf("installed returns %v after %d pages, want an error after %d", err, len(many.Actions()), mostPages)
	}
}

func TestVersionOf(t *testing.T) {
	t.Parallel()
	for image, want := range map[string]string{
		"liveconfig:dev": "dev", "registry.example:5000/a/liveconfig:v1.2.3": "v1.2.3", "registry.example:5000/liveconfig": "latest",
		"liveconfig@sha256:0123456789abcdef": "sha256:0123456789ab", "liveconfig:v1@sha256:01": "v1", "liveconfig": "latest",
	} {
		if got := versionOf(image); got != want {
			t.Errorf("versionOf(%q) = %q, want %q", image, got, want)
		}
	}
}
