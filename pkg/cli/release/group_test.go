package release

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/session"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
)

// TestAGroupThatDisagrees: the object that has been released for the longest time decides, and others are mistaken.
func TestAGroupThatDisagrees(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset()
	for i, o := range []struct{ name, annotation string }{
		{"first", "{group: g, pause: 10s}"}, {"same", "{group: g, pause: 10s}"}, {"other", "{group: g, pause: 20s}"}, {"alone", "{pause: 20s}"},
	} {
		created := metav1.NewTime(time.Unix(int64(i), 0))
		for _, m := range []metav1.ObjectMeta{
			{Name: o.name, Annotations: map[string]string{release.Annotation: o.annotation}},
			{Name: o.name + release.Suffix, Labels: map[string]string{release.StableLabel: o.name}, CreationTimestamp: created},
		} {
			m.Namespace = "n"
			if _, err := client.CoreV1().ConfigMaps("n").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: m}, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	flags, namespace := genericclioptions.NewConfigFlags(false), "n"
	flags.Namespace = &namespace
	o := &status{target: target{Session: &session.Session{ConfigFlags: flags}}}
	views, err := o.views(t.Context(), client, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range views {
		isMistaken := v.State == stateMistaken && strings.Contains(v.Reason, "must be those of configmap/first, which is in the group g too")
		if isMistaken != (v.Object == "configmap/other") || len(views) != 4 {
			t.Errorf("of %d: %s is %s: %s", len(views), v.Object, v.State, v.Reason)
		}
	}
	if verdict(views) == nil {
		t.Error("the exit code is 0")
	}
}
