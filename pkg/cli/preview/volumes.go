package preview

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/intree"
	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
	"github.com/liveconfig-csi/liveconfig/pkg/files/treebuilder"
)

// Objects returns what an object holds, and false if the object does not exist.
type Objects func(api.Ref) (api.Content, bool, error)

// Member is an object that a selection finds.
type Member struct {
	Ref         api.Ref
	Created     time.Time
	Annotations map[string]string
}

// Members returns the objects that a ref of [api.Ref.Selecting] stands for.
type Members func(api.Ref) ([]Member, error)

// Volume is what one volume would hold.
type Volume struct {
	Name string
	// Type is liveconfig, or the field of a pod spec that makes it one of Kubernetes' own.
	Type string
	// Tree is empty if there is an Err.
	Tree tree.Tree
	// RootMode is the mode of the volume itself.
	RootMode fs.FileMode
	// Hidden has the paths of files that hold anything of a Secret, unless these may be shown.
	Hidden map[string]bool
	// Unfound are the objects that do not exist, needed or not.
	Unfound []api.Ref
	// LeftOut describes what else is in the volume, that only a running pod has.
	LeftOut []string
	// Taken describes the keys that have no file, because mount points have their places.
	Taken []string
	// Collisions describes the keys of selected objects that have no file because of their paths.
	Collisions []string
	// Err explains why it would hold nothing.
	Err error
}

// Liveconfig is the type of our volumes.
const Liveconfig = "liveconfig"

// inTreeRoot is what the kubelet adds to the mode of a volume itself: anybody may write there, but
// for the mount.
const inTreeRoot fs.FileMode = 0o777

// Volumes returns all volumes of a pod that hold ConfigMaps or Secrets, for a driver of that name.
// The others are passed over. Volumes of the driver are made of ours, and those of Kubernetes' own
// types of objects.
func Volumes(pod Pod, driver string, ours, objects Objects, members Members) []Volume {
	var all []Volume
	named := map[string]bool{}
	for _, v := range pod.Spec.Volumes {
		if kind := typeOf(v, driver); kind != "" {
			b := builder{pod: pod, driver: driver, objects: objects, members: members, made: Volume{Name: v.Name, Type: kind}}
			if kind == Liveconfig {
				b.objects = ours
			}
			b.made.Err = b.volume(v)
			if named[v.Name] {
				b.made = Volume{Name: v.Name, Err: errors.New("the API server refuses two volumes of one name")}
			}
			all = append(all, b.made)
		}
		named[v.Name] = true
	}
	return all
}

type builder struct {
	pod     Pod
	driver  string
	objects Objects
	members Members
	made    Volume
}

func (b *builder) volume(v corev1.Volume) error {
	if problems := validation.IsDNS1123Label(v.Name); len(problems) > 0 {
		return fmt.Errorf("the API server refuses its name %.70q: %s", v.Name, strings.Join(problems, "; "))
	}
	spec, err := b.spec(v)
	if err == nil {
		err = b.fill(spec)
	}
	return err
}

func typeOf(v corev1.Volume, driver string) string {
	switch {
	case v.CSI != nil && v.CSI.Driver == driver:
		return Liveconfig
	case v.ConfigMap != nil:
		return "configMap"
	case v.Secret != nil:
		return "secret"
	case v.Projected != nil:
		return "projected"
	default:
		return ""
	}
}

func (b *builder) spec(v corev1.Volume) (api.Spec, error) {
	if v.CSI == nil {
		csi, err := intree.Namer{Driver: b.driver, Namespace: b.pod.Namespace}.ToLiveconfig(b.projectable(v.VolumeSource))
		if err != nil {
			return api.Spec{}, err
		}
		return api.Parse(csi.VolumeAttributes, b.pod.Namespace)
	}
	if v.CSI.ReadOnly == nil || !*v.CSI.ReadOnly {
		return api.Spec{}, errors.New(`the volume must be read-only: add "readOnly: true" to its csi section`)
	}
	spec, err := api.Parse(v.CSI.VolumeAttributes, b.pod.Namespace)
	return spec.WithFacts(b.facts(), cmp.Or(b.pod.Spec.NodeName, unknownFact)), err
}

// unknownFact stands for what only a running pod has.
const unknownFact = "<of the running pod>"

// facts returns what is known of the pod.
func (b *builder) facts() api.Pod {
	return api.Pod{
		Namespace: b.pod.Namespace, Name: cmp.Or(b.pod.Name, unknownFact), UID: unknownFact,
		ServiceAccount: cmp.Or(b.pod.Spec.ServiceAccountName, "default"),
	}
}

// projectable returns a volume of Kubernetes' own without the sources that only a running pod has,
// and remembers those.
func (b *builder) projectable(v corev1.VolumeSource) corev1.VolumeSource {
	if v.Projected == nil {
		return v
	}
	projected := *v.Projected
	projected.Sources = nil
	for i, src := range v.Projected.Sources {
		if kind := intree.RunningOnly(src); kind != "" {
			b.made.LeftOut = append(b.made.LeftOut, fmt.Sprintf("sources[%d], a %s", i, kind))
			continue
		}
		projected.Sources = append(projected.Sources, src)
	}
	return corev1.VolumeSource{Projected: &projected}
}

// fill reads the objects and builds the tree, as the driver does.
func (b *builder) fill(spec api.Spec) error {
	contents := map[api.Ref]api.Content{}
	var errs []error
	for _, ref := range spec.Refs() {
		content, found, err := b.objects(ref)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("read %s: %w", ref, err))
		case found:
			contents[ref] = content
		default:
			b.made.Unfound = append(b.made.Unfound, ref)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	selected, err := b.selected(spec)
	if err != nil {
		return err
	}
	built, err := b.build(spec, contents, selected)
	if err != nil {
		return err
	}
	b.made.Tree, b.made.RootMode = built, built.DirMode
	switch b.made.Type {
	case "configMap":
		b.made.RootMode |= inTreeRoot
	case "secret", "projected":
		b.made.RootMode |= inTreeRoot | fs.ModeSticky // As a tmpfs is, on which they are.
	}
	b.made.Hidden, err = secrets(spec, contents, selected)
	return err
}

// selected reads the objects that selections find.
func (b *builder) selected(spec api.Spec) (treebuilder.Selected, error) {
	found := treebuilder.Selected{}
	for i, src := range spec.Sources {
		for _, selection := range src.Selected() {
			members, err := b.members(selection)
			if err != nil {
				return nil, fmt.Errorf("read %s: %w", selection, err)
			}
			var objects []treebuilder.Object
			for _, m := range members {
				content, exists, err := b.objects(m.Ref)
				if err != nil {
					return nil, fmt.Errorf("read %s: %w", m.Ref, err)
				}
				if exists {
					objects = append(objects, treebuilder.Object{Content: content, Created: m.Created, Annotations: m.Annotations})
				}
			}
			found[i] = append(found[i], objects)
		}
	}
	return found, nil
}

// build returns the files. In a volume of Kubernetes' own, only files belong to a user, and fsGroup
// may read those too.
func (b *builder) build(
	spec api.Spec, contents map[api.Ref]api.Content, selected treebuilder.Selected,
) (tree.Tree, error) {
	plan, err := treebuilder.PrepareSelected(spec, b.fsGroup(), contents, selected)
	if err != nil {
		return tree.Tree{}, err
	}
	b.made.Taken, b.made.Collisions = plan.LeftOut(), plan.Collisions()
	exact := plan.Tree()
	if b.made.Type == Liveconfig {
		return exact, nil
	}
	built, err := treebuilder.Build(withoutUsers(spec), b.fsGroup(), contents)
	for i := range built.Files { // They are the same, in the same order.
		if user := exact.UserOf(exact.Files[i]); user != 0 {
			built.Files[i].User = &user
		}
	}
	return built, err
}

func withoutUsers(spec api.Spec) api.Spec {
	spec.UID = nil
	spec.Sources = slices.Clone(spec.Sources)
	for i := range spec.Sources {
		src := &spec.Sources[i]
		src.Items = slices.Clone(src.Items)
		for k := range src.Items {
			src.Items[k].User = nil
		}
	}
	return spec
}

func (b *builder) fsGroup() *int {
	security := b.pod.Spec.SecurityContext
	if security == nil || security.FSGroup == nil {
		return nil
	}
	return new(int(*security.FSGroup))
}

// secrets returns the paths of what Secrets make. Of several sources that have the same path, the
// last one makes the file: so each is projected alone, and overrules those before it.
func secrets(
	spec api.Spec, contents map[api.Ref]api.Content, selected treebuilder.Selected,
) (map[string]bool, error) {
	found := map[string]bool{}
	for i, src := range spec.Sources {
		alone := api.Spec{Sources: []api.Source{src}, Values: spec.Values, DefaultMode: spec.DefaultMode}
		plan, err := treebuilder.PrepareSelected(alone, nil, contents, treebuilder.Selected{0: selected[i]})
		if err != nil {
			return nil, fmt.Errorf("find out what %s makes: %w", src.Ref, err)
		}
		for _, f := range plan.Tree().Files {
			isSecret := src.Ref.Kind == api.Secret || plan.HasSecretValues(f.Path)
			// Among selections the age of the objects decides.
			found[f.Path] = isSecret || src.Selection != nil && found[f.Path]
		}
	}
	return found, nil
}

// hides reports whether any such file of the volume is hidden.
func (v Volume) hides(such func(tree.File) bool) bool {
	return slices.ContainsFunc(v.Tree.Files, func(f tree.File) bool { return v.Hidden[f.Path] && such(f) })
}
