package rollout

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/copies"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/plan"
)

// errChanged is a source or a Role that is not any more what the cache has. The cache will have the
// change.
var errChanged = errors.New("has changed meanwhile")

// heldError is why a change has to wait for somebody.
type heldError struct {
	text string
	// forAccess means that it waits for a Role, so that it is tried again soon.
	forAccess bool
}

func (e *heldError) Error() string { return e.text }

// putOffError is a change that has to wait until its namespace may have more requests.
type putOffError struct{ wait time.Duration }

func (e *putOffError) Error() string { return fmt.Sprintf("the namespace has to wait %s", e.wait) }

// ensureCopies sees that each copy exists that a workload's template is about to name.
func (c *Controller) ensureCopies(ctx context.Context, h *cachedWorkload, d plan.Decision) error {
	copied := d.Config.Copies()
	for o := range d.Config {
		name := copied[o]
		before, isThere := h.Config[o]
		var err error
		switch {
		case isThere && before == d.Config[o]: // The queue of copies sees to what the template has already.
		case d.Config[o] == "":
			err = c.checkMissing(ctx, o.In(h.Namespace))
		case name != "":
			err = c.ensureCopy(ctx, h, o, name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkMissing returns an error if a source is there after all. Workloads and sources are watched
// apart: of two that somebody makes together either can be seen first.
func (c *Controller) checkMissing(ctx context.Context, source api.Ref) error {
	kind := map[api.Kind]string{api.ConfigMap: "configmaps", api.Secret: "secrets"}[source.Kind]
	found, err := c.cfg.Metadata.Resource(resource(kind)).Namespace(source.Namespace).Get(ctx, source.Name,
		metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("look whether %s exists: %w", source, err)
	}
	if _, isCopy := found.Labels[copies.Label]; isCopy {
		return nil // Copies are not sources.
	}
	return fmt.Errorf("%s %w", source, errChanged)
}

// ensureCopy sees that the copy of a source exists, and that the workload's pods may read it.
func (c *Controller) ensureCopy(ctx context.Context, h *cachedWorkload, o api.Ref, name string) error {
	if err := c.ensureNamed(ctx, o.In(h.Namespace), name); err != nil {
		return err
	}
	if err := c.checkReadable(ctx, h, o, name); err != nil {
		return err
	}
	if c.isKnown(o.Named(name).In(h.Namespace)) {
		return nil // Its owners keep it until this workload's revision is among them.
	}
	return c.makeCopy(ctx, o.In(h.Namespace), name, h.is.OwnerReference())
}

// isKnown reports whether a copy is there, belongs to somebody, and has been seen to be what it
// should be.
func (c *Controller) isKnown(made api.Ref) bool {
	found, exists := c.caches.copied(made)
	return exists && found.DeletionTimestamp == nil && len(found.OwnerReferences) > 0 && c.verified.has(made, found.UID)
}

// makeCopy makes the copy of a source that has this name, with owners to begin with. It is not an
// error if it is there already.
func (c *Controller) makeCopy(ctx context.Context, source api.Ref, name string, owners ...metav1.OwnerReference) error {
	var uid types.UID
	var err error
	if core := c.cfg.Client.CoreV1(); source.Kind == api.Secret {
		uid, err = copyBy(ctx, core.Secrets(source.Namespace), source, name, owners, copies.OfSecret)
	} else {
		uid, err = copyBy(ctx, core.ConfigMaps(source.Namespace), source, name, owners, copies.OfConfigMap)
	}
	if err == nil {
		c.verified.add(source.Named(name), uid)
	}
	return err
}

// verified remembers which copies have the content that their names stand for. Anybody can write a
// label, and what a copy has cannot change.
type verified struct {
	mu   sync.Mutex // Guards uids.
	uids map[api.Ref]types.UID
}

func (v *verified) has(o api.Ref, uid types.UID) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.uids[o] == uid
}

func (v *verified) add(o api.Ref, uid types.UID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.uids[o] = uid
}

func (v *verified) forget(o api.Ref) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.uids, o)
}

// client is what copying needs of a typed client.
type client[O copies.Object] interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (O, error)
	Create(ctx context.Context, object O, options metav1.CreateOptions) (O, error)
}

// copyBy returns the UID of the copy.
func copyBy[O copies.Object](
	ctx context.Context, in client[O], source api.Ref, name string, owners []metav1.OwnerReference,
	copyOf func(O) (O, error),
) (types.UID, error) {
	original, err := in.Get(ctx, source.Name, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("read %s to copy it: %w", source, err)
	}
	made, err := copyOf(original)
	if err != nil {
		return "", &heldError{text: err.Error()}
	}
	meta := metaOf(made)
	if meta.GetName() != name {
		return "", fmt.Errorf("%s %w", source, errChanged)
	}
	meta.SetOwnerReferences(owners)
	created, err := in.Create(ctx, made, metav1.CreateOptions{FieldManager: FieldManager})
	if err == nil {
		return metaOf(created).GetUID(), nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return "", creationError(source, name, err)
	}
	there, err := in.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("look at the copy of %s: %w", source, err)
	}
	err = copies.Verify(there, copies.DigestOf(original))
	if errors.Is(err, copies.ErrNotThatCopy) {
		return "", &heldError{text: err.Error()}
	}
	return metaOf(there).GetUID(), err
}

// metaOf returns the metadata of an object that can be copied.
func metaOf[O copies.Object](o O) *metav1.ObjectMeta {
	switch o := any(o).(type) {
	case *corev1.ConfigMap:
		return &o.ObjectMeta
	case *corev1.Secret:
		return &o.ObjectMeta
	default:
		panic("there is a third kind of object that can be copied")
	}
}

// creationError makes an answer that the same request will get again something to wait for a person
// with.
func creationError(source api.Ref, name string, err error) error {
	if apierrors.IsInvalid(err) || apierrors.IsRequestEntityTooLargeError(err) || apierrors.IsForbidden(err) ||
		apierrors.IsBadRequest(err) {
		text := fmt.Sprintf("the copy %s of %s is refused by the API server: %v", name, source.Local(), err)
		return &heldError{text: text, forAccess: apierrors.IsForbidden(err)}
	}
	return fmt.Errorf("create the copy of %s: %w", source, err)
}

// checkReadable returns an error if the pods read an object with their own credentials, and may not
// read its copy.
func (c *Controller) checkReadable(ctx context.Context, h *cachedWorkload, o api.Ref, copied string) error {
	if !c.cfg.SecretsByPod || !isReadByPods(h, o) {
		return nil
	}
	account := h.is.Template.Spec.ServiceAccountName
	if account == "" {
		account = "default"
	}
	meta := metav1.ObjectMeta{Namespace: h.Namespace} // The review of one namespace is one that a Role can allow.
	review := &authorizationv1.LocalSubjectAccessReview{ObjectMeta: meta, Spec: authorizationv1.SubjectAccessReviewSpec{
		User:   "system:serviceaccount:" + h.Namespace + ":" + account,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + h.Namespace, "system:authenticated"},
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: h.Namespace, Verb: "get", Version: "v1", Resource: "secrets", Name: copied,
		},
	}}
	answer, err := c.cfg.Client.AuthorizationV1().LocalSubjectAccessReviews(h.Namespace).Create(ctx, review,
		metav1.CreateOptions{})
	switch {
	case apierrors.IsForbidden(err):
		return &heldError{
			forAccess: true,
			text: fmt.Sprintf("the controller may not ask whether service account %s may get secret %s: "+
				"give it that right, or run it with --secret-identity=driver if the driver has that: %v", account, copied, err),
		}
	case err != nil:
		return fmt.Errorf("ask whether %s may read copies of %s: %w", account, o, err)
	case answer.Status.Allowed:
		return nil
	}
	role := "a Role for secrets without resourceNames"
	if c.cfg.Roles {
		role = fmt.Sprintf("a Role that names %s and has the annotation %s=%s", o.Name, copies.OfAnnotation, o)
	}
	return &heldError{
		forAccess: true,
		text: fmt.Sprintf("service account %s may not get secret %s, the copy of %s, which its pods read with their own "+
			"credentials: copies have new names, so give it %s, or use a volume of type secret", account, copied, o, role),
	}
}

func isReadByPods(h *cachedWorkload, o api.Ref) bool {
	for _, use := range h.Uses {
		if use.ByPod && (use.Object == o || use.Object == o.Named(h.Config[o])) {
			return true
		}
	}
	return false
}
