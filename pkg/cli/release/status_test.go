package release

import (
	"bytes"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/session"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
)

// TestWatchOutlastsErrors that may pass, and no others.
func TestWatchOutlastsErrors(t *testing.T) {
	t.Parallel()
	pods := corev1.Resource("pods")
	tests := map[string]struct {
		err     error
		wantErr string
		remark  string
	}{
		"the API server is overloaded": {apierrors.NewTooManyRequests("later", 1), "", "will look again: list pods: later"},
		"it may not be asked":          {apierrors.NewForbidden(pods, "", nil), "list pods: pods is forbidden", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			meta := metav1.ObjectMeta{Namespace: "n", Name: "web", Annotations: map[string]string{release.Annotation: "{}"}}
			stable := metav1.ObjectMeta{Namespace: "n", Name: "web.stable", Labels: map[string]string{release.StableLabel: "web"}}
			client := fake.NewClientset(&corev1.ConfigMap{ObjectMeta: meta}, &corev1.ConfigMap{ObjectMeta: stable})
			asked := 0
			client.PrependReactor("list", "pods", func(k8stesting.Action) (bool, runtime.Object, error) {
				if asked++; asked <= 2 {
					return true, nil, tc.err
				}
				return false, nil, nil
			})
			flags, namespace := genericclioptions.NewConfigFlags(false), "n"
			flags.Namespace = &namespace
			var out, remarks bytes.Buffer
			o := &status{timeout: time.Minute, target: target{Session: &session.Session{
				ConfigFlags: flags, IOStreams: genericiooptions.IOStreams{Out: &out, ErrOut: &remarks},
			}}}
			err := o.follow(t.Context(), client, "configmap/web")
			switch {
			case tc.wantErr == "" && (err != nil || !strings.Contains(out.String(), "configmap/web  Stable")):
				t.Errorf("it prints %q and fails with %v, want a stable object", out.String(), err)
			case tc.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tc.wantErr)):
				t.Errorf("the error is %v, want %s", err, tc.wantErr)
			}
			if got := remarks.String(); strings.Count(got, tc.remark) != 1 && tc.remark != "" {
				t.Errorf("the remarks are %q, want %q once", got, tc.remark)
			}
		})
	}
}

// TestATakenName of a copy, or one without its label, is a mistake, and not an object that all pods have.
func TestATakenName(t *testing.T) {
	t.Parallel()
	meta := metav1.ObjectMeta{Namespace: "n", Name: "web", Annotations: map[string]string{release.Annotation: "{}"}}
	client := fake.NewClientset(&corev1.ConfigMap{ObjectMeta: meta}, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "web.stable"}})
	flags, namespace := genericclioptions.NewConfigFlags(false), "n"
	flags.Namespace = &namespace
	o := &status{target: target{Session: &session.Session{ConfigFlags: flags}}}
	views, err := o.views(t.Context(), client, []string{"configmap/web"})
	if err != nil {
		t.Fatal(err)
	}
	if v := views[0]; v.State != stateMistaken || !strings.Contains(v.Reason, "has the name of the stable copy") || verdict(views) == nil {
		t.Errorf("the view is %+v, want a mistake and an exit code", v)
	}
}
