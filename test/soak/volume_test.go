package soak

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"path"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
)

// The update policies.
const (
	atomicPolicy  = "Atomic"
	replacePolicy = "Replace"
	inPlacePolicy = "InPlace"
	neverPolicy   = "Never"
)

// item puts a key at a path.
type item struct {
	key, path string
	mode      int // Below zero for none.
}

// source is one object of a volume.
type source struct {
	ref      ref
	items    []item // None means every key under its own name.
	optional bool
}

// spec is what a volume is made of. No object is in it twice.
type spec struct {
	sources     []source
	policy      string
	removes     bool // The files of an object that goes, or may not be read any more, go as well.
	defaultMode int
	uid, gid    int // Below zero for none.
	fsGroup     int // Below zero for none.
}

// state is how far a volume has come.
type state int

const (
	pending   state = iota // Nothing of it is on the node.
	uncertain              // A call for it was not answered.
	live
)

// record is what has become of the driver's record of a volume.
type record int

const (
	whole record = iota
	lost
	torn
)

// vol is one volume of a pod. The guard of what follows gate is the model's.
type vol struct {
	spec
	pod    *pod
	name   string
	id     string
	target string

	gate sync.RWMutex // Held to publish or unpublish the volume, and for reading to read it.

	state  state
	known  bool // The driver knows of it, if it runs.
	record record
	// floor is, by object, the oldest version that may still be seen; seen is the same for a file of a volume that is not
	// changed as a whole.
	floor map[ref]int
	seen  map[seenKey]int
	// pinned is what the files were at the last rest, and pinnedAt the versions of that time.
	pinned   map[string]string
	pinnedAt map[ref]int
	tries    int // How often it could not be published at a rest.
}

type seenKey struct {
	path string
	ref  ref
}

// pod has volumes.
type pod struct {
	*corev1.Pod
	account string
	volumes []*vol
	leaving bool // It has been deleted, and its volumes are to go.
}

func (v *vol) String() string { return v.pod.Name + "/" + v.name }

// isPlain reports whether the volume has files in place of links to the files of a generation.
func (v *vol) isPlain() bool { return v.policy == replacePolicy || v.policy == inPlacePolicy }

// indexOf returns which of the sources an object is.
func (s *spec) indexOf(r ref) (int, bool) {
	for i := range s.sources {
		if s.sources[i].ref == r {
			return i, true
		}
	}
	return 0, false
}

// lacks reports whether a version of a source is not enough for the volume to be built.
func (s *spec) lacks(src source, ver version) bool {
	if ver == nil {
		return !src.optional && !s.removes
	}
	if src.optional {
		return false
	}
	for _, it := range src.items {
		if _, found := ver[it.key]; !found {
			return true
		}
	}
	return false
}

// projected is a value at its path.
type projected struct {
	key   string
	entry entry
}

// project returns what a source puts into the volume.
func (s source) project(ver version) map[string]projected {
	files := map[string]projected{}
	if len(s.items) == 0 {
		for key, e := range ver {
			files[key] = projected{key, e}
		}
	}
	for _, it := range s.items {
		if e, found := ver[it.key]; found {
			files[it.path] = projected{it.key, e}
		}
	}
	return files
}

// modeOf returns the mode of a file.
func (s *spec) modeOf(src source, p string) uint32 {
	mode := s.defaultMode
	for _, it := range src.items {
		if it.path == p && it.mode >= 0 {
			mode = it.mode
		}
	}
	if s.fsGroup >= 0 && s.uid < 0 {
		mode |= 0o440
	}
	return uint32(mode)
}

func (s *spec) owner() (uid, gid uint32) {
	switch {
	case s.gid >= 0:
		gid = uint32(s.gid)
	case s.fsGroup >= 0:
		gid = uint32(s.fsGroup)
	}
	return uint32(max(s.uid, 0)), gid
}

// dirMode returns the mode of the volume's directories.
func (s *spec) dirMode() uint32 {
	if s.fsGroup >= 0 && s.uid < 0 {
		return 0o2755
	}
	return 0o755
}

// attributes writes the spec as a user does.
func (s *spec) attributes(namespace string, isShort bool) map[string]string { //nolint:revive // The form is a choice of the test's.
	a := map[string]string{"defaultMode": fmt.Sprintf("%#o", s.defaultMode)}
	if s.policy != atomicPolicy {
		a["updatePolicy"] = s.policy
	}
	if s.removes {
		a["onDelete"] = "Remove"
	}
	if s.uid >= 0 {
		a["uid"] = strconv.Itoa(s.uid)
	}
	if s.gid >= 0 {
		a["gid"] = strconv.Itoa(s.gid)
	}
	if !isShort || len(s.sources) != 1 {
		a["sources"] = s.long(namespace)
		return a
	}
	src := s.sources[0]
	a[src.ref.kind] = src.ref.name
	if src.ref.namespace != namespace {
		a["namespace"] = src.ref.namespace
	}
	if len(src.items) > 0 {
		a["items"] = itemsText(src.items)
	}
	if src.optional {
		a["optional"] = "true"
	}
	return a
}

func (s *spec) long(namespace string) string {
	var text strings.Builder
	for _, src := range s.sources {
		fmt.Fprintf(&text, "- %s: {name: %s", src.ref.kind, src.ref.name)
		if src.ref.namespace != namespace {
			fmt.Fprintf(&text, ", namespace: %s", src.ref.namespace)
		}
		if len(src.items) > 0 {
			fmt.Fprintf(&text, ", items: %s", itemsText(src.items))
		}
		if src.optional {
			text.WriteString(", optional: true")
		}
		text.WriteString("}\n")
	}
	return text.String()
}

func itemsText(items []item) string {
	texts := make([]string, len(items))
	for i, it := range items {
		texts[i] = fmt.Sprintf("{key: %s, path: %s", it.key, it.path)
		if it.mode >= 0 {
			texts[i] += fmt.Sprintf(", mode: %#o", it.mode)
		}
		texts[i] += "}"
	}
	return "[" + strings.Join(texts, ", ") + "]"
}

// dirsOf returns the directories that files need.
func dirsOf(files map[string]file) map[string]bool {
	dirs := map[string]bool{}
	for p := range files {
		for d := path.Dir(p); d != "."; d = path.Dir(d) {
			dirs[d] = true
		}
	}
	return dirs
}

// top returns the first element of a path.
func top(p string) string {
	first, _, _ := strings.Cut(p, "/")
	return first
}

// The kinds of objects, as attributes spell them.
const (
	configMap = "configMap"
	secret    = "secret"
)

// ref names an object.
type ref struct{ kind, namespace, name string }

func (r ref) String() string { return r.kind + " " + r.namespace + "/" + r.name }

// entry is the value of a key: which version of its object has brought it, and how long it is.
type entry struct{ stamp, size int }

// version is what an object has held at one time; nil while it did not exist.
type version map[string]entry

// object is an object of the cluster with everything it has ever held. The guard is the model's.
type object struct {
	ref
	versions  []version // The first is nil; the last is the present one. A version is here before the API server has it.
	immutable bool      // It exists and is.
	// unwatched means that an immutable object was deleted since the driver was started. A volume that reads it with the driver's
	// account may keep the old content.
	unwatched bool
	edits     int // Makes annotations differ.
}

func newObject(r ref) *object { return &object{ref: r, versions: []version{nil}} }

func (o *object) latest() int      { return len(o.versions) - 1 }
func (o *object) present() version { return o.versions[o.latest()] }
func (o *object) exists() bool     { return o.present() != nil }

// copyOfPresent is a version to be changed.
func (o *object) copyOfPresent() version {
	next := maps.Clone(o.present())
	if next == nil {
		next = version{}
	}
	return next
}

// isBinary reports whether the values of a key are not text.
func isBinary(key string) bool { return strings.HasPrefix(key, "b") }

// value returns the bytes of a value. They name their owner, so that a file reports what it was made of.
func value(r ref, key string, e entry) []byte {
	filler := "text "
	if isBinary(key) {
		filler = "\x00\xff\xfe "
	}
	head := fmt.Sprintf("%s %s %s %s %d %d\n", r.kind, r.namespace, r.name, key, e.stamp, e.size)
	padding := strings.Repeat(filler, e.size/len(filler)+1)[:e.size]
	return []byte(environment.Marked(head + padding))
}

// origin is what a file was made of.
type origin struct {
	ref   ref
	key   string
	entry entry
}

func (o origin) String() string {
	return fmt.Sprintf("key %s of %s from version %d", o.key, o.ref, o.entry.stamp)
}

// originOf returns what bytes were made of. Others than those of a whole value are an error.
func originOf(data []byte) (origin, error) {
	var o origin
	head, _, _ := bytes.Cut(bytes.TrimPrefix(data, []byte(environment.Mark)), []byte("\n"))
	if _, err := fmt.Sscanf(string(head), "%s %s %s %s %d %d",
		&o.ref.kind, &o.ref.namespace, &o.ref.name, &o.key, &o.entry.stamp, &o.entry.size); err != nil {
		return o, fmt.Errorf("no value has these %d bytes: %.60q", len(data), data)
	}
	const most = 2 << 20
	if o.entry.size < 0 || o.entry.size > most || !bytes.Equal(data, value(o.ref, o.key, o.entry)) {
		return o, errors.New("torn: the value of " + o.String() + fmt.Sprintf(" has other than these %d bytes", len(data)))
	}
	return o, nil
}
