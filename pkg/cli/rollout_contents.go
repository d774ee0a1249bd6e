package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/diffs"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/revisions"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/source"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/copies"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
)

// contents reads what copies and sources of one namespace hold, each once.
type contents struct {
	client    kubernetes.Interface
	namespace string
	read      map[trigger.Object]content
}

func newContents(client kubernetes.Interface, namespace string) *contents {
	return &contents{client: client, namespace: namespace, read: map[trigger.Object]content{}}
}

// content is what came of reading an object.
type content struct {
	// exists says that it was found and read, and data is what it holds by key.
	exists bool
	data   map[string][]byte
	// copyName is what a copy of it as it is would be called; verified says whether it is a copy itself, and a good one.
	copyName string
	verified error
	// err is why it could not be read. That it does not exist is none.
	err error
}

// of reads an object.
func (c *contents) of(ctx context.Context, o trigger.Object) content {
	if is, found := c.read[o]; found {
		return is
	}
	is, err := c.get(ctx, o)
	switch {
	case apierrors.IsNotFound(err):
		is = content{}
	case err != nil:
		is = content{err: fmt.Errorf("read %s: %w", o, err)}
	}
	c.read[o] = is
	return is
}

func (c *contents) get(ctx context.Context, o trigger.Object) (content, error) {
	is := content{exists: true}
	if o.Kind == api.Secret {
		secret, err := c.client.CoreV1().Secrets(c.namespace).Get(ctx, o.Name, metav1.GetOptions{})
		if err != nil {
			return content{}, err
		}
		is.data = source.ContentOfSecret(secret).Data
		digest := copies.DigestOf(secret)
		is.copyName, is.verified = copies.Name(o.Name, digest), copies.Verify(secret, digest)
		return is, nil
	}
	configMap, err := c.client.CoreV1().ConfigMaps(c.namespace).Get(ctx, o.Name, metav1.GetOptions{})
	if err != nil {
		return content{}, err
	}
	is.data = source.ContentOfConfigMap(configMap).Data
	digest := copies.DigestOf(configMap)
	is.copyName, is.verified = copies.Name(o.Name, digest), copies.Verify(configMap, digest)
	return is, nil
}

// configDiff prints what the config of one revision has otherwise than that of another.
type configDiff struct {
	*session

	contents *contents
	// sources is what is done about a revision that uses a source itself: what it holds now is shown or not.
	sources sourcePolicy
	secrets bool
}

// sourcePolicy says what a revision that uses a source itself is compared by.
type sourcePolicy string

const (
	asKept sourcePolicy = "" // By nothing: what the source held then is not kept.
	asNow  sourcePolicy = "now"
)

// show prints the diff of one revision against another.
func (d configDiff) show(ctx context.Context, from, to revisions.Revision) error {
	for _, change := range revisions.Changes(from.Items, to.Items) {
		before, okBefore := d.side(ctx, from, change.From)
		after, okAfter := d.side(ctx, to, change.To)
		if !okBefore || !okAfter {
			continue // That was said.
		}
		if err := d.object(change, before, after); err != nil {
			return err
		}
	}
	return nil
}

// side returns what a revision has of a source: no data if it has nothing of it. What cannot be known is said.
func (d configDiff) side(ctx context.Context, of revisions.Revision, item *revisions.Item) (map[string][]byte, bool) {
	switch {
	case item == nil || item.Absent:
		return nil, true
	case item.Unused != "":
		d.remark("note: revision %d does not use %s, which triggered its rollout: what that held then is not kept", of.Number, item.Source)
		return nil, false
	case item.IsSource() && d.sources == asKept:
		d.remark("note: revision %d uses %s itself: what that held then is not kept", of.Number, item.Source)
		return nil, false
	}
	is := d.contents.of(ctx, item.Used())
	switch {
	case is.err != nil:
		d.remark("note: what revision %d has of %s cannot be shown: %v", of.Number, item.Source, is.err)
		return nil, false
	case !is.exists && item.IsSource():
		return nil, true
	case !is.exists:
		d.remark("note: what revision %d has of %s cannot be shown: its copy %s is gone", of.Number, item.Source, item.Copy)
		return nil, false
	default:
		return is.data, true
	}
}

// object prints the diff of each key of an object.
func (d configDiff) object(change revisions.Change, before, after map[string][]byte) error {
	differ := diffs.Differ(diffs.Unified)
	if change.Source.Kind == api.Secret && !d.secrets {
		differ = diffs.Masked
	}
	oldName, newName := nameIn(change.From, change.Source), nameIn(change.To, change.Source)
	keys := slices.AppendSeq(slices.Collect(maps.Keys(before)), maps.Keys(after))
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		text := differ(oldName+"/"+key, newName+"/"+key, valueOf(before, key), valueOf(after, key))
		if _, err := fmt.Fprint(d.Out, plain(text)); err != nil {
			return err
		}
	}
	return nil
}

// valueOf returns nil for a key that is not there, and something else for one with an empty value.
func valueOf(data map[string][]byte, key string) []byte {
	value, found := data[key]
	if found && value == nil {
		return []byte{}
	}
	return value
}

func nameIn(item *revisions.Item, source trigger.Object) string {
	if item == nil {
		return source.String()
	}
	return trigger.Object{Kind: source.Kind, Name: cmp.Or(item.Copy, source.Name)}.String()
}
