package set

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

// Mount describes where containers see a volume.
type Mount struct {
	Path    string
	SubPath string
	// Containers are names; none is all containers but init containers.
	Containers []string
}

// Set puts a volume of ours into a pod spec, in the place of the one of the same name, and mounts
// it. A volume that is there may keep its mounts, by a mount without a path. After an error the
// spec is as it was.
func Set(spec *corev1.PodSpec, volume corev1.Volume, mount Mount) error {
	if problems := validation.IsDNS1123Label(volume.Name); len(problems) > 0 {
		return fmt.Errorf("%.70q cannot be the name of a volume, use another --name: %s", volume.Name,
			strings.Join(problems, "; "))
	}
	at := slices.IndexFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == volume.Name })
	if at >= 0 && !isOf(spec.Volumes[at], volume.CSI.Driver) {
		return fmt.Errorf("volume %s is there already, and is %s: use another --name, or make it one of liveconfig by "+
			"`kubectl liveconfig convert`", volume.Name, Describe(spec.Volumes[at]))
	}
	staysMounted := at >= 0 && mount.Path == "" && mount.SubPath == "" && len(mount.Containers) == 0
	if !staysMounted {
		if err := place(spec, volume, mount); err != nil {
			return err
		}
	}
	if at < 0 {
		spec.Volumes = append(spec.Volumes, volume)
		return nil
	}
	spec.Volumes[at] = volume
	return nil
}

func place(spec *corev1.PodSpec, volume corev1.Volume, mount Mount) error {
	name := volume.Name
	switch {
	case mount.Path == "":
		return errors.New("name the path of the volume in containers: --mount-path /etc/NAME")
	case !path.IsAbs(mount.Path) || strings.Contains(mount.Path, ":"):
		return fmt.Errorf("--mount-path %q is not an absolute path without colons, such as /etc/app", mount.Path)
	}
	containers, err := chosen(spec, mount.Containers)
	if err != nil {
		return err
	}
	var errs []error
	for _, c := range containers {
		errs = append(errs, free(c, name, mount.Path, named(spec, volume.CSI.Driver)))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, c := range containers {
		c.VolumeMounts = slices.DeleteFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == name })
		c.VolumeMounts = append(c.VolumeMounts,
			corev1.VolumeMount{Name: name, MountPath: mount.Path, SubPath: mount.SubPath, ReadOnly: true})
	}
	return nil
}

func named(spec *corev1.PodSpec, driver string) []string {
	var names []string
	for _, v := range spec.Volumes {
		if isOf(v, driver) {
			names = append(names, v.Name)
		}
	}
	return names
}

// free returns an error if a container has another volume at the path, which may be one of ours, or
// one that needs a directory below it: a volume of ours is read-only, and none is made there.
func free(c *corev1.Container, name, at string, ours []string) error {
	at = path.Clean(at)
	for _, m := range c.VolumeMounts {
		there := path.Clean(m.MountPath)
		switch {
		case m.Name == name:
		case there == at && slices.Contains(ours, m.Name):
			return fmt.Errorf("container %s has volume %s at %s already: use another --mount-path, or --name %s to "+
				"change that volume",
				c.Name, m.Name, at, m.Name)
		case there == at:
			return fmt.Errorf("container %s has volume %s at %s already: use another --mount-path", c.Name, m.Name, at)
		case strings.HasPrefix(there, strings.TrimSuffix(at, "/")+"/"):
			return fmt.Errorf("container %s has volume %s at %s, which is below %s, where all is read-only: use "+
				"another --mount-path",
				c.Name, m.Name, there, at)
		}
	}
	return nil
}

// chosen returns the containers of these names, or all but init containers.
func chosen(spec *corev1.PodSpec, names []string) ([]*corev1.Container, error) {
	all := containers(spec)
	if len(names) == 0 {
		return all[len(spec.InitContainers):], nil
	}
	var there []string
	for _, c := range all {
		there = append(there, c.Name)
	}
	var found []*corev1.Container
	for _, name := range names {
		at := slices.Index(there, name)
		if at < 0 {
			return nil, fmt.Errorf("there is no container %q, there are: %s", name, strings.Join(there, ", "))
		}
		found = append(found, all[at])
	}
	return found, nil
}

func containers(spec *corev1.PodSpec) []*corev1.Container {
	var all []*corev1.Container
	for i := range spec.InitContainers {
		all = append(all, &spec.InitContainers[i])
	}
	for i := range spec.Containers {
		all = append(all, &spec.Containers[i])
	}
	return all
}

// Remove takes a volume of a driver and its mounts out of a pod spec. Without a name it is the only
// one.
func Remove(spec *corev1.PodSpec, name, driver string) error {
	names := named(spec, driver)
	switch {
	case len(names) == 0:
		return errors.New("it has no volume of liveconfig")
	case name == "" && len(names) > 1:
		return fmt.Errorf("it has several volumes of liveconfig: use --name with one of %s", strings.Join(names, ", "))
	case name == "":
		name = names[0]
	case !slices.Contains(names, name):
		return fmt.Errorf("it has no volume %q of liveconfig, it has: %s", name, strings.Join(names, ", "))
	}
	spec.Volumes = slices.DeleteFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == name })
	for _, c := range containers(spec) {
		c.VolumeMounts = slices.DeleteFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == name })
	}
	return nil
}

func isOf(v corev1.Volume, driver string) bool { return v.CSI != nil && v.CSI.Driver == driver }

// Describe returns what a volume is, such as «of type configMap».
func Describe(v corev1.Volume) string {
	switch {
	case v.CSI != nil:
		return "of the CSI driver " + v.CSI.Driver
	case v.ConfigMap != nil:
		return "of type configMap"
	case v.Secret != nil:
		return "of type secret"
	case v.Projected != nil:
		return "of type projected"
	case v.EmptyDir != nil:
		return "of type emptyDir"
	case v.PersistentVolumeClaim != nil:
		return "of type persistentVolumeClaim"
	default:
		return "of another type"
	}
}

// ParseItem reads an item as a person types it: KEY=PATH, KEY=PATH:MODE, and KEY or KEY:MODE for a
// key under its own name. The part after the last colon is a mode if it has three or four octal
// digits, and else a part of the path.
func ParseItem(text string) (api.Item, error) {
	rest, mode, err := cutMode(text)
	if err != nil {
		return api.Item{}, err
	}
	key, at, found := strings.Cut(rest, "=")
	if !found {
		at = key
	}
	if key == "" || at == "" {
		return api.Item{}, fmt.Errorf("item %.60q is not KEY=PATH or KEY=PATH:MODE, such as tls.key=certs/key:0400", text)
	}
	return api.Item{Key: key, Path: at, Mode: mode}, nil
}

func cutMode(text string) (rest string, mode *fs.FileMode, err error) {
	octal := regexp.MustCompile(`^(.*):(?:0o)?([0-9]{3,4})$`)
	found := octal.FindStringSubmatch(text)
	if found == nil {
		return text, nil, nil
	}
	bits, err := strconv.ParseUint(found[2], 8, 32)
	if err != nil || bits > 0o777 {
		return "", nil, fmt.Errorf("item %.60q has the mode %s, which is not an octal number from 0000 to 0777", text,
			found[2])
	}
	return found[1], new(fs.FileMode(bits)), nil
}
