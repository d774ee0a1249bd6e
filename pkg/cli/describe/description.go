package describe

import (
	"cmp"
	"io/fs"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/attributes"
	"github.com/liveconfig-csi/liveconfig/pkg/api/statusz"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/versions"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/reloader"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/state"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/workload"
)

// Description is the report on one workload or pod.
type Description struct {
	Kind           string `json:"kind"`
	Namespace      string `json:"namespace"`
	Name           string `json:"name"`
	ServiceAccount string `json:"serviceAccount"`
	// Rollout is nil where edits are not rolled out.
	Rollout *Rollout `json:"rollout,omitempty"`
	// Volumes are those of liveconfig, and Others what else names ConfigMaps and Secrets.
	Volumes []Volume `json:"volumes"`
	Others  []Use    `json:"others"`
	// LeftInTree are the volumes that the API server has not converted, with the reasons.
	LeftInTree []string `json:"leftInTree,omitempty"`
	// Objects are what volumes and rollouts come from, as the API has it.
	Objects []Object `json:"objects"`
	Pods    []Pod    `json:"pods"`
	Events  []Event  `json:"events"`
	// Unknown is what could not be found out.
	Unknown []Unknown `json:"unknown"`
}

// Unknown is something that could not be found out.
type Unknown struct {
	What string `json:"what"`
	Why  string `json:"why"`
	// Type is a command that leads on, or empty.
	Type string `json:"type,omitempty"`
}

// Rollout is what the rollout controller has made of a workload.
type Rollout struct {
	TriggeredBy string `json:"triggeredBy,omitempty"`
	// Revision is Kubernetes' name of the template's revision; empty if the template has none.
	Revision string `json:"revision,omitempty"`
	// State is for people.
	State        string `json:"state,omitempty"`
	AfterUndo    string `json:"afterUndo,omitempty"`
	WhileFailing string `json:"whileFailing,omitempty"`
	// Copies are what the pods use in the place of what triggers.
	Copies []Copy `json:"copies"`
	// Newer are the copies that pods would use if what the sources hold now were rolled out.
	Newer []Copy `json:"newer,omitempty"`
}

// Copy is the object that stands for another, such as configmap/app. The copy of one that does not
// exist is empty.
type Copy struct {
	Of   string `json:"of"`
	Copy string `json:"copy"`
	// Unused is the version of an object that triggers rollouts and that pods do not use: it has no
	// copy.
	Unused string `json:"unused,omitempty"`
}

// Volume is a volume of liveconfig, by its attributes.
type Volume struct {
	Name string `json:"name"`
	// Mistakes explains why the attributes cannot be read. The rest but Mounts is empty then.
	Mistakes     []string `json:"mistakes,omitempty"`
	Mounts       []Mount  `json:"mounts"`
	Sources      []Source `json:"sources"`
	UpdatePolicy string   `json:"updatePolicy,omitempty"`
	OnDelete     string   `json:"onDelete,omitempty"`
	DefaultMode  string   `json:"defaultMode,omitempty"`
	MountPoints  []string `json:"mountPoints,omitempty"`
	// UID and GID are from the attributes, and FSGroup is the pods'; nil where it is not set.
	UID     *int   `json:"uid,omitempty"`
	GID     *int   `json:"gid,omitempty"`
	FSGroup *int64 `json:"fsGroup,omitempty"`
}

// Source is one object of a volume, by the attributes.
type Source struct {
	Object   api.Ref `json:"object"`
	CopyOf   string  `json:"copyOf,omitempty"`
	Optional bool    `json:"optional"`
	Items    []Item  `json:"items,omitempty"`
	As       *As     `json:"as,omitempty"`
}

// Item is one key, and where it goes.
type Item struct {
	Key  string `json:"key"`
	Path string `json:"path"`
	Mode string `json:"mode,omitempty"`
	User *int   `json:"user,omitempty"`
}

// As is the one file of all keys.
type As struct {
	Path   string `json:"path"`
	Format string `json:"format"`
	Mode   string `json:"mode,omitempty"`
}

// nameIn returns how an object is named on a page about a namespace.
func nameIn(namespace string, ref api.Ref) string {
	if ref.Namespace == "" {
		return ref.SeenFrom(namespace)
	}
	if ref.Namespace != namespace {
		return ref.Local().String() + " of namespace " + ref.Namespace
	}
	return ref.Local().String()
}

// Object is a ConfigMap or Secret as the API has it: what people edit, and no copy of it.
type Object struct {
	api.Ref

	// Unread explains why it is not known what the API has. The rest is what nodes and the workload
	// know then.
	Unread string `json:"unread,omitempty"`
	Exists bool   `json:"exists"`
	// Version and ChangedAt are of an object that exists. The time is zero if it is not known.
	Version   *statusz.Version `json:"version,omitempty"`
	ChangedAt time.Time        `json:"changedAt,omitzero"`
	// Copy is the name that a copy of it has; empty where pods use none, or it is not known.
	Copy string `json:"copy,omitempty"`
	// Pods counts pods by how their files are.
	Pods map[versions.State]int `json:"pods,omitempty"`
}

// Pod is one pod, and the report of its node on its volumes.
type Pod struct {
	Name  string `json:"name"`
	UID   string `json:"uid"`
	Node  string `json:"node,omitempty"`
	Phase string `json:"phase"`
	// State is the worst of its volumes', and NotAsked is why there is no report of its node; empty
	// if there is.
	State    versions.State `json:"state"`
	NotAsked string         `json:"notAsked,omitempty"`
	Volumes  []PodVolume    `json:"volumes"`
	// Reloaders are containers that make the program read the files.
	Reloaders []Reloader `json:"reloaders,omitempty"`
	// Elsewhere are copies that Kubernetes' own volumes and variables have, which no node reports.
	Elsewhere []PodSource `json:"elsewhere,omitempty"`
}

// PodVolume is a volume as the node of its pod reports it.
type PodVolume struct {
	Name string `json:"name"`
	// Mistakes are those of its attributes in the pod.
	Mistakes []string `json:"-"`
	// Reported is false of a volume that the node knows nothing of; the rest is empty then.
	Reported    bool             `json:"reported"`
	State       statusz.State    `json:"state,omitempty"`
	Digest      string           `json:"digest,omitempty"`
	Bytes       int64            `json:"bytes"`
	ProjectedAt time.Time        `json:"projectedAt,omitzero"`
	CheckedAt   time.Time        `json:"checkedAt,omitzero"`
	Problem     *statusz.Problem `json:"problem,omitempty"`
	Sources     []PodSource      `json:"sources"`
}

// PodSource is one object of a volume, as the node reports it.
type PodSource struct {
	Object api.Ref        `json:"object"`
	CopyOf string         `json:"copyOf,omitempty"`
	State  versions.State `json:"state"`
	// Why it is not current, and Since when, if that is known.
	Why   string    `json:"why,omitempty"`
	Since time.Time `json:"since,omitzero"`
	// Projected is the version in the files, and Known the one that the node has heard of, which it
	// did at KnownAt.
	Projected *statusz.Version `json:"projected,omitempty"`
	Known     *statusz.Version `json:"known,omitempty"`
	KnownAt   time.Time        `json:"knownAt,omitzero"`
	Polled    bool             `json:"polled,omitempty"`
	// ReadBy is whose credentials the driver reads it with.
	ReadBy  string `json:"readBy,omitempty"`
	Revoked bool   `json:"revoked,omitempty"`
	Error   string `json:"error,omitempty"`
}

// Event is an Event of the driver, of the rollout controller or, about a volume of liveconfig, of
// the kubelet.
type Event struct {
	Type    string    `json:"type"`
	Reason  string    `json:"reason"`
	Last    time.Time `json:"last"`
	Count   int32     `json:"count"`
	Object  string    `json:"object"`
	From    string    `json:"from"`
	Message string    `json:"message"`
}

func (v *Volume) describe(spec api.Spec, copies map[api.Ref]api.Ref) {
	v.UpdatePolicy, v.OnDelete = string(spec.UpdatePolicy), string(spec.OnDelete)
	v.DefaultMode, v.UID, v.GID = attributes.Mode(spec.DefaultMode), spec.UID, spec.GID
	v.MountPoints = spec.MountPoints
	for _, src := range spec.Inputs() {
		for _, selected := range src.Selected() {
			v.Sources = append(v.Sources, Source{Object: selected, Optional: src.Optional})
		}
		if src.Selection != nil {
			continue
		}
		d := Source{Object: src.Ref, Optional: src.Optional}
		if source, isCopy := copies[src.Ref]; isCopy {
			d.CopyOf = release.NameOf(source)
		}
		for _, item := range src.Items {
			d.Items = append(d.Items, Item{Key: item.Key, Path: item.Path, Mode: modeOf(item.Mode), User: item.User})
		}
		if src.As != nil {
			d.As = &As{Path: src.As.Path, Format: string(src.As.Format), Mode: modeOf(src.As.Mode)}
		}
		v.Sources = append(v.Sources, d)
	}
}

func modeOf(mode *fs.FileMode) string {
	if mode == nil {
		return ""
	}
	return attributes.Mode(*mode)
}

// rolloutOf describes the rollout of a workload; nil if the controller does not manage it.
func rolloutOf(w workload.Workload, s state.State) *Rollout {
	wanted, _, isOptedIn := reloader.Wanted(w.Annotations, w.Template)
	text, isRolledOut := w.Template.Annotations[trigger.ConfigAnnotation]
	if !isOptedIn && !isRolledOut {
		return nil
	}
	r := &Rollout{TriggeredBy: wanted, State: s.String(), Copies: []Copy{}}
	if isOptedIn {
		r.AfterUndo = cmp.Or(w.Annotations[trigger.AfterUndo], trigger.Roll)
		r.WhileFailing = cmp.Or(w.Annotations[trigger.WhileFailing], "as configured in the controller, hold by default")
	}
	config, err := trigger.ParseConfig(text)
	if isRolledOut && err == nil {
		r.Copies = copiesIn(config)
	}
	return r
}

func copiesIn(config trigger.Config) []Copy {
	copies := []Copy{}
	copied, uncopied := config.Copies(), config.Uncopied()
	for _, source := range config.Objects() {
		next := Copy{Of: source.String(), Unused: uncopied[source]}
		if name := copied[source]; name != "" {
			next.Copy = source.Named(name).String()
		}
		copies = append(copies, next)
	}
	return copies
}
