package controller

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/workloop"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
)

// TestAPanicEndsNothing: an object over which the controller panics delays no release of another one. It is tried again, later
// each time, and released when the panic is over.
//
// Fault 49.
func TestAPanicEndsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var objects []runtime.Object
		for _, name := range []string{"bad", "good"} {
			m := metav1.ObjectMeta{Namespace: "n", Name: name, UID: "uid", ResourceVersion: "1", Annotations: map[string]string{release.Annotation: ""}}
			objects = append(objects, &corev1.ConfigMap{ObjectMeta: m})
		}
		client := fake.NewClientset(objects...)
		var tries atomic.Int32
		var isHealed atomic.Bool
		client.PrependReactor("get", "configmaps", func(a k8stesting.Action) (bool, runtime.Object, error) {
			if get, ok := a.(k8stesting.GetAction); ok && get.GetName() == "bad" {
				if tries.Add(1); !isHealed.Load() {
					panic("poisoned")
				}
			}
			return false, nil, nil
		})
		informer := informers.NewSharedInformerFactory(client, 0).Core().V1().ConfigMaps().Informer()
		err := informer.SetTransform(func(o any) (any, error) {
			if m, ok := o.(*corev1.ConfigMap); ok {
				return marked(m.ObjectMeta), nil
			}
			return o, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		c, err := New(Config{
			Client: client, Objects: map[api.Kind][]cache.SharedIndexInformer{api.ConfigMap: {informer}}, DriverName: driverName,
			Events: &record.FakeRecorder{}, Registry: prometheus.NewRegistry(),
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
		ended := make(chan error, 1)
		go informer.RunWithContext(ctx)
		go func() { ended <- c.Run(ctx) }()
		wantCopies := func(want int) {
			t.Helper()
			<-time.After(time.Minute)
			copies := 0
			for _, name := range []string{"bad", "good"} {
				if _, err := client.CoreV1().ConfigMaps("n").Get(ctx, name+release.Suffix, metav1.GetOptions{}); err == nil {
					copies++
				}
			}
			if copies != want {
				t.Errorf("there are %d stable copies, want %d", copies, want)
			}
		}
		wantCopies(1)
		if tries := tries.Load(); tries < 5 || tries > 30 {
			t.Errorf("the object was tried %d times within a minute, want 5 to 30", tries)
		}
		isHealed.Store(true)
		wantCopies(2)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestACheckThatPanics ends as a check whose result is not known, which is tried again.
//
// Fault 49.
func TestACheckThatPanics(t *testing.T) {
	t.Parallel()
	c, done := newChecks(), make(chan unit, 1)
	next := task{unit: unit{namespace: "n"}, do: func(context.Context) (string, error) { panic("poisoned") }, done: func(u unit) { done <- u }}
	if _, isDone, err := c.result(t.Context(), next); isDone || err != nil {
		t.Fatalf("result = %t, %v, want that the check has begun", isDone, err)
	}
	<-done
	_, _, err := c.result(t.Context(), next)
	if _, ok := errors.AsType[*workloop.PanicError](err); !ok {
		t.Errorf("result = %v, want the panic", err)
	}
	c.wait()
}
