package rollout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/logkeys"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/copies"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
)

// roleSettles is how long after a Role was written the API server is not asked who may read a copy:
// it learns of Roles by a watch.
const roleSettles = 2 * time.Second

// cachedRole is what the caches store of a Role. Of one without the annotation they store the name
// only.
type cachedRole struct {
	metav1.ObjectMeta

	// Sources are those of which the Role is to name the copies.
	Sources []api.Ref
	Rules   []rbacv1.PolicyRule
	// ChangedAt is when it was last written, by the API server's clock and in whole seconds.
	ChangedAt time.Time
	// Trouble is what of the annotation cannot be followed. Empty: nothing.
	Trouble string
}

// roleOf is the transform of caches of Roles.
func roleOf(o any) (any, error) {
	role, ok := o.(*rbacv1.Role)
	if !ok {
		return o, nil // It has been transformed already, or is a tombstone.
	}
	cached := &cachedRole{ObjectMeta: indexedMetadata(role)}
	text, found := role.Annotations[copies.OfAnnotation]
	if !found {
		return cached, nil
	}
	cached.Rules, cached.ChangedAt = role.Rules, changedAt(role)
	sources, err := trigger.Parse(text)
	if err != nil {
		cached.Trouble = fmt.Sprintf("the annotation %s %v", copies.OfAnnotation, err)
	}
	cached.Sources = sources
	for _, o := range sources {
		if !slices.ContainsFunc(role.Rules, func(r rbacv1.PolicyRule) bool { return isRuleFor(r, o) }) {
			cached.Trouble = fmt.Sprintf("the annotation %s lists %s, and no rule names it: add a rule with apiGroups [\"\"], "+
				"resources [%ss], resourceNames [%s], verbs [get, list, watch]", copies.OfAnnotation, o, o.Kind.Resource(), o.Name)
		}
	}
	return cached, nil
}

func roleIndexers() cache.Indexers {
	return cache.Indexers{bySource: func(o any) ([]string, error) {
		role, ok := o.(*cachedRole)
		if !ok {
			return nil, nil
		}
		return keys(role.Namespace, role.Sources), nil
	}}
}

// isRuleFor reports whether a rule is for one kind of object, and names the source.
func isRuleFor(rule rbacv1.PolicyRule, source api.Ref) bool {
	return slices.Equal(rule.APIGroups, []string{corev1.GroupName}) &&
		slices.Equal(rule.Resources, []string{source.Kind.Resource() + "s"}) &&
		slices.Contains(rule.ResourceNames, source.Name)
}

func (c *caches) role(key types.NamespacedName) (*cachedRole, bool) {
	return find[*cachedRole](c.roles, key.Namespace, key.Name)
}

func (c *caches) rolesFor(source api.Ref) []*cachedRole {
	return indexed[*cachedRole](c.roles, bySource, source.String())
}

func keyOf(role *cachedRole) types.NamespacedName {
	return types.NamespacedName{Namespace: role.Namespace, Name: role.Name}
}

func (c *Controller) roleChanged(old, now any) {
	if role, ok := either[*cachedRole](old, now); ok {
		c.roles.Add(keyOf(role))
	}
}

// queueRolesNaming queues the Roles that may name an object, if its name is one of a copy.
func (c *Controller) queueRolesNaming(o api.Ref) {
	if source, _, ok := copies.SplitName(o.Name); ok {
		c.queueRoles(o.Named(source))
	}
}

// queueRolesOfCopy has the Roles looked at that are to name a copy, before or after it has changed.
func (c *Controller) queueRolesOfCopy(kind api.Kind, old, now any) {
	before, _ := old.(*cachedCopy)
	after, _ := now.(*cachedCopy)
	if before != nil && after != nil && maps.Equal(before.Annotations, after.Annotations) {
		return
	}
	for _, made := range []*cachedCopy{before, after} {
		if made == nil {
			continue
		}
		c.queueRolesNaming(api.Ref{Kind: kind, Namespace: made.Namespace, Name: made.Name})
		if source, err := copies.SourceOf(made.Annotations); err == nil {
			c.queueRoles(source.In(made.Namespace))
		}
	}
}

// queueRoles queues the Roles that are to name the copies of a source, after a short wait. Further
// changes in that time cause no further look.
func (c *Controller) queueRoles(source api.Ref) {
	for _, role := range c.caches.rolesFor(source) {
		c.roles.AddAfter(keyOf(role), folding)
	}
}

// reconcileRole makes a Role name the copies that it is to name, and reports why it does not.
func (c *Controller) reconcileRole(ctx context.Context, key types.NamespacedName) error {
	role, found := c.caches.role(key)
	if !found {
		c.reportedRole.Forget(key)
		c.requests.Forget(key)
		return nil
	}
	patch, isWhole := c.namesPatch(role)
	if wait := c.chargeRole(role, patch); wait > 0 {
		c.postponeRole(ctx, role, wait)
		return nil
	}
	err := c.sendNames(ctx, role, patch)
	var refused *heldError
	switch {
	case errors.As(err, &refused):
		c.reportRole(ctx, role, ReasonHeldBack, refused.text)
		c.roles.AddAfter(key, retryHeld)
	case errors.Is(err, errChanged): // The cache will have the change, and queue the Role again.
	case err != nil:
		return err
	case role.Trouble != "":
		c.reportRole(ctx, role, ReasonHeldBack, role.Trouble)
	case !isWhole:
		c.reportRole(ctx, role, ReasonHeldBack,
			fmt.Sprintf("there are more copies of %s than the %d that a rule can name, so it names those "+
				"that pod templates use and the newest: delete copies that nothing uses", trigger.Format(role.Sources), mostNames))
	default:
		c.reportedRole.Forget(key)
	}
	return nil
}

// chargeRole charges the namespace with the write of a Role, if there is one, and returns how long
// the write has to wait.
func (c *Controller) chargeRole(role *cachedRole, patch write) time.Duration {
	key, wait := keyOf(role), time.Duration(0)
	if patch != nil && !c.cfg.DryRun {
		wait = c.requests.Wait(role.Namespace, key, 1)
	}
	if wait == 0 {
		c.requests.Forget(key)
	}
	return wait
}

// postponeRole has a Role looked at again when its namespace may have more requests.
func (c *Controller) postponeRole(ctx context.Context, role *cachedRole, wait time.Duration) {
	c.cfg.Metrics.putOff.Inc()
	c.roles.AddAfter(keyOf(role), wait)
	if wait >= longWait {
		c.reportRole(ctx, role, ReasonPutOff, "Waits for other work of its namespace: "+
			"together that asks for more than the controller does for one namespace at a time")
	}
}

// reportRole reports once what is wrong with a Role.
func (c *Controller) reportRole(ctx context.Context, role *cachedRole, reason, text string) {
	if !c.reportedRole.Replace(keyOf(role), text) {
		return
	}
	klog.FromContext(ctx).Info("A Role does not name all copies", logkeys.Key, role.Name, logkeys.Namespace,
		role.Namespace, logkeys.Reason, text)
	if c.events.Take(role.Namespace) {
		about := &corev1.ObjectReference{
			APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "Role", Namespace: role.Namespace, Name: role.Name,
			UID: role.UID,
		}
		c.cfg.Events.Event(about, corev1.EventTypeWarning, reason, note(text))
	}
}

// ensureNamed sees that each Role which is to name the copies of a source names the next one, and
// that the API server has had the time to notice.
func (c *Controller) ensureNamed(ctx context.Context, source api.Ref, name string) error {
	roles := c.caches.rolesFor(source)
	if len(roles) > 0 && c.isTaken(source, name) {
		return &heldError{forAccess: true, text: fmt.Sprintf("%s %s/%s %v: delete it, or rename it if it is yours",
			source.Kind.Resource(), source.Namespace, name, copies.ErrNotThatCopy)}
	}
	for _, role := range roles {
		patch, _ := c.namesPatch(role)
		if wait := c.chargeRole(role, patch); wait > 0 {
			return &putOffError{wait}
		}
		if err := c.sendNames(ctx, role, patch); err != nil {
			return err
		}
		if age := time.Since(role.ChangedAt); patch != nil || 0 <= age && age < roleSettles {
			return fmt.Errorf("role %s %w", role.Name, errChanged)
		}
	}
	return nil
}

// sendNames writes names of copies into a Role. An answer that the same request will get again is a
// heldError.
func (c *Controller) sendNames(ctx context.Context, role *cachedRole, patch write) error {
	if patch == nil {
		return nil
	}
	if c.cfg.DryRun {
		klog.FromContext(ctx).Info("Would name copies in a Role", logkeys.Key, role.Name, logkeys.Namespace, role.Namespace)
		return nil
	}
	body, err := json.Marshal(patch)
	if err != nil {
		return fmt.Errorf("encode the patch: %w", err)
	}
	_, err = c.cfg.Client.RbacV1().Roles(role.Namespace).Patch(ctx, role.Name, types.JSONPatchType, body,
		metav1.PatchOptions{FieldManager: FieldManager})
	switch {
	case apierrors.IsNotFound(err):
		return nil // It names nothing any more.
	case apierrors.IsConflict(err):
		return fmt.Errorf("role %s %w", role.Name, errChanged)
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err):
		return &heldError{
			forAccess: true,
			text: fmt.Sprintf("the API server refuses to let role %s name the copies of %s: %v",
				role.Name, trigger.Format(role.Sources), err),
		}
	case err != nil:
		return fmt.Errorf("write the names of copies into role %s: %w", role.Name, err)
	}
	return nil
}
