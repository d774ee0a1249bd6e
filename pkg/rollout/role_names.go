package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/copies"
)

// mostNames is how many names of copies a rule gets. Anybody who may create ConfigMaps or Secrets
// can mark many as copies.
const mostNames = 100

// namesPatch returns the patch by which a Role names the copies that it is to name, nil if it does,
// and whether these are all that there are.
func (c *Controller) namesPatch(role *cachedRole) (patch write, isWhole bool) {
	isWhole = true
	for i, rule := range role.Rules {
		names, hasAll := c.namesOf(role, rule)
		isWhole = isWhole && hasAll
		if !slices.Equal(names, rule.ResourceNames) {
			patch = append(patch, operation{"replace", fmt.Sprintf("/rules/%d/resourceNames", i), names})
		}
	}
	if patch == nil {
		return nil, isWhole
	}
	return append(patch, operation{"replace", "/metadata/resourceVersion", role.ResourceVersion}), isWhole
}

// namesOf returns the names that a rule of a Role should have: those that it has, except names of
// copies, and the names of the copies that exist or come next. It reports whether these are
// all.
func (c *Controller) namesOf(role *cachedRole, rule rbacv1.PolicyRule) (names []string, isWhole bool) {
	names = slices.Clone(rule.ResourceNames)
	var wanted []namedCopy
	for _, source := range role.Sources {
		if !isRuleFor(rule, source) {
			continue
		}
		wanted = append(wanted, c.copyNames(source.In(role.Namespace))...)
		names = slices.DeleteFunc(names, func(name string) bool {
			return copies.IsName(source.Name, name) &&
				!slices.ContainsFunc(role.Sources, func(o api.Ref) bool { return o.Name == name })
		})
	}
	chosen := c.chooseNames(wanted)
	isWhole = len(chosen) == len(wanted)
	slices.SortFunc(chosen, func(a, b namedCopy) int { return strings.Compare(a.Name, b.Name) })
	for _, one := range chosen {
		if !slices.Contains(names, one.Name) {
			names = append(names, one.Name)
		}
	}
	return names, isWhole
}

// namedCopy is a copy that a rule can name.
type namedCopy struct {
	api.Ref

	// isNext means that it has the present content of its source. It may not be there yet.
	isNext    bool
	createdAt time.Time
}

// chooseNames returns the copies that a rule names: the next ones and those that pod templates use,
// and of the others the newest as long as there are not mostNames.
func (c *Controller) chooseNames(wanted []namedCopy) []namedCopy {
	if len(wanted) <= mostNames {
		return wanted
	}
	isUsed := func(o api.Ref) bool {
		return len(c.caches.workloadsUsing(o)) > 0 || len(c.caches.revisionsUsing(o)) > 0
	}
	var chosen, others []namedCopy
	for _, one := range wanted {
		if one.isNext || isUsed(one.Ref) {
			chosen = append(chosen, one)
		} else {
			others = append(others, one)
		}
	}
	slices.SortFunc(others, func(a, b namedCopy) int {
		return cmp.Or(b.createdAt.Compare(a.createdAt), strings.Compare(a.Name, b.Name))
	})
	return append(chosen, others[:min(len(others), max(0, mostNames-len(chosen)))]...)
}

// copyNames returns the copies of a source: those that there are, and that of its present content.
// So a Role has the name before the copy is made.
func (c *Controller) copyNames(source api.Ref) []namedCopy {
	var named []namedCopy
	next := ""
	if s, exists := c.caches.source(source); exists && s.Problem == "" && !s.IsReleased && !c.isTaken(source, s.CopyName) {
		next = s.CopyName
		named = append(named, namedCopy{Ref: source.Named(next), isNext: true})
	}
	for _, made := range c.caches.copiesOf(source) {
		if made.Name != next && c.isCopyOf(source, made) {
			o := source.Named(made.Name)
			named = append(named, namedCopy{Ref: o, createdAt: made.CreationTimestamp.Time})
		}
	}
	return named
}

// isCopyOf reports whether an object with the label of copies is one of a source, by its
// annotations. If somebody has damaged the digest, the config of a pod template counts.
func (c *Controller) isCopyOf(source api.Ref, made *cachedCopy) bool {
	if copies.IsMarkedAs(source.Local(), made.Name, made.Annotations) {
		return true
	}
	of, err := copies.SourceOf(made.Annotations)
	return err == nil && of == source.Local() && copies.IsName(source.Name, made.Name) &&
		slices.Contains(c.originsOf(source.Named(made.Name)), of)
}

// isTaken reports whether an object that is no copy of a source has the name of one. The hash in
// that name is short, and users choose the content.
func (c *Controller) isTaken(source api.Ref, name string) bool {
	o := source.Named(name)
	if other, exists := c.caches.source(o); exists {
		// A copy that has lost its label is among the sources until the controller gives it back.
		// Its name ends in the digits of its content.
		_, digits, _ := copies.SplitName(name)
		_, own, _ := copies.SplitName(other.CopyName)
		return digits != own
	}
	made, exists := c.caches.copied(o)
	return exists && !c.isCopyOf(source, made)
}
