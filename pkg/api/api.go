// Package api holds everything a user can type in a volume's volumeAttributes and the plain values
// the other packages exchange about it: the attribute keys, [Spec] and how it is parsed, [Ref] and
// [Content].
//
// It does not know Kubernetes clients, files, mounts or CSI.
package api

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/files/dotenv"
)

// The keys of volumeAttributes. The first five are the short form (one source); [KeySources] is the
// long form and excludes them.
const (
	KeyConfigMap    = "configMap"
	KeySecret       = "secret"
	KeyNamespace    = "namespace"
	KeyItems        = "items"
	KeyOptional     = "optional"
	KeySources      = "sources"
	KeyDefaultMode  = "defaultMode"
	KeyUID          = "uid"
	KeyGID          = "gid"
	KeyDefaultUser  = "defaultUser" // Another name of KeyUID.
	KeyUpdatePolicy = "updatePolicy"
	KeyOnDelete     = "onDelete"
	KeyMountPoints  = "mountPoints"
)

// Domain is that of all annotations, labels and taints. A fork that must not meet an installation
// of this one changes it here and in deploy/chart/templates/_names.tpl.
const Domain = "liveconfig.internal"

// DriverName is the name that the driver is installed under unless a flag names another.
const DriverName = "csi." + Domain

// ControllerName is the name of the rollout controller in Events, leases, fields and labels.
const ControllerName = "liveconfig-controller"

// KubeletPrefix starts the keys of a volume context that belong to the kubelet. A user's attributes
// never count there.
const KubeletPrefix = "csi.storage.k8s.io/"

// DefaultMode is the mode of files for which neither an item nor the volume names one.
const DefaultMode fs.FileMode = 0o644

// Kind is the kind of object a source names.
type Kind string

// The kinds a source can be of.
const (
	ConfigMap Kind = "ConfigMap"
	Secret    Kind = "Secret"
)

// Resource returns the singular lower-case resource name, as the kubelet's messages and RBAC errors
// spell it.
func (k Kind) Resource() string {
	if k == Secret {
		return "secret"
	}
	return "configmap"
}

// Ref names one ConfigMap or Secret. It is comparable and serves as a map key.
type Ref struct {
	Kind Kind `json:"kind"`
	// Namespace is empty in a ref that an annotation names, such as that of a workload: the object
	// is in the namespace of the workload. See [Ref.In].
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// String returns the ref as messages show it, such as «configmap default/web», or «configmap/web»
// if it has no namespace. Without a name it stands for all objects: «configmaps in default».
func (r Ref) String() string {
	switch {
	case r.Name == "" && r.Namespace == "":
		return r.Kind.Resource() + "s in all namespaces"
	case r.Name == "":
		return r.Kind.Resource() + "s in " + r.Namespace
	case r.Namespace == "":
		return r.Kind.Resource() + "/" + r.Name
	}
	return r.Kind.Resource() + " " + r.Namespace + "/" + r.Name
}

// In returns the ref with the namespace.
func (r Ref) In(namespace string) Ref { return Ref{Kind: r.Kind, Namespace: namespace, Name: r.Name} }

// Named returns the ref of the object of that name, of the same kind and in the same namespace.
func (r Ref) Named(name string) Ref { return Ref{Kind: r.Kind, Namespace: r.Namespace, Name: name} }

// Local returns the ref without its namespace.
func (r Ref) Local() Ref { return Ref{Kind: r.Kind, Name: r.Name} }

// SeenFrom returns how the ref is named where people look from a namespace: «configmap/web», or
// «configmap/web in shop» for another one.
func (r Ref) SeenFrom(namespace string) string {
	name := r.Local().String()
	switch r.Namespace {
	case namespace:
		return name
	case "":
		return name + " in all namespaces"
	}
	return name + " in " + r.Namespace
}

// Spec is one volume's parsed, defaulted and validated attributes.
type Spec struct {
	// Sources are merged in order: what a later one projects overwrites the same path of an earlier
	// one.
	Sources []Source
	// Values are put into files of sources with [Source.Expand]; of equal names the last one
	// counts.
	Values []Value
	// DefaultMode is the mode of every file whose item has none. Permission bits only.
	DefaultMode fs.FileMode
	// UID and GID own every file and directory of the volume, but for [Item.User]; nil means unset
	// (root; fsGroup or root).
	UID, GID *int
	// UpdatePolicy decides how a change reaches the files.
	UpdatePolicy UpdatePolicy
	// MountPoints are paths at which the volume has an empty directory and never a file: containers
	// mount something there. Clean and sorted, each once.
	MountPoints []string
	// MountPointsIfAbsent are paths that become such directories if no file is at them, above or
	// below them when the volume is published. Clean and sorted, none of them in MountPoints.
	MountPointsIfAbsent []string
	// OnDelete is what happens to the files of a required source that goes away while mounted.
	OnDelete OnDelete
}

// Refs returns the distinct refs of the spec's sources and values, in the order of their first use.
// Sources that select objects by label have none.
func (s Spec) Refs() []Ref {
	seen := make(map[Ref]bool, len(s.Sources))
	refs := make([]Ref, 0, len(s.Sources))
	add := func(ref Ref) {
		if !seen[ref] {
			seen[ref] = true
			refs = append(refs, ref)
		}
	}
	for _, src := range s.Sources {
		if src.Selection == nil {
			add(src.Ref)
		}
	}
	for _, v := range s.Values {
		if v.Source.Ref.Kind != "" {
			add(v.Source.Ref)
		}
	}
	return refs
}

// Source is one ConfigMap or Secret of a volume, or those that a selection finds.
type Source struct {
	// Ref has only a kind if there is a Selection.
	Ref Ref
	// Selection finds the objects by their labels; nil means the object of the Ref. Items and As
	// are empty beside it.
	Selection *Selection
	// Items select keys and name their paths; empty means every key under its own name.
	Items []Item
	// Optional forgives a missing object and missing keys, and nothing else. With a Selection it
	// forgives that no object matches.
	Optional bool
	// As has all keys go into one file; nil means a file for each.
	As *As
	// Expand has values put into all files; nil means none, unless an item has it.
	Expand *Expand
}

// Item projects one key to one path.
type Item struct {
	Key string
	// Path is relative, clean, and never leaves the volume. In a source with [Source.As] it is the
	// key's name in the file, and no path.
	Path string
	// Mode is the file's mode; nil means [Spec.DefaultMode]. Zero is a set value.
	Mode *fs.FileMode
	// User owns the file; nil means [Spec.UID]. Zero is a set value.
	User *int
	// Expand has values put into the file; nil means as [Source.Expand].
	Expand *Expand
}

// As names the file that holds all keys of a source, and its format.
type As struct {
	// Path is as that of an [Item].
	Path   string
	Format Format
	// Mode is the file's mode; nil means [Spec.DefaultMode]. Zero is a set value.
	Mode *fs.FileMode
}

// Format is how a file holds several names, each with its value.
type Format string

// The formats.
const (
	// FormatDotenv is one assignment for each name, as a POSIX shell reads it.
	FormatDotenv Format = "dotenv"
	// FormatJSON is one object of strings.
	FormatJSON Format = "json"
	// FormatYAML is one mapping of strings, to readers of YAML 1.1 and of 1.2.
	FormatYAML Format = "yaml"
	// FormatProperties is what Java reads as properties, in ASCII.
	FormatProperties Format = "properties"
)

// Formats returns every format.
func Formats() []Format { return []Format{FormatDotenv, FormatJSON, FormatYAML, FormatProperties} }

// Takes reports whether a value can have that name: in dotenv, where it is that of a variable of a
// shell, not each can. The writer of a format decides what else it takes.
func (f Format) Takes(name string) bool {
	if f == FormatDotenv {
		return dotenv.IsName(name)
	}
	return name != ""
}

// UpdatePolicy decides how a change of a source reaches the files of a live volume.
type UpdatePolicy string

// The update policies.
const (
	// UpdateAtomic swaps the ..data symlink: all files change at once. The default, and the
	// kubelet's layout.
	UpdateAtomic UpdatePolicy = "Atomic"
	// UpdateReplace keeps plain files and replaces each by rename: each file is old or new, the set
	// may be mixed.
	UpdateReplace UpdatePolicy = "Replace"
	// UpdateInPlace rewrites plain files in the same inode, which a subPath mount sees. Not atomic.
	UpdateInPlace UpdatePolicy = "InPlace"
	// UpdateNever keeps what was there at publish.
	UpdateNever UpdatePolicy = "Never"
)

// OnDelete is what happens to the files of a required source that is deleted, or whose access is
// revoked, while the volume is mounted.
type OnDelete string

// The choices for [OnDelete].
const (
	OnDeleteKeep   OnDelete = "Keep"
	OnDeleteRemove OnDelete = "Remove"
)

// Content is one object's data at one version. Its bytes are shared between volumes and must not be
// modified.
//
// Content prints as sizes only: the bytes of a Secret have no way into a log line through it.
type Content struct {
	Ref Ref
	// UID differs between an object and a later one with the same name.
	UID string
	// ResourceVersion is compared only for equality: a restored etcd may go back in time.
	ResourceVersion string
	// ChangedAt is when the object was last changed, by the API server's clock and in whole
	// seconds; zero if it is not known. Not each change moves it.
	ChangedAt time.Time
	// Immutable objects never change their data; they can be deleted, and created again with
	// another UID.
	Immutable bool
	// Data maps keys to bytes: data and binaryData of a ConfigMap, data of a Secret.
	Data map[string][]byte
}

// Size returns the sum of the lengths of all values, in bytes.
func (c Content) Size() int {
	n := 0
	for _, b := range c.Data {
		n += len(b)
	}
	return n
}

// String describes the content without any of its bytes.
func (c Content) String() string {
	return fmt.Sprintf("%s (uid %s, resourceVersion %s, %d keys, %d bytes)",
		c.Ref, c.UID, c.ResourceVersion, len(c.Data), c.Size())
}

// Format is String for every verb: %d or %#v must not print the bytes either.
func (c Content) Format(s fmt.State, _ rune) {
	_, _ = io.WriteString(s, c.String()) // As fmt itself, which has nowhere to report an error.
}

// MarshalJSON is String as well: what ends up in a log or a file by accident holds no bytes.
func (c Content) MarshalJSON() ([]byte, error) { return json.Marshal(c.String()) }

// MarshalLog is String for structured loggers.
func (c Content) MarshalLog() any { return c.String() }

// Pod is the pod a volume belongs to, as the kubelet describes it.
type Pod struct {
	Namespace      string `json:"namespace"`
	Name           string `json:"name"`
	UID            string `json:"uid"`
	ServiceAccount string `json:"serviceAccount"`
}

// String returns namespace/name.
func (p Pod) String() string { return p.Namespace + "/" + p.Name }
