package deploy

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/copies"
)

// A tryToChange is a patch of an object, or its deletion.
type tryToChange struct {
	what string
	// name is that of the object.
	name string
	// patch is a merge patch; empty for a deletion with options.
	patch, options string
	// want is a part of the error; empty if the request is to succeed.
	want string
}

// existing are objects that exist before somebody tries to change them.
type existing struct {
	// made is a copy, with a Node as an owner that somebody else added. lost has lost its label, bare all marks but the digest.
	made, lost, bare *written
	// stable is a stable copy. foreign has the name and the content of a copy and no marks, plain is an object of a user, and
	// unmarked an immutable one.
	stable, foreign, unmarked, plain *written
	// marks are those of a copy, and restored those that bare has lost, as patches.
	marks, restored string
}

const nodeAsOwner = `{"apiVersion": "v1", "kind": "Node", "name": "web", "uid": "a"}`

func owners(all ...string) string {
	return `{"metadata": {"ownerReferences": [` + strings.Join(all, ", ") + `]}}`
}

func metadata(format string, args ...any) string {
	return `{"metadata": ` + fmt.Sprintf(format, args...) + `}`
}

// newExisting creates the objects as an administrator.
func (by *thief) newExisting(t *testing.T, kind api.Kind) *existing {
	t.Helper()
	e := &existing{
		made: copyOfKind(t, kind, "web", "1"), lost: copyOfKind(t, kind, "web", "2"), foreign: copyOfKind(t, kind, "foreign", "3"),
		bare: copyOfKind(t, kind, "web", "4"), stable: stableCopy(kind, "web"), unmarked: plainObject(kind, "other-0123456789"),
		plain: plainObject(kind, "plain"),
	}
	ownedBy("v1", "Node")(e.made)
	e.marks = quoted(t, map[string]any{
		"immutable": true, "metadata": map[string]any{"labels": e.foreign.meta.Labels, "annotations": e.foreign.meta.Annotations},
	})
	maps.DeleteFunc(e.lost.meta.Labels, func(key, _ string) bool { return key == copyOf })
	e.foreign.meta.Labels, e.foreign.meta.Annotations = nil, nil
	*e.unmarked.immutable = new(true)
	labels, annotations, err := e.bare.restore(api.Ref{Kind: kind, Name: "web"})
	if err != nil {
		t.Fatal(err)
	}
	e.restored = quoted(t, map[string]any{"metadata": map[string]any{"labels": labels, "annotations": annotations}})
	e.bare.meta.Labels = nil
	delete(e.bare.meta.Annotations, copies.SourceAnnotation)
	for _, w := range []*written{e.made, e.lost, e.bare, e.stable, e.foreign, e.unmarked, e.plain} {
		if err := by.cluster.Client().CoreV1().RESTClient().Post().Namespace(by.team).Resource(resource(kind)).Body(w.object).Do(t.Context()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	return e
}

// triesToChange are patches and deletions.
func (e *existing) triesToChange() []tryToChange {
	const others, form, noCopy = "may only change and delete its copies", "must be those of one source", "may only write copies"
	const labels, annotations = "its own labels", "its own annotations"
	made, stable, plain := e.made.meta.Name, e.stable.meta.Name, e.plain.meta.Name
	replicaSet := `{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "b"`
	digest := e.lost.meta.Annotations[copies.DigestAnnotation]
	source := strings.ToLower(string(e.made.kind)) + "/foreign"
	return []tryToChange{
		{what: "the content of another object", name: plain, patch: `{"data": {"a": "Mg=="}}`, want: others},
		{what: "a label of another object", name: plain, patch: metadata(`{"labels": {"a": "b"}}`), want: others},
		{what: "a finalizer of another object", name: plain, patch: metadata(`{"finalizers": ["a.b/c"]}`), want: others},
		{what: "an owner of another object", name: plain, patch: owners(replicaSet + "}"), want: others},
		{what: "another object becomes a stable copy", name: plain, patch: metadata(`{"labels": {%q: "plain"}}`, stableOf), want: others},
		{what: "another object becomes a copy", name: e.foreign.meta.Name, patch: e.marks, want: others},
		{what: "an immutable object becomes a copy", name: e.unmarked.meta.Name, patch: e.marks, want: others},
		{what: "a copy gets back its label", name: e.lost.meta.Name, patch: metadata(`{"labels": {%q: "web"}}`, copyOf)},
		{what: "a copy gets the label of another source", name: e.lost.meta.Name, patch: metadata(`{"labels": {%q: "foreign"}}`, copyOf), want: form},
		{what: "a copy without its label gets another label", name: e.lost.meta.Name, patch: metadata(`{"labels": {"team": "b"}}`), want: noCopy},
		{what: "a copy gets back all its marks", name: e.bare.meta.Name, patch: e.restored},
		{what: "a copy loses its label", name: made, patch: metadata(`{"labels": {%q: null}}`, copyOf), want: noCopy},
		{what: "a copy becomes a stable copy", name: made, patch: metadata(`{"labels": {%q: null, %q: "web"}}`, copyOf, stableOf), want: "must end in .stable"},
		{what: "the source of a copy", name: made, patch: metadata(`{"annotations": {%q: %q}}`, copies.SourceAnnotation, source), want: form},
		{what: "the digest of a copy", name: made, patch: metadata(`{"annotations": {%q: %q}}`, copies.DigestAnnotation, digest), want: form},
		{what: "the content of a copy", name: made, patch: `{"data": {"a": "Mg=="}}`, want: "field is immutable"},
		{what: "a copy is no longer immutable", name: made, patch: `{"immutable": null}`, want: "immutable"},
		{what: "a ReplicaSet becomes an owner of a copy", name: made, patch: owners(nodeAsOwner, replicaSet+"}")},
		{what: "a ReplicaSet becomes the controller of a copy", name: made, patch: owners(nodeAsOwner, replicaSet+`, "controller": true}`), want: "the owners of a copy"},
		{what: "a Pod becomes an owner of a copy", name: made, patch: owners(nodeAsOwner, `{"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "b"}`), want: "the owners of a copy"},
		{what: "a copy loses an owner that another program added", name: made, patch: owners(), want: "may remove no owner"},
		{what: "a listed label of a copy", name: made, patch: metadata(`{"labels": {"team": "b"}}`)},
		{what: "a copy loses a listed label", name: made, patch: metadata(`{"labels": {"team": null}, "annotations": {%q: "example.org/b"}}`, copies.CopiedLabels)},
		{what: "a listed annotation of a copy", name: made, patch: metadata(`{"annotations": {"note": "d"}}`)},
		{what: "another label of a copy", name: made, patch: metadata(`{"labels": {"a": "b"}}`), want: labels},
		{what: "another annotation of a copy", name: made, patch: metadata(`{"annotations": {"a": "b"}}`), want: annotations},
		{what: "a copy is managed by Helm", name: made, patch: metadata(`{"labels": {%q: "Helm"}}`, copies.ManagedByLabel), want: labels},
		{what: "a copy is managed by no program", name: made, patch: metadata(`{"labels": {%q: null}}`, copies.ManagedByLabel), want: labels},
		{what: "a finalizer of a copy", name: made, patch: metadata(`{"finalizers": ["a.b/c"]}`), want: "finalizers"},
		{what: "the content of a stable copy", name: stable, patch: `{"data": {"a": "Mg=="}}`},
		{what: "a stable copy becomes immutable", name: stable, patch: `{"immutable": true}`, want: "may not make a stable copy immutable"},
		{what: "the exposure of a stable copy", name: stable, patch: metadata(`{"annotations": {"liveconfig.internal/exposure": "b"}}`)},
		{what: "another annotation of a stable copy", name: stable, patch: metadata(`{"annotations": {"a": "b"}}`), want: annotations},
		{what: "another label of a stable copy", name: stable, patch: metadata(`{"labels": {"a": "b"}}`), want: labels},
		{what: "an owner of a stable copy", name: stable, patch: owners(replicaSet + "}"), want: "the owners of a copy"},
		{what: "a finalizer of a stable copy", name: stable, patch: metadata(`{"finalizers": ["a.b/c"]}`), want: "finalizers"},
		{what: "a stable copy loses its label", name: stable, patch: metadata(`{"labels": {%q: null}}`, stableOf), want: noCopy},
		{what: "a stable copy gets the label of another source", name: stable, patch: metadata(`{"labels": {%q: "foreign"}}`, stableOf), want: form},
		{what: "delete a copy", name: made},
		{what: "delete a stable copy", name: stable},
		{what: "delete a copy, and its dependents before it", name: made, options: `"propagationPolicy": "Foreground"`},
		{what: "delete another object", name: plain, want: others},
		{what: "delete another object at once", name: plain, options: `"gracePeriodSeconds": 0`, want: others},
		{what: "delete another object with the name of a copy", name: e.foreign.meta.Name, want: others},
		{what: "delete a copy that has lost its label", name: e.lost.meta.Name, want: others},
	}
}

// change tries a patch or a deletion, in a dry run.
func (by *thief) change(t *testing.T, kind api.Kind, test tryToChange) error {
	t.Helper()
	to := by.client.CoreV1().RESTClient()
	if test.patch != "" {
		return to.Patch(types.MergePatchType).Namespace(by.team).Resource(resource(kind)).Name(test.name).Param("dryRun", "All").
			Body([]byte(test.patch)).Do(t.Context()).Error()
	}
	options := `{"apiVersion": "v1", "kind": "DeleteOptions", "dryRun": ["All"]`
	if test.options != "" {
		options += ", " + test.options
	}
	return to.Delete().Namespace(by.team).Resource(resource(kind)).Name(test.name).SetHeader("Content-Type", "application/json").
		Body([]byte(options + "}")).Do(t.Context()).Error()
}
