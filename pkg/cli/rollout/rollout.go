// Package rollout is `kubectl liveconfig rollout`: history, undo, pause and resume.
//
// It does not know how a rollout is driven: the controller does that.
package rollout

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/cluster"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/printing"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/revisions"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/selection"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/session"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/usage"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
)

// New returns the command.
func New(s *session.Session) *cobra.Command {
	c := usage.Group(&cobra.Command{
		Use:   "rollout",
		Short: "Look at revisions of config, go back to one, and hold edits back",
		Long: "Knows revisions as `kubectl rollout` does, and beside their templates the config that their pods have. `kubectl rollout\n" +
			"status` and `restart` need nothing of that, and have no other here.",
	})
	c.AddCommand(newRolloutHistory(s), newRolloutUndo(s), newRolloutPause(s), newRolloutResume(s))
	return c
}

// rolloutTargets is what the commands of rollout work on: what is in the cluster.
type rolloutTargets struct {
	selection.Selection

	driver string
}

func (o *rolloutTargets) addFlags(c *cobra.Command) {
	o.AddClusterFlags(c)
	selection.AddDriverFlag(c, &o.driver)
}

// fullName is how kubectl prints an object, such as deployment.apps/web.
func fullName(info *resource.Info) string {
	kind := info.Mapping.GroupVersionKind
	return strings.ToLower(kind.Kind) + "." + kind.Group + "/" + info.Name
}

// configDiff prints what the config of one revision has otherwise than that of another.
type configDiff struct {
	*session.Session

	objects *cluster.Objects
	// sources is what is done about a revision that uses a source itself: what it holds now is
	// shown or not.
	sources sourcePolicy
	secrets bool
}

// sourcePolicy describes what a revision that uses a source itself is compared by.
type sourcePolicy string

const (
	asStored sourcePolicy = "" // By nothing: the content of that time is not stored.
	asNow    sourcePolicy = "now"
)

// show prints the diff of one revision against another.
func (d configDiff) show(ctx context.Context, from, to revisions.Revision) error {
	for _, change := range revisions.Changes(from.Items, to.Items) {
		before, okBefore := d.side(ctx, from, change.From)
		after, okAfter := d.side(ctx, to, change.To)
		if !okBefore || !okAfter {
			continue // A remark has explained it.
		}
		if err := d.object(change, before, after); err != nil {
			return err
		}
	}
	return nil
}

// side returns the data that a revision has of a source; nil if it does not use it. It prints what
// cannot be known.
func (d configDiff) side(ctx context.Context, of revisions.Revision, item *revisions.Item) (map[string][]byte, bool) {
	switch {
	case item == nil || item.Absent:
		return nil, true
	case item.Unused != "":
		d.Remark("note: revision %d does not use %s, which triggered its rollout: what that held then is not stored", of.Number, item.Source)
		return nil, false
	case item.IsSource() && d.sources == asStored:
		d.Remark("note: revision %d uses %s itself: what that held then is not stored", of.Number, item.Source)
		return nil, false
	}
	is := d.objects.Of(ctx, item.Used().In(of.Namespace))
	switch {
	case is.Err != nil:
		d.Remark("note: what revision %d has of %s cannot be shown: read %s: %v", of.Number, item.Source, item.Used(), is.Err)
		return nil, false
	case !is.Exists() && item.IsSource():
		return nil, true
	case !is.Exists():
		d.Remark("note: what revision %d has of %s cannot be shown: its copy %s is gone", of.Number, item.Source, item.Copy)
		return nil, false
	default:
		return is.Content.Data, true
	}
}

// object prints the diff of each key of an object.
func (d configDiff) object(change revisions.Change, before, after map[string][]byte) error {
	differ := printing.Differ(printing.Unified)
	if change.Source.Kind == api.Secret && !d.secrets {
		differ = printing.Masked
	}
	oldName, newName := nameIn(change.From, change.Source), nameIn(change.To, change.Source)
	keys := slices.AppendSeq(slices.Collect(maps.Keys(before)), maps.Keys(after))
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		text := differ(oldName+"/"+key, newName+"/"+key, valueOf(before, key), valueOf(after, key))
		if _, err := fmt.Fprint(d.Out, printing.Plain(text)); err != nil {
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
