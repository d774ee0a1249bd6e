// Package mounts finds out what the mounts of a pod's containers need of one of its volumes, so
// that the containers start as they do with a volume of Kubernetes, and updates reach them.
//
// It does not know manifests, the API server or files. The chart's MutatingAdmissionPolicy decides
// by the same rules.
package mounts

import (
	"cmp"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

// Mount is one entry of a container's volumeMounts.
type Mount struct {
	Volume, Path, SubPath, SubPathExpr string
}

// Container is a container of a pod: an init container, a sidecar or any other.
type Container struct {
	Name   string
	Mounts []Mount
}

// Needs is what the mounts of a volume need.
type Needs struct {
	// Parts are the containers that mount a subPath of the volume, each once for every such mount.
	Parts []string
	// IsWhole means that a container mounts the whole volume.
	IsWhole bool
	// Always are the places of other mounts below the volume, and IfAbsent the subPaths that no
	// item of a required source provides. Clean and sorted.
	Always, IfAbsent []string
}

// InPlace reports whether updates reach containers only in place, since all mount a subPath.
func (n Needs) InPlace() bool { return len(n.Parts) > 0 && !n.IsWhole }

// Reasons why a volume cannot be a volume of liveconfig.
var (
	errExpr = errors.New("a container mounts it by subPathExpr, and which path that is only a running pod knows")
	errUp   = errors.New(`a container that mounts it has a mountPath with "..", which hides what is mounted below it`)
	// errExecutable: see [Of].
	errExecutable = errors.New("containers mount subPaths of it, and it has files that can be executed: updates reach " +
		"a subPath by updatePolicy: InPlace alone, which changes a script or library while it runs")
)

// Of returns what the mounts of containers need of a volume that has the files of a spec. The error
// is why the volume has to stay as it is.
func Of(containers []Container, volume string, spec api.Spec) (Needs, error) {
	var n Needs
	for _, c := range containers {
		if err := n.add(c, volume, spec); err != nil {
			return Needs{}, err
		}
	}
	if n.InPlace() && IsExecutable(spec) {
		return Needs{}, errExecutable
	}
	n.Always = slices.Compact(slices.Sorted(slices.Values(n.Always)))
	n.IfAbsent = slices.Compact(slices.Sorted(slices.Values(n.IfAbsent)))
	n.IfAbsent = slices.DeleteFunc(n.IfAbsent, func(p string) bool { return slices.Contains(n.Always, p) })
	return n, nil
}

func (n *Needs) add(c Container, volume string, spec api.Spec) error {
	own := slices.DeleteFunc(slices.Clone(c.Mounts), func(m Mount) bool { return m.Volume != volume })
	if len(own) > 0 && slices.ContainsFunc(c.Mounts, func(m Mount) bool { return hasUp(m.Path) }) {
		return errUp
	}
	for _, m := range own {
		if m.SubPathExpr != "" {
			return errExpr
		}
		part := clean(m.SubPath)
		for _, below := range c.below(m) {
			n.Always = append(n.Always, path.Join(part, below))
		}
		if m.SubPath == "" {
			n.IsWhole = true
			continue
		}
		n.Parts = append(n.Parts, c.Name)
		if part != "" && !provides(spec, part) {
			n.IfAbsent = append(n.IfAbsent, part)
		}
	}
	return nil
}

// below returns where other mounts of the container are below one, relative to it. It leaves out
// mounts below one of these, which are in the volume of that mount.
func (c Container) below(m Mount) (places []string) {
	all := make([]string, len(c.Mounts))
	for i, other := range c.Mounts {
		all[i] = clean(other.Path)
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Compare(len(a), len(b)) })
	for _, other := range all {
		place, isBelow := cut(other, clean(m.Path))
		isFurther := slices.ContainsFunc(places, func(p string) bool { _, is := cut(place, p); return is })
		if isBelow && !isFurther && !slices.Contains(places, place) {
			places = append(places, place)
		}
	}
	return places
}

// cut returns a path relative to a directory that it is below.
func cut(full, dir string) (rest string, isBelow bool) {
	if dir == "" {
		return full, full != ""
	}
	return strings.CutPrefix(full, dir+"/")
}

// provides reports whether a file that must exist is at a path or below it.
func provides(spec api.Spec, part string) bool {
	for _, src := range spec.Sources {
		for _, item := range src.Items {
			if !src.Optional && strings.HasPrefix(item.Path+"/", part+"/") {
				return true
			}
		}
	}
	return false
}

// IsExecutable reports whether files of a spec may be executed.
func IsExecutable(spec api.Spec) bool {
	const executes fs.FileMode = 0o111
	modes := []fs.FileMode{spec.DefaultMode}
	for _, src := range spec.Sources {
		if src.Selection != nil && src.Selection.Mode != nil {
			modes = append(modes, *src.Selection.Mode)
		}
		for _, item := range src.Items {
			if item.Mode != nil {
				modes = append(modes, *item.Mode)
			}
		}
	}
	return slices.ContainsFunc(modes, func(m fs.FileMode) bool { return m&executes != 0 })
}

// clean returns a path without the elements that mean nothing, and without a slash in front.
func clean(p string) string { return strings.TrimPrefix(path.Clean("/"+p), "/") }

func hasUp(p string) bool { return slices.Contains(strings.Split(p, "/"), "..") }
