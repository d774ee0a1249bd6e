package fakeserver

import (
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

// SentEvery is how often API servers send bookmarks.
const SentEvery = time.Minute

// ConfigMap returns one whose key «k» has the value.
func ConfigMap(ref api.Ref, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name},
		Data:       map[string]string{"k": value},
	}
}

// Bookmark sends one to the watches of the refs.
func (c *Server) Bookmark(refs ...api.Ref) {
	for _, ref := range refs {
		meta := metav1.ObjectMeta{ResourceVersion: "200"}
		var o runtime.Object = &corev1.ConfigMap{ObjectMeta: meta}
		if ref.Kind == api.Secret {
			o = &corev1.Secret{ObjectMeta: meta}
		}
		c.Send(ref, watch.Event{Type: watch.Bookmark, Object: o})
	}
	synctest.Wait()
}

// Bookmarks sends bookmarks for as long as that, as often as API servers do.
func (c *Server) Bookmarks(d time.Duration, refs ...api.Ref) {
	for range d / SentEvery {
		time.Sleep(SentEvery) //nolint:forbidigo // It takes no time in a bubble.
		c.Bookmark(refs...)
	}
}

// WantRequests compares the verbs of the requests for a ref so far.
func (c *Server) WantRequests(ref api.Ref, want ...string) {
	c.t.Helper()
	synctest.Wait()
	if diff := cmp.Diff(want, c.Requested(ref)); diff != "" {
		c.t.Errorf("requests for %s (-want +got):\n%s", ref, diff)
	}
}

// WantVersions compares the resource versions that lists have asked for so far.
func (c *Server) WantVersions(want ...string) {
	c.t.Helper()
	var got []string
	for _, r := range c.All() {
		if r.Verb == "list" {
			got = append(got, r.Opts.ResourceVersion)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		c.t.Errorf("resource versions of lists (-want +got):\n%s", diff)
	}
}

// Fail sends an error into the watches of a ref.
func (c *Server) Fail(ref api.Ref, err *apierrors.StatusError) {
	c.Send(ref, watch.Event{Type: watch.Error, Object: &err.ErrStatus})
	synctest.Wait()
}
