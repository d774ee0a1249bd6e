package preview

import (
	"context"
	"fmt"
	"strings"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/observe"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/printing"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
)

// edited is an object of the cluster with an edit that not all pods have.
type edited struct {
	// stable is what pods have that do not have the edit.
	stable api.Content
	// note explains how far the edit has come.
	note string
}

// shown returns what a volume of the driver shows of an object: its stable copy, if not all pods
// have its last edit.
func (o *command) shown(ctx context.Context) Objects {
	return func(ref api.Ref) (api.Content, bool, error) {
		content, found, err := o.content(ctx)(ref)
		if err != nil || !found {
			return content, found, err
		}
		e, err := o.edited(ctx, ref)
		if err != nil {
			return api.Content{}, false, err
		}
		if e == nil {
			return content, true, nil
		}
		o.once("%s", e.note)
		return e.stable, true, nil
	}
}

// noting returns what the cluster has, and prints a note about each object with an edit that not
// all pods have.
func (o *command) noting(ctx context.Context) Objects {
	return func(ref api.Ref) (api.Content, bool, error) {
		content, found, err := o.content(ctx)(ref)
		if err != nil || !found {
			return content, found, err
		}
		if e, err := o.edited(ctx, ref); err == nil && e != nil {
			o.once("%s", e.note)
		}
		return content, true, nil
	}
}

// edited returns the edit of an object of the cluster that not all pods have; nil for none.
func (o *command) edited(ctx context.Context, ref api.Ref) (*edited, error) {
	object := o.cached.Of(ctx, ref)
	if !object.Exists() {
		return nil, object.Err
	}
	if _, isReleased := object.GetAnnotations()[release.Annotation]; !isReleased {
		return nil, nil
	}
	at := release.StableOf(ref)
	copied := o.cached.Of(ctx, at)
	switch {
	case copied.Err != nil:
		return nil, fmt.Errorf("its stable copy %s: %w", at.Name, copied.Err)
	case !copied.Exists():
		return nil, nil
	case copied.GetLabels()[release.StableLabel] != release.LabelOf(ref.Name):
		return nil, fmt.Errorf("%s has the name of its stable copy, but not the label %s: %s", at, release.StableLabel,
			release.LabelOf(ref.Name))
	}
	digest := release.Digest(object.Content.Data)
	if release.Digest(copied.Content.Data) == digest {
		return nil, nil
	}
	stable := copied.Content
	stable.Ref = ref
	return &edited{stable: stable, note: note(ref, copied, digest)}, nil
}

// note returns a sentence about how far an edit with a digest has come.
func note(ref api.Ref, copied observe.Object, digest string) string {
	e, err := release.ParseExposure(copied.GetAnnotations()[release.ExposureAnnotation])
	see := fmt.Sprintf("see kubectl liveconfig release status %s -n %s", release.NameOf(ref), ref.Namespace)
	state := "has not been checked yet, and no pod has it: " + see
	switch {
	case err != nil, e.Digest != digest:
	case e.State == release.Refused, e.State == release.Reverted:
		state = fmt.Sprintf("is %s, and no pod has it: %s", strings.ToLower(string(e.State)), e.Reason)
	case e.State == release.Frozen:
		state = "is frozen: some pods may have it, and no other pod gets it: " + e.Reason
	default:
		state = "is under way, and some pods may have it: " + see
	}
	return fmt.Sprintf("note: the edit of %s %s", ref, printing.PlainLine(state))
}
