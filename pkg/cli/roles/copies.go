package roles

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/copies"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
)

// KeepCopies copies the names of copies, and the annotation that asks the rollout controller for
// them, from the Role in the cluster to the wanted one, if that Role has the annotation. It copies
// nothing else: somebody else may have written the Role, and it may allow more.
func KeepCopies(wanted, live *rbacv1.Role) {
	source, found := sourceOf(wanted)
	if !found {
		return
	}
	listed, err := trigger.Parse(live.Annotations[copies.OfAnnotation])
	if err != nil || !slices.Contains(listed, source) {
		return
	}
	if wanted.Annotations == nil {
		wanted.Annotations = map[string]string{}
	}
	wanted.Annotations[copies.OfAnnotation] = live.Annotations[copies.OfAnnotation] // It can list more.
	rule := &wanted.Rules[0]
	for _, there := range live.Rules {
		if !isSameBesidesNames(*rule, there) {
			continue
		}
		names := slices.DeleteFunc(slices.Clone(there.ResourceNames), func(name string) bool {
			return name != source.Name && !copies.IsName(source.Name, name)
		})
		if !slices.Contains(names, source.Name) {
			names = slices.Insert(names, 0, source.Name)
		}
		rule.ResourceNames, rule.Verbs = names, there.Verbs // Another order of the verbs would be a conflict.
		return
	}
}

// sourceOf returns the object that a wanted Role names. It reports false for a Role that names none
// or several.
func sourceOf(wanted *rbacv1.Role) (trigger.Object, bool) {
	if len(wanted.Rules) != 1 || len(wanted.Rules[0].ResourceNames) != 1 {
		return trigger.Object{}, false
	}
	rule := wanted.Rules[0]
	for _, kind := range []api.Kind{api.ConfigMap, api.Secret} {
		if slices.Equal(rule.APIGroups, []string{corev1.GroupName}) && slices.Equal(rule.Resources, []string{kind.Resource() + "s"}) {
			return trigger.Object{Kind: kind, Name: rule.ResourceNames[0]}, true
		}
	}
	return trigger.Object{}, false
}

func isSameBesidesNames(a, b rbacv1.PolicyRule) bool {
	isSame := func(a, b []string) bool {
		return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
	}
	return isSame(a.APIGroups, b.APIGroups) && isSame(a.Resources, b.Resources) && isSame(a.Verbs, b.Verbs) && len(b.NonResourceURLs) == 0
}
