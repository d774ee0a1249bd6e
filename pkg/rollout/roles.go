package rollout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

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
	Sources []trigger.Object
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
			cached.Trouble = fmt.Sprintf("the annotation %s lists %s, and no rule names it: add a rule with apiGroups [\"\"], resources [%ss], "+
				"resourceNames [%s], verbs [get, list, watch]", copies.OfAnnotation, o, o.Kind.Resource(), o.Name)
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
func isRuleFor(rule rbacv1.PolicyRule, source trigger.Object) bool {
	return slices.Equal(rule.APIGroups, []string{corev1.GroupName}) &&
		slices.Equal(rule.Resources, []string{source.Kind.Resource() + "s"}) && slices.Contains(rule.ResourceNames, source.Name)
}

func (c *caches) role(key types.NamespacedName) (*cachedRole, bool) {
	return find[*cachedRole](c.roles, key.Namespace, key.Name)
}

func (c *caches) rolesFor(source object) []*cachedRole {
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

// queueRolesNaming has the Roles looked at that name an object if it is a copy, and not if it is
// another.
func (c *Controller) queueRolesNaming(o object) {
	if isCopyName(o.Name) {
		c.queueRoles(object{o.namespace, triggerOf(o.Kind, o.Name[:len(o.Name)-copyEnding])})
	}
}

// queueRoles has the Roles looked at that are to name the copies of a source.
func (c *Controller) queueRoles(source object) {
	for _, role := range c.caches.rolesFor(source) {
		c.roles.Add(keyOf(role))
	}
}

// reconcileRole makes a Role name the copies that it is to name, and reports why it does not.
func (c *Controller) reconcileRole(ctx context.Context, key types.NamespacedName) error {
	role, found := c.caches.role(key)
	if !found {
		c.reportedRole.forget(key)
		return nil
	}
	err := c.sendNames(ctx, role, c.namesPatch(role))
	var refused *heldError
	switch {
	case errors.As(err, &refused):
		c.reportRole(ctx, role, refused.text)
		c.roles.AddAfter(key, retryHeld)
	case errors.Is(err, errChanged): // The cache will have the change, and queue the Role again.
	case err != nil:
		return err
	case role.Trouble != "":
		c.reportRole(ctx, role, role.Trouble)
	default:
		c.reportedRole.forget(key)
	}
	return nil
}

// reportRole reports once what is wrong with a Role.
func (c *Controller) reportRole(ctx context.Context, role *cachedRole, text string) {
	if !c.reportedRole.replace(keyOf(role), text) {
		return
	}
	klog.FromContext(ctx).Info("A Role does not name all copies", logkeys.Key, role.Name, logkeys.Namespace, role.Namespace, logkeys.Reason, text)
	if c.events.take(role.Namespace) {
		about := &corev1.ObjectReference{
			APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "Role", Namespace: role.Namespace, Name: role.Name, UID: role.UID,
		}
		c.cfg.Events.Event(about, corev1.EventTypeWarning, ReasonHeldBack, note(text))
	}
}

// ensureNamed sees that each Role which is to name the copies of a source names the next one, and
// that the API server has had the time to notice.
func (c *Controller) ensureNamed(ctx context.Context, source object, name string) error {
	roles := c.caches.rolesFor(source)
	if len(roles) > 0 && c.isTaken(source, name) {
		return &heldError{forAccess: true, text: fmt.Sprintf("%s %s/%s %v: delete it, or rename it if it is yours",
			source.Kind.Resource(), source.namespace, name, copies.ErrNotThatCopy)}
	}
	for _, role := range roles {
		patch := c.namesPatch(role)
		if err := c.sendNames(ctx, role, patch); err != nil {
			return err
		}
		if age := time.Since(role.ChangedAt); patch != nil || 0 <= age && age < roleSettles {
			return fmt.Errorf("role %s %w", role.Name, errChanged)
		}
	}
	return nil
}

// namesPatch returns the patch by which a Role names the copies that it is to name; nil if it does.
func (c *Controller) namesPatch(role *cachedRole) write {
	var patch write
	for i, rule := range role.Rules {
		if names := c.namesOf(role, rule); !slices.Equal(names, rule.ResourceNames) {
			patch = append(patch, operation{"replace", fmt.Sprintf("/rules/%d/resourceNames", i), names})
		}
	}
	if patch == nil {
		return nil
	}
	return append(patch, operation{"replace", "/metadata/resourceVersion", role.ResourceVersion})
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
	_, err = c.cfg.Client.RbacV1().Roles(role.Namespace).Patch(ctx, role.Name, types.JSONPatchType, body, metav1.PatchOptions{FieldManager: FieldManager})
	switch {
	case apierrors.IsNotFound(err):
		return nil // It names nothing any more.
	case apierrors.IsConflict(err):
		return fmt.Errorf("role %s %w", role.Name, errChanged)
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err):
		return &heldError{forAccess: true, text: fmt.Sprintf("the API server refuses to let role %s name the copies of %s: %v",
			role.Name, trigger.Format(role.Sources), err)}
	case err != nil:
		return fmt.Errorf("write the names of copies into role %s: %w", role.Name, err)
	}
	return nil
}

// namesOf returns the names that a rule of a Role is to have: those that it has, but for names of
// copies, and the names of the copies that there are or will be next.
func (c *Controller) namesOf(role *cachedRole, rule rbacv1.PolicyRule) []string {
	names := slices.Clone(rule.ResourceNames)
	var wanted []string
	for _, source := range role.Sources {
		if !isRuleFor(rule, source) {
			continue
		}
		wanted = append(wanted, c.copyNames(object{role.Namespace, source})...)
		names = slices.DeleteFunc(names, func(name string) bool {
			return copies.IsName(source.Name, name) && !slices.ContainsFunc(role.Sources, func(o trigger.Object) bool { return o.Name == name })
		})
	}
	slices.SortFunc(wanted, strings.Compare)
	for _, name := range slices.Compact(wanted) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// copyNames returns the names of the copies of a source: those that there are, and that of its
// present content. So a Role has the name before the copy is made.
func (c *Controller) copyNames(source object) []string {
	var names []string
	if s, exists := c.caches.source(source); exists && s.Problem == "" && !s.IsReleased && !c.isTaken(source, s.CopyName) {
		names = append(names, s.CopyName)
	}
	for _, made := range c.caches.copiesOf(source) {
		if c.isCopyOf(source, made) {
			names = append(names, made.Name)
		}
	}
	return names
}

// isCopyOf reports whether an object with the label of copies is one of a source. Anybody can write
// annotations. What the config of a pod template has as the copy stays one if they are damaged.
func (c *Controller) isCopyOf(source object, made *cachedCopy) bool {
	if copies.IsMarkedAs(source.Object, made.Name, made.Annotations) {
		return true
	}
	of, err := copies.SourceOf(made.Annotations)
	return err == nil && of == source.Object && copies.IsName(source.Name, made.Name) &&
		slices.Contains(c.originsOf(object{source.namespace, triggerOf(source.Kind, made.Name)}), of)
}

// isTaken reports whether an object that is no copy of a source has the name of one. The hash in
// that name is short, and users choose the content.
func (c *Controller) isTaken(source object, name string) bool {
	o := object{source.namespace, triggerOf(source.Kind, name)}
	if other, exists := c.caches.source(o); exists { // It has no label. A copy gets a lost one back.
		return other.CopyName != name+name[max(0, len(name)-copyEnding):]
	}
	made, exists := c.caches.copied(o)
	return exists && !c.isCopyOf(source, made)
}
