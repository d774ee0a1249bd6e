// Package statusz is what the driver of a node reports about its volumes: which objects each volume
// comes from, which versions of them are in its files, and what is wrong. It is what /statusz
// serves and kubectl plugins read.
//
// It does not know where that comes from. It has names, times and versions, and no place for
// content or a token.
package statusz

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// SchemaVersion counts changes that an older reader would misunderstand. A new field is not such a
// change.
const SchemaVersion = 1

// Report is all of one node.
type Report struct {
	SchemaVersion int `json:"schemaVersion"`
	// Driver is the CSI driver name, and Version the build.
	Driver  string `json:"driver"`
	Version string `json:"version"`
	Node    string `json:"node"`
	// Started is when this run of the driver began, and Now when the report was made, by the node's
	// clock.
	Started time.Time `json:"started"`
	Now     time.Time `json:"now"`
	// Recovered means that the volumes of an earlier run have been taken over: before, some are
	// missing here.
	Recovered bool `json:"recovered"`
	// WaitsFor is the driver that has the node, if this one waits for its end; nil for a driver
	// that serves. A driver that waits has no volumes.
	WaitsFor *Holder `json:"waitsFor,omitempty"`
	// Manifests means that objects come from manifests in a directory, and not from an API server;
	// nil where they do not.
	Manifests *Manifests `json:"manifests,omitempty"`
	// RefusedContext is why volumes have no SELinux context although there should be one; empty if
	// they have it, or should not.
	RefusedContext string   `json:"refusedContext,omitempty"`
	Volumes        []Volume `json:"volumes"`
}

// Holder is a driver that has the state directory of a node, as it describes itself. A field that
// it does not know is left out.
type Holder struct {
	// Name is that of its host, which for a pod is the pod's name, and Namespace the pod's
	// namespace.
	Name      string `json:"name,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	// PID is its process ID, as its own container sees it.
	PID     int    `json:"pid,omitempty"`
	Node    string `json:"node,omitempty"`
	Version string `json:"version,omitempty"`
	// Since is when it took the directory, by the node's clock.
	Since time.Time `json:"since,omitzero"`
}

// Manifests is a directory of manifests that stands for an API server.
type Manifests struct {
	Directory string `json:"directory"`
	// Objects is how many ConfigMaps and Secrets the manifests define.
	Objects int `json:"objects"`
	// Problems are why some manifests are not served.
	Problems []ManifestProblem `json:"problems"`
}

// ManifestProblem is one mistake in a manifest.
type ManifestProblem struct {
	// File is a name in the directory.
	File string `json:"file"`
	// Document and Line count from one; zero means that they are not known.
	Document int `json:"document,omitempty"`
	Line     int `json:"line,omitempty"`
	// Message is for people.
	Message string `json:"message"`
}

// Pod is the pod that a volume belongs to.
type Pod struct {
	Namespace      string `json:"namespace"`
	Name           string `json:"name"`
	UID            string `json:"uid"`
	ServiceAccount string `json:"serviceAccount"`
}

// State is how far a volume has come.
type State string

// The states.
const (
	// Publishing: its pod waits for it.
	Publishing State = "publishing"
	// Live: it is mounted and follows its sources.
	Live State = "live"
	// Frozen: it is mounted and stays as it is, because it never updates or because its attributes
	// cannot be used any more.
	Frozen State = "frozen"
	// Busy: it is being worked on for longer than a report waits, so only what never changes is
	// known.
	Busy State = "busy"
)

// Volume is one volume. A time that is not known is left out.
type Volume struct {
	ID  string `json:"id"`
	Pod Pod    `json:"pod"`
	// Name is the volume's in the pod spec.
	Name         string `json:"name"`
	TargetPath   string `json:"targetPath"`
	UpdatePolicy string `json:"updatePolicy,omitempty"`
	OnDelete     string `json:"onDelete,omitempty"`
	State        State  `json:"state"`
	// Digest stands for the files, their names, modes and owners; empty while it is not known. It
	// can be compared with others of the same run of one driver. It reveals nothing else: content
	// cannot be guessed by it.
	Digest string `json:"digest,omitempty"`
	// Bytes is the sum of the files' sizes.
	Bytes int64 `json:"bytes"`
	// ProjectedAt is when this run of the driver last changed the files.
	ProjectedAt time.Time `json:"projectedAt,omitzero"`
	// CheckedAt is when this run last found the files equal to the sources, or made them so.
	CheckedAt time.Time `json:"checkedAt,omitzero"`
	// Problem is why the files are not what they should be, or may not be; nil when nothing is
	// wrong.
	Problem *Problem `json:"problem,omitempty"`
	Sources []Source `json:"sources"`
}

// Problem is what is wrong with a volume.
type Problem struct {
	// Kind is one word of a closed set.
	Kind string `json:"kind"`
	// Message is for people.
	Message string    `json:"message"`
	Since   time.Time `json:"since,omitzero"`
}

// Source is one object that a volume shows.
type Source struct {
	// Kind is ConfigMap or Secret.
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	// Name is a selector in brackets for the objects that have labels, as in [app=web]. Then the
	// versions are of all of them together, and Namespace is empty for all namespaces. Such an
	// object that is released is a source of its own beside them.
	Name     string `json:"name"`
	Optional bool   `json:"optional"`
	// Objects is how many a selector has found; nil for a source that names its object.
	Objects *int `json:"objects,omitempty"`
	// Items are the keys that were picked; empty for every key of the object.
	Items []Item `json:"items,omitempty"`
	// As is the one file that holds all keys; nil where each has its own.
	As *As `json:"as,omitempty"`
	// ReadBy is whose credentials read it.
	ReadBy string `json:"readBy"`
	// Synced means that the API server has answered, and Found that the object exists.
	Synced bool `json:"synced"`
	Found  bool `json:"found"`
	// Known is the version that the driver has, and Projected the one in the files. A version that
	// is not known, or of an object that does not exist, is left out.
	Known     *Version `json:"known,omitempty"`
	Projected *Version `json:"projected,omitempty"`
	Immutable bool     `json:"immutable"`
	// Polled means that it is read now and then and not watched, and Revoked that it may not be
	// read any more.
	Polled  bool `json:"polled"`
	Revoked bool `json:"revoked"`
	// ChangedAt is when the known version reached the driver.
	ChangedAt time.Time `json:"changedAt,omitzero"`
	// Error is why it is not kept current.
	Error string `json:"error,omitempty"`
	// Release is set for an object whose edits are released step by step, if it has a stable copy.
	Release *Release `json:"release,omitempty"`
}

// Release is what a volume shows of an object that is released.
type Release struct {
	// Stable is the version of the stable copy.
	Stable Version `json:"stable"`
	// State is that of the release, empty for none that is under way.
	State string `json:"state,omitempty"`
	// IsShown means that the pod gets what the object has now, and not what it had before.
	IsShown bool `json:"isShown"`
}

// As is a file that holds several keys.
type As struct {
	Path   string `json:"path"`
	Format string `json:"format"`
}

// Item is one key of an object and the path of its file, or its name in the file where there is one
// for all keys.
type Item struct {
	Key  string `json:"key"`
	Path string `json:"path"`
}

// Version names one version of an object. Versions are compared for equality only.
type Version struct {
	UID             string `json:"uid"`
	ResourceVersion string `json:"resourceVersion"`
}

// Sort puts volumes into the order of their pods' namespaces and names, then of the names of the
// volumes. Pods of one name are kept apart by UID.
func Sort(volumes []Volume) {
	slices.SortFunc(volumes, func(a, b Volume) int {
		return cmp.Or(strings.Compare(a.Pod.Namespace, b.Pod.Namespace), strings.Compare(a.Pod.Name, b.Pod.Name),
			strings.Compare(a.Name, b.Name), strings.Compare(a.Pod.UID, b.Pod.UID), strings.Compare(a.ID, b.ID))
	})
}

// Write encodes a report as JSON for people and programs.
func Write(w io.Writer, r Report) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false) // Messages hold quotes and arrows, and nobody shows this in a page.
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(r); err != nil {
		return fmt.Errorf("encode the status: %w", err)
	}
	return nil
}

// Read decodes a report. One of a later schema is refused, since it could mean something else.
func Read(in io.Reader) (Report, error) {
	var r Report
	if err := json.NewDecoder(in).Decode(&r); err != nil {
		return Report{}, fmt.Errorf("decode the status of a node: %w", err)
	}
	if r.SchemaVersion > SchemaVersion || r.SchemaVersion < 1 {
		return Report{}, fmt.Errorf("the driver of node %q reports its status in schema %d, and %d is known here: use a "+
			"newer version",
			r.Node, r.SchemaVersion, SchemaVersion)
	}
	return r, nil
}

// Volume returns what a report has of a volume of a pod; nil for nothing, or of no report.
func (r *Report) Volume(podUID, volume string) *Volume {
	if r == nil {
		return nil
	}
	i := slices.IndexFunc(r.Volumes, func(v Volume) bool { return v.Pod.UID == podUID && v.Name == volume })
	if i < 0 {
		return nil
	}
	return &r.Volumes[i]
}
