package controller

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/release/plan"
)

// releasedObject is what decides about the use of an object that is released.
type releasedObject struct {
	since  time.Time
	labels map[string]string
}

// use is what a volume of a pod names.
type use struct {
	objects []api.Ref
	// selected stand for the objects that have labels: see [api.Ref.Selecting].
	selected []api.Ref
	// matchers are those of selected.
	matchers []func(api.Ref, map[string]string) bool
	// files is equal for volumes of one node that may have one set of files; empty for a volume
	// that never shares.
	files string
}

func (u use) usesAny(refs map[api.Ref]releasedObject) bool {
	if slices.ContainsFunc(u.objects, func(o api.Ref) bool { _, found := refs[o]; return found }) {
		return true
	}
	for _, matches := range u.matchers {
		for o, is := range refs {
			if matches(o, is.labels) {
				return true
			}
		}
	}
	return false
}

// uses reports whether the volume has an object.
func (u use) uses(o api.Ref, is releasedObject) bool {
	return u.usesAny(map[api.Ref]releasedObject{o: is})
}

// mayShare reports whether the volume of a pod, created at a time, may share its files: that is so
// if none of its objects was released when it was mounted.
func (u use) mayShare(created time.Time, released map[api.Ref]releasedObject) bool {
	if u.files == "" || !u.usesAny(released) {
		return false
	}
	for o, is := range released {
		if !created.Before(is.since) && u.uses(o, is) {
			return false
		}
	}
	return true
}

// withShared returns pods with SharesWith, which is equal for those that share a set of files, or
// share one with a third pod. sets are the files of each pod.
func withShared(pods []plan.Pod, sets [][]string) []plan.Pod {
	first := map[string]int{} // The first pod of each set.
	of := make([]int, len(pods))
	var root func(int) int
	root = func(i int) int {
		if of[i] != i {
			of[i] = root(of[i])
		}
		return of[i]
	}
	count := make([]int, len(pods))
	for i := range pods {
		of[i] = i
		for _, set := range sets[i] {
			if other, found := first[set]; found {
				of[root(i)] = root(other)
			} else {
				first[set] = i
			}
		}
	}
	for i := range pods {
		count[root(i)]++
	}
	for i := range pods {
		if pods[i].SharesWith = ""; count[root(i)] > 1 {
			pods[i].SharesWith = pods[root(i)].UID
		}
	}
	return pods
}

// usesOfAttributes finds the objects that volumes name. Pods of one workload have the same
// attributes, and to parse them at each change of a pod would take long.
type usesOfAttributes struct {
	driver, namespace string

	mu    sync.Mutex // Guards known.
	known map[[sha256.Size]byte]use
}

// mostKnown is how many different attributes are remembered.
const mostKnown = 1000

func (a *usesOfAttributes) of(pod *corev1.Pod) (uses []use) {
	for _, v := range pod.Spec.Volumes {
		if v.CSI == nil || v.CSI.Driver != a.driver {
			continue
		}
		next := a.ofVolume(v.CSI.VolumeAttributes)
		if next.files != "" {
			next.files = pod.Spec.NodeName + "/" + next.files
		}
		if slices.ContainsFunc(slices.Concat(next.objects, next.selected), a.isOfAccount) && next.files != "" {
			next.files += "/" + pod.Spec.ServiceAccountName
		}
		if len(next.objects)+len(next.selected) > 0 {
			uses = append(uses, next)
		}
	}
	return uses
}

// isOfAccount reports whether pods of different service accounts never share an object: those share
// ConfigMaps of their namespace only, if the driver reads these.
func (a *usesOfAttributes) isOfAccount(o api.Ref) bool {
	return o.Kind == api.Secret || o.Namespace != a.namespace
}

func (a *usesOfAttributes) ofVolume(attributes map[string]string) use {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		text.WriteString(name + "\x00" + attributes[name] + "\x00")
	}
	key := sha256.Sum256([]byte(text.String()))
	a.mu.Lock()
	defer a.mu.Unlock()
	if known, found := a.known[key]; found {
		return known
	}
	if len(a.known) >= mostKnown {
		clear(a.known)
	}
	a.known[key] = useOf(attributes, a.namespace)
	return a.known[key]
}

func useOf(attributes map[string]string, namespace string) use {
	spec, err := api.Parse(attributes, namespace)
	if err != nil || spec.UpdatePolicy == api.UpdateNever {
		return use{} // The driver reports what is wrong. A volume that never updates proves nothing.
	}
	u := use{objects: spec.Refs(), selected: spec.Selected()}
	for _, selected := range u.selected {
		u.matchers = append(u.matchers, selected.Matcher())
	}
	text, err := json.Marshal(spec)
	if err == nil && (spec.UpdatePolicy == api.UpdateAtomic || spec.UpdatePolicy == api.UpdateReplace) {
		sum := sha256.Sum256(text)
		u.files = hex.EncodeToString(sum[:])
	}
	return u
}
