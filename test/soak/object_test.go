package soak

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
)

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
	// unwatched says that an immutable one was deleted since the driver was started: a user who reads it with the driver's own
	// account need not notice.
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

// value returns the bytes of a value. They say whose they are, so that a file reports what it was made of.
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
