package fakeserver

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

// step is one change of an object: before it is nil for a new object, and after it is nil for one
// that is gone.
type step struct {
	version       int
	before, after Object
}

// wholeKind returns the ref without a name that a request for a selection is about.
func wholeKind(r *http.Request) (ref api.Ref, ok bool) {
	query := r.URL.Query()
	if r.Method != http.MethodGet || query.Get("labelSelector") == "" || query.Get("fieldSelector") != "" {
		return ref, false
	}
	path := strings.Split(strings.TrimPrefix(r.URL.Path, "/api/v1/"), "/")
	if len(path) == 3 && path[0] == "namespaces" {
		ref.Namespace, path = path[1], path[2:]
	}
	kinds := map[string]api.Kind{"configmaps": api.ConfigMap, "secrets": api.Secret}
	ref.Kind = kinds[path[0]]
	return ref, len(path) == 1 && ref.Kind != ""
}

// selection reports whether an object belongs to it.
type selection func(Object) bool

// selectionOf parses the selector once for all objects.
func selectionOf(ref api.Ref, selector string) selection {
	parsed, err := labels.Parse(selector)
	if err != nil {
		panic(err)
	}
	return func(o Object) bool {
		of := refOf(o)
		return of.Kind == ref.Kind && (ref.Namespace == "" || ref.Namespace == of.Namespace) &&
			parsed.Matches(labels.Set(o.GetLabels()))
	}
}

// eventOf returns the event that a watch of a selection gets for a step; none for most steps. As
// with an API server, an object that leaves the selection is deleted, in its last state there.
func (has selection) eventOf(s step) (e watch.Event, ok bool) {
	was := s.before != nil && has(s.before)
	is := s.after != nil && has(s.after)
	switch {
	case is && was:
		return watch.Event{Type: watch.Modified, Object: s.after}, true
	case is:
		return watch.Event{Type: watch.Added, Object: s.after}, true
	case was:
		last, _ := s.before.DeepCopyObject().(Object)
		last.SetResourceVersion(strconv.Itoa(s.version))
		return watch.Event{Type: watch.Deleted, Object: last}, true
	}
	return e, false
}

// noteStepLocked stores a step, and sends it to the watches of selections.
func (c *Server) noteStepLocked(before, after Object) {
	s := step{version: c.version, before: before, after: after}
	c.steps = append(c.steps, s)
	for w := range c.watches {
		if w.selected == nil || w.isDead {
			continue
		}
		if e, ok := w.selected.eventOf(s); ok {
			w.events <- c.Front.Event(e)
		}
	}
}

// selected answers a list of a selection, in pages.
func (c *Server) selected(ref api.Ref, opts metav1.ListOptions) (runtime.Object, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.recordLocked("list", ref, opts)
	if c.listErr != nil {
		return nil, c.listErr
	}
	if opts.ResourceVersion != "" || opts.Limit == 0 {
		c.t.Errorf("a list of a selection has the version %q and the limit %d, want no version, and a limit",
			opts.ResourceVersion, opts.Limit)
	}
	var all []Object
	has := selectionOf(ref, opts.LabelSelector)
	for _, o := range c.objects {
		if has(o) {
			all = append(all, o)
		}
	}
	slices.SortFunc(all, func(a, b Object) int { return strings.Compare(refOf(a).String(), refOf(b).String()) })
	meta := metav1.ListMeta{ResourceVersion: strconv.Itoa(c.version)}
	if opts.Continue != "" {
		if c.continueErr != nil {
			return nil, c.continueErr
		}
		all = slices.DeleteFunc(all, func(o Object) bool { return refOf(o).String() <= opts.Continue })
	}
	if len(all) > int(opts.Limit) {
		all = all[:opts.Limit]
		meta.Continue = refOf(all[len(all)-1]).String()
	}
	maps, secrets := &corev1.ConfigMapList{ListMeta: meta}, &corev1.SecretList{ListMeta: meta}
	for _, o := range all {
		switch o := o.(type) {
		case *corev1.ConfigMap:
			maps.Items = append(maps.Items, *o)
		case *corev1.Secret:
			secrets.Items = append(secrets.Items, *o)
		}
	}
	if ref.Kind == api.Secret {
		return secrets, nil
	}
	return maps, nil
}

// watchSelected opens a watch of a selection.
func (c *Server) watchSelected(r *http.Request, ref api.Ref, opts metav1.ListOptions) (*serverWatch, error) {
	c.mu.Lock()
	from, err := strconv.Atoi(opts.ResourceVersion)
	if err != nil || from < c.compacted {
		c.recordLocked("watch", ref, opts)
		c.mu.Unlock()
		return nil, apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %s", opts.ResourceVersion))
	}
	c.mu.Unlock()
	w, err := c.watch(r.Context(), ref, opts)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	w.selected = selectionOf(ref, opts.LabelSelector)
	for _, s := range c.steps {
		if e, ok := w.selected.eventOf(s); ok && s.version > from {
			w.events <- c.Front.Event(e)
		}
	}
	return w, nil
}

// serveSelection answers a request for a selection.
func (c *Server) serveSelection(r *http.Request, ref api.Ref) (*http.Response, error) {
	var opts metav1.ListOptions
	query := r.URL.Query()
	if err := metav1.Convert_url_Values_To_v1_ListOptions(&query, &opts, nil); err != nil {
		c.t.Error(err)
	}
	if !opts.Watch {
		o, err := c.selected(ref, opts)
		return c.Front.Answer(r, o, err)
	}
	w, err := c.watchSelected(r, ref, opts)
	if err != nil {
		return c.Front.Answer(r, nil, err)
	}
	return c.Front.Stream(r, w), nil
}

// FailPages sets what all pages but the first answer from now on; nil stands for the truth.
func (c *Server) FailPages(err error) { c.Set(func() { c.continueErr = err }) }

// Compact makes the server forget all versions before the latest one.
func (c *Server) Compact() { c.Set(func() { c.compacted = c.version }) }
