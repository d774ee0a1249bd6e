package stable

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
)

const (
	// mostKept is how many bytes the kept contents of one object may have in all, packed.
	mostKept = 1 << 20
	// mostUnpacked is how many bytes a packed content may have when it is read: more than an object
	// can have, whose bytes are in base64.
	mostUnpacked = 4 << 20
)

// ErrNotKept means that a content is not kept: it was too large, or is too old.
var ErrNotKept = errors.New("the content is not kept")

// Former returns what the object knows of stable contents. One that cannot be read knows nothing.
func (o Object) Former() release.Former {
	f, err := release.ParseFormer(o.Annotations[release.FormerAnnotation])
	if err != nil {
		return release.Former{}
	}
	return f
}

// Kept returns a content that the object keeps, as one of a source.
func (o Object) Kept(s release.Stored, source Object) (Object, error) {
	packed := o.binaryData[s.Key]
	if s.Key == "" || len(packed) == 0 {
		return Object{}, fmt.Errorf("%s: %w", o.Ref, ErrNotKept)
	}
	data, err := unpack(packed)
	if err != nil {
		return Object{}, fmt.Errorf("%s, key %s: %w", o.Ref, s.Key, err)
	}
	source.data, source.binaryData = nil, data
	if source.Ref.Kind == api.ConfigMap {
		source.data, source.binaryData = split(data)
	}
	if source.Digest = release.Digest(data); source.Digest != s.Digest {
		return Object{}, fmt.Errorf("%s, key %s: the content has another digest: %w", o.Ref, s.Key, ErrNotKept)
	}
	return source, nil
}

// Keep returns the object with one more stable content, and without the oldest ones if there is no
// room for them. kept is the object as it is, or one that only has a name.
func (o Object) Keep(content Object, at time.Time) (Object, error) {
	return o.keep(content, release.Stored{At: at})
}

// KeepAhead is Keep for a content that a release of several objects is about to make stable.
func (o Object) KeepAhead(content Object, at time.Time, id string) (Object, error) {
	return o.keep(content, release.Stored{At: at, Release: id, IsAhead: true})
}

func (o Object) keep(content Object, s release.Stored) (Object, error) {
	packed, err := pack(content.Data())
	if err != nil {
		return Object{}, fmt.Errorf("keep the content of %s: %w", content.Ref, err)
	}
	key := content.Digest[:min(len(content.Digest), keyLength)]
	s.Digest, s.At, s.Key = content.Digest, s.At.UTC().Truncate(time.Second), key
	f := o.Former().With(s)
	data := maps.Clone(o.binaryData)
	if data == nil {
		data = map[string][]byte{}
	}
	data[key] = packed
	room := mostKept
	for i := range f.Contents {
		room -= len(data[f.Contents[i].Key])
		if room < 0 {
			f.Contents[i].Key = ""
		}
	}
	maps.DeleteFunc(data, func(key string, _ []byte) bool {
		return !slices.ContainsFunc(f.Contents, func(s release.Stored) bool { return s.Key == key })
	})
	o.data, o.binaryData = nil, data
	return o.WithFormer(f), nil
}

// keyLength is how many digits of a digest are the key of its content.
const keyLength = 16

// WithFormer returns the object with another value of its annotation.
func (o Object) WithFormer(f release.Former) Object {
	o.Annotations = clone(o.Annotations)
	o.Annotations[release.FormerAnnotation] = f.String()
	return o
}

// NewFormer returns an object that does not exist yet, to keep what a source had before.
func NewFormer(source api.Ref) Object {
	return Object{Ref: release.FormerOf(source), FormerOf: release.LabelOf(source.Name)}
}

// IsFormerOf reports whether the object keeps what another one had before, by its label.
func (o Object) IsFormerOf(ref api.Ref) bool { return o.FormerOf == release.LabelOf(ref.Name) }

// Keep creates or writes an object that keeps former contents. It fails with a conflict if the
// object has another version by now.
func (w Writer) Keep(ctx context.Context, former Object) (Object, error) {
	if former.Version == "" {
		label := map[string]string{release.FormerLabel: former.FormerOf}
		return w.create(ctx, former, label, former.Annotations)
	}
	return w.Write(ctx, former, former.Annotations, &former)
}

// split returns data as a ConfigMap has it: texts, and other bytes.
func split(data map[string][]byte) (texts map[string]string, others map[string][]byte) {
	texts, others = map[string]string{}, map[string][]byte{}
	for key, value := range data {
		if utf8.Valid(value) {
			texts[key] = string(value)
		} else {
			others[key] = value
		}
	}
	return texts, others
}

// pack returns data as few bytes: what is kept is read rarely, and must fit beside others.
func pack(data map[string][]byte) ([]byte, error) {
	text, err := json.Marshal(data)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(text); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func unpack(packed []byte) (map[string][]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(r, mostUnpacked+1))
	if err != nil {
		return nil, err
	}
	if len(text) > mostUnpacked {
		return nil, fmt.Errorf("it has more than %d bytes", mostUnpacked)
	}
	var data map[string][]byte
	return data, json.Unmarshal(text, &data)
}
