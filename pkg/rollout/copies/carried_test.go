package copies_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/liveconfig-csi/liveconfig/pkg/rollout/copies"
)

// listing returns the source foo with lists of what copies are to have.
func listing(labels, annotations string) map[string]string {
	return map[string]string{
		copies.CopiedLabels: labels, copies.CopiedAnnotations: annotations,
		"example.com/owner": "team-a", "argocd.argoproj.io/tracking-id": "shop",
	}
}

// TestCopiesCarryWhatTheSourceLists: rules that go by labels and annotations hold for copies as they do for their source.
func TestCopiesCarryWhatTheSourceLists(t *testing.T) {
	t.Parallel()
	source := secret()
	source.Labels = map[string]string{"policy.example.com/class": "restricted", "tier": "db", "app": "web"}
	source.Annotations = listing(" tier,policy.example.com/class,,missing", "example.com/owner")
	made := secretCopy(t, source)
	wantLabels := map[string]string{
		copies.Label: "tls", copies.ManagedByLabel: copies.ManagedBy, "policy.example.com/class": "restricted", "tier": "db",
	}
	if diff := cmp.Diff(wantLabels, made.Labels); diff != "" {
		t.Errorf("labels of the copy (-want +got)\n%s", diff)
	}
	if made.Annotations["example.com/owner"] != "team-a" || made.Annotations["argocd.argoproj.io/tracking-id"] != "" {
		t.Errorf("annotations of the copy = %v, want example.com/owner and none of Argo CD", made.Annotations)
	}
	has, err := copies.CarriedBy(made)
	if err != nil {
		t.Fatal(err)
	}
	want, err := copies.CarriedBy(source)
	if err != nil {
		t.Fatal(err)
	}
	if !has.IsEqual(want) {
		t.Errorf("a new copy carries %v, and its source has it carry %v", has, want)
	}
	if name := secretCopy(t, secret()).Name; made.Name != name {
		t.Errorf("the copy is called %s, and %s without labels: it is the same content", made.Name, name)
	}
}

// TestListsThatCannotBe: what a copy has for itself, what names nothing and what is too much is refused, so that no copy
// is made without a label that its source's owner wants it to have.
func TestListsThatCannotBe(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ labels, annotations, want string }{
		"a label of the controller":         {labels: "tier," + copies.Label, want: "liveconfig.internal/copy-of cannot be copied, take it off the list"},
		"the label of the managing program": {labels: copies.ManagedByLabel, want: "cannot be copied"},
		"the manifest that kubectl keeps":   {annotations: "kubectl.kubernetes.io/last-applied-configuration", want: "cannot be copied"},
		"a list that lists itself":          {annotations: copies.CopiedLabels, want: "cannot be copied"},
		"no name":                           {labels: "tier=db", want: `annotation liveconfig.internal/copied-labels: "tier=db" is not the name`},
		"a list that is too long":           {labels: strings.Repeat("a,", 4<<10), want: "8192 bytes, more than 4096"},
		"too much":                          {annotations: "example.com/owner", want: "more than the 4096 that copies can have"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source := configMap()
			source.Annotations = listing(tt.labels, tt.annotations)
			source.Annotations["example.com/owner"] = strings.Repeat("x", 4<<10)
			made, err := copies.OfConfigMap(source)
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "configmap/foo: ") {
				t.Errorf("OfConfigMap = %v, %v, want an error about configmap/foo with %q", made, err, tt.want)
			}
		})
	}
}

// TestPatchOfWhatIsCarried removes what the source does not list any more, and leaves alone what others wrote on the copy.
func TestPatchOfWhatIsCarried(t *testing.T) {
	t.Parallel()
	before := copies.Carried{Labels: map[string]string{"tier": "db", "app": "web"}, Annotations: map[string]string{"example.com/owner": "a"}}
	now := copies.Carried{Labels: map[string]string{"tier": "cache", "class": "x"}}
	labels, annotations := now.Patch(before)
	if diff := cmp.Diff(map[string]any{"tier": "cache", "class": "x", "app": nil}, labels); diff != "" {
		t.Errorf("labels (-want +got)\n%s", diff)
	}
	want := map[string]any{"example.com/owner": nil, copies.CopiedLabels: "class,tier", copies.CopiedAnnotations: nil}
	if diff := cmp.Diff(want, annotations); diff != "" {
		t.Errorf("annotations (-want +got)\n%s", diff)
	}
}
