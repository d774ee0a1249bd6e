// Package versions decides which pods have the newest of the ConfigMaps and Secrets that they show,
// by their pod specs, the reports of the drivers of their nodes, and the versions in the API.
//
// It is pure: it does not know where its input comes from, nor what the objects hold.
package versions

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/ptr"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/statusz"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
)

// Place is where a pod shows an object. It is comparable.
type Place struct {
	// Volume is empty for an object that triggers rollouts, and that no volume of liveconfig shows:
	// Kubernetes does.
	Volume string
	// Object is what people edit, and Names what the pod spec names: the object or a copy of it.
	// Both are [api.Ref.Selecting] for objects that are selected by label.
	Object, Names api.Ref
}

// IsCopy reports whether the pod has a copy of the object, which never changes.
func (p Place) IsCopy() bool { return p.Object != p.Names }

// Places returns where the pods of a template show objects, in the order of their volumes. The
// error joins what cannot be read; the other places are returned all the same.
func Places(meta map[string]string, spec *corev1.PodSpec, namespace, driver string) ([]Place, error) {
	var config trigger.Config
	var mistakes []error
	if text, found := meta[trigger.ConfigAnnotation]; found {
		var err error
		config, err = trigger.ParseConfig(text)
		mistakes = append(mistakes, err)
	}
	originals := Originals(config, namespace)
	var places []Place
	shown := map[api.Ref]bool{}
	for _, v := range spec.Volumes {
		if v.CSI == nil || v.CSI.Driver != driver {
			continue
		}
		parsed, err := api.Parse(v.CSI.VolumeAttributes, namespace)
		if err != nil {
			mistakes = append(mistakes, fmt.Errorf("volume %s: %w", v.Name, err))
			continue
		}
		for _, named := range parsed.Refs() {
			places = append(places, Place{Volume: v.Name, Names: named, Object: cmp.Or(originals[named], named)})
			shown[named] = true
		}
		for _, selected := range parsed.Selected() {
			places = append(places, Place{Volume: v.Name, Names: selected, Object: selected})
		}
	}
	for _, object := range config.Objects() {
		named := object.Named(config[object]).In(namespace)
		if original, isCopy := originals[named]; isCopy && !shown[named] {
			places = append(places, Place{Names: named, Object: original})
		}
	}
	return places, errors.Join(mistakes...)
}

// Originals returns the object that each copy of a config stands for.
func Originals(config trigger.Config, namespace string) map[api.Ref]api.Ref {
	originals := map[api.Ref]api.Ref{}
	for object, name := range config.Copies() {
		originals[object.Named(name).In(namespace)] = object.In(namespace)
	}
	return originals
}

// RefOf returns which object a source of a report is.
func RefOf(s statusz.Source) api.Ref {
	return api.Ref{Kind: api.Kind(s.Kind), Namespace: s.Namespace, Name: s.Name}
}

// Now is what pods should have of an object.
type Now struct {
	// Version is nil for an object that does not exist.
	Version *statusz.Version
	// OrNewer is true if a later version is as good. For this once the versions are taken for
	// numbers, which they are until a cluster is restored.
	OrNewer bool
	// ChangedAt is when the object was last changed, or zero.
	ChangedAt time.Time
	// Copies are the names of the copies that are as good as any; empty if that is not known.
	Copies []string
}

// Newest returns the latest version of an object that the reports know, and nil if none does.
func Newest(reports []statusz.Report, of api.Ref) *statusz.Version {
	var newest *statusz.Version
	for _, r := range reports {
		for _, v := range r.Volumes {
			for _, s := range v.Sources {
				isIt := RefOf(s) == of && s.Known != nil
				if isIt && (newest == nil || isLater(*s.Known, *newest)) {
					newest = s.Known
				}
			}
		}
	}
	return newest
}

func isLater(a, b statusz.Version) bool {
	order, err := resourceversion.CompareResourceVersion(a.ResourceVersion, b.ResourceVersion)
	return err == nil && order > 0
}

// isReached reports whether a version will do.
func (n Now) isReached(v *statusz.Version) bool {
	return ptr.Equal(v, n.Version) ||
		n.OrNewer && v != nil && n.Version != nil && v.UID == n.Version.UID && isLater(*v, *n.Version)
}

// State describes what a pod has.
type State string

// The states.
const (
	Current State = "Current"
	Lagging State = "Lagging"
	Unknown State = "Unknown"
)

// States returns all, from good to bad.
func States() []State { return []State{Current, Unknown, Lagging} }

// Worst returns the worst of states, and Current without any.
func Worst(states ...State) State {
	worst := 0
	for _, s := range states {
		worst = max(worst, slices.Index(States(), s))
	}
	return States()[worst]
}

// Verdict is what a pod has of an object.
type Verdict struct {
	State State
	// Has is the resource version in the files, or the name of the copy. Empty for none, or not
	// known.
	Has string
	// Why and Since are for what is not current; zero for not known.
	Why   string
	Since time.Time
	// IsEnded means that only a person changes this: the release of the object has ended.
	IsEnded bool
}

// Pod is a pod that runs.
type Pod struct {
	UID string
	// Report is of its node; nil for none.
	Report *statusz.Report
}

// Judge returns what a pod has of an object in a place. The one copy that a pod will ever have is
// there or not.
func (p Pod) Judge(at Place, now Now) Verdict {
	has := at.Names.Name
	switch {
	case at.IsCopy() && len(now.Copies) == 0:
		return Verdict{State: Unknown, Has: has, Why: "it is not known which copy is the newest"}
	case at.IsCopy() && !slices.Contains(now.Copies, has):
		why := "it is of another revision than the one with " + now.Copies[len(now.Copies)-1]
		return Verdict{State: Lagging, Has: has, Since: now.ChangedAt, Why: why}
	case at.IsCopy() && at.Volume == "":
		return Verdict{State: Current, Has: has}
	case p.Report == nil:
		return Verdict{State: Unknown, Why: "the driver of its node cannot be asked"}
	}
	volume := p.Report.Volume(p.UID, at.Volume)
	switch {
	case volume == nil && !p.Report.Recovered:
		return Verdict{State: Unknown, Why: "the driver of its node has just started and does not know all volumes yet"}
	case volume == nil:
		return Verdict{State: Lagging, Why: "the driver of its node has no such volume"}
	case volume.State == statusz.Busy:
		return Verdict{State: Unknown, Why: "the driver of its node is busy with the volume"}
	}
	i := slices.IndexFunc(volume.Sources, func(s statusz.Source) bool { return RefOf(s) == at.Names })
	switch {
	case i < 0:
		return Verdict{State: Lagging, Why: "the driver of its node does not have it in the volume"}
	case !at.IsCopy():
		return judge(*volume, volume.Sources[i], now)
	case volume.Sources[i].Projected == nil:
		return Verdict{State: Lagging, Why: whyNot(*volume, volume.Sources[i], Now{Version: volume.Sources[i].Known})}
	default:
		return Verdict{State: Current, Has: has}
	}
}

// judge compares an object in a volume with what it should be. A volume has the content that a
// released object has now if all pods have that of the stable copy, too.
func judge(volume statusz.Volume, source statusz.Source, now Now) Verdict {
	v := Verdict{State: Lagging, Since: now.ChangedAt}
	if source.Projected != nil {
		v.Has = source.Projected.ResourceVersion
	}
	r := source.Release
	isReleased := r != nil && r.IsShown && now.isReached(source.Known) && ptr.Equal(source.Projected, &r.Stable)
	if volume.State != statusz.Publishing && (now.isReached(source.Projected) || isReleased) {
		return Verdict{State: Current, Has: v.Has}
	}
	if volume.Problem != nil && !volume.Problem.Since.IsZero() {
		v.Since = volume.Problem.Since
	}
	v.Why = whyNot(volume, source, now)
	v.IsEnded = r != nil && !r.IsShown && release.State(r.State).IsFinal() && now.isReached(source.Known)
	return v
}

// whyNot returns why a volume does not have what it should of an object.
func whyNot(volume statusz.Volume, source statusz.Source, now Now) string {
	switch {
	case volume.UpdatePolicy == string(api.UpdateNever):
		return "its volume has the update policy Never"
	case source.Error != "":
		return source.Error
	case volume.Problem != nil:
		return volume.Problem.Message
	case volume.State == statusz.Publishing:
		return "its volume is being made"
	case source.Release != nil && !source.Release.IsShown && now.isReached(source.Known):
		return notShown(source)
	case now.isReached(source.Known):
		return "its node is about to write it"
	case source.Polled:
		return "its node has not heard of it yet: it is read now and then, because its reader may not list and watch it"
	default:
		return "its node has not heard of it yet"
	}
}

// notShown returns why a pod has the stable copy of a released object.
func notShown(source statusz.Source) string {
	state := "has not reached this pod yet"
	if release.State(source.Release.State).IsFinal() {
		state = "is " + strings.ToLower(source.Release.State)
	}
	return fmt.Sprintf("the release of the edit %s: see kubectl liveconfig release status %s", state,
		release.NameOf(RefOf(source)))
}
