package deploy

import (
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	releases "github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/copies"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
)

// The marks of copies, as JSON patches have them.
const (
	copyOf      = copies.Label
	stableOf    = releases.StableLabel
	carriesNone = "labels and annotations of its source"
)

// copyOfSecret returns the copy of a Secret as the controller makes it. Its source has a label and an annotation that copies get.
func copyOfSecret(t *testing.T, source, content string) *corev1.Secret {
	t.Helper()
	made, err := copies.OfSecret(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: source, UID: "a", ResourceVersion: "1", Labels: map[string]string{"team": "a", "example.org/b": ""},
			Annotations: map[string]string{
				copies.CopiedLabels: "team, example.org/b", copies.CopiedAnnotations: "note", "note": "c",
			},
		},
		Data: map[string][]byte{"a": []byte(content)},
	})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// stableCopy returns the stable copy of a Secret as the controller makes it.
func stableCopy(source string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: source + releases.Suffix, Labels: map[string]string{stableOf: releases.LabelOf(source)}, Annotations: map[string]string{},
		},
		Data: map[string][]byte{"a": []byte("1")},
	}
}

// ownedBy returns a change of an object that gives it an owner.
func ownedBy(version, kind string, isController ...bool) func(*corev1.Secret) {
	return func(s *corev1.Secret) {
		owner := metav1.OwnerReference{APIVersion: version, Kind: kind, Name: "web", UID: "a"}
		for _, is := range isController {
			owner.Controller = &is
		}
		s.OwnerReferences = []metav1.OwnerReference{owner}
	}
}

func named(name string) func(*corev1.Secret) { return func(s *corev1.Secret) { s.Name = name } }

func typed(of corev1.SecretType) func(*corev1.Secret) { return func(s *corev1.Secret) { s.Type = of } }

func labelled(key, value string) func(*corev1.Secret) {
	return func(s *corev1.Secret) { s.Labels[key] = value }
}

func annotated(key, value string) func(*corev1.Secret) {
	return func(s *corev1.Secret) { s.Annotations[key] = value }
}

// listed is a label or annotation that the object claims to have from its source.
func listed(key, value string) func(*corev1.Secret) {
	return func(s *corev1.Secret) {
		s.Labels[key], s.Annotations[copies.CopiedLabels] = value, s.Annotations[copies.CopiedLabels]+","+key
	}
}

func serviceAccountToken(s *corev1.Secret) {
	s.Type = corev1.SecretTypeServiceAccountToken
	s.Annotations[corev1.ServiceAccountNameKey] = "default"
	s.Annotations[copies.CopiedAnnotations] += "," + corev1.ServiceAccountNameKey
}

func all(changes ...func(*corev1.Secret)) func(*corev1.Secret) {
	return func(s *corev1.Secret) {
		for _, change := range changes {
			change(s)
		}
	}
}

// try is what somebody could write who has the controller's token, and how the refusal reads: empty if there is none.
type try struct {
	change func(*corev1.Secret)
	want   string
}

// triesToCreate change a copy before it is created.
func triesToCreate() map[string]try {
	const form, labels, annotations = "must be those of one source", "its own labels", "its own annotations"
	return map[string]try{
		"a copy":                              {all(), ""},
		"owned by a ReplicaSet":               {ownedBy("apps/v1", "ReplicaSet"), ""},
		"owned by a Deployment":               {ownedBy("apps/v1", "Deployment"), ""},
		"controlled by a Deployment":          {ownedBy("apps/v1", "Deployment", true), "the owners of a copy"},
		"owned by a Node":                     {ownedBy("v1", "Node"), "the owners of a copy"},
		"owned by a foreign Deployment":       {ownedBy("example.org/v1", "Deployment"), "the owners of a copy"},
		"a finalizer":                         {func(s *corev1.Secret) { s.Finalizers = []string{"a.b/c"} }, "finalizers"},
		"one that can change":                 {func(s *corev1.Secret) { s.Immutable = nil }, "must be immutable"},
		"no marks":                            {func(s *corev1.Secret) { s.Labels, s.Annotations = nil, nil }, "may only write copies"},
		"no annotations":                      {func(s *corev1.Secret) { s.Annotations = nil }, form},
		"a name that means something":         {named("aws-auth"), form},
		"the name of the source":              {named("web"), form},
		"the name of another's copy":          {named("foreign-0123456789"), form},
		"other digits":                        {named("web-0123456789"), form},
		"no digits":                           {named("web-012345678x"), form},
		"the name of a stable copy":           {named("web.stable"), form},
		"another source":                      {annotated(copies.SourceAnnotation, "secret/foreign"), form},
		"a source of another kind":            {annotated(copies.SourceAnnotation, "configmap/web"), form},
		"no source":                           {annotated(copies.SourceAnnotation, "secret/"), form},
		"another label than the source":       {labelled(copyOf, "foreign"), form},
		"another digest":                      {annotated(copies.DigestAnnotation, "sha256:"+strings.Repeat("0", 64)), form},
		"a digest that is none":               {annotated(copies.DigestAnnotation, "web"), form},
		"a copy and stable":                   {labelled(stableOf, "web"), "may only write copies"},
		"managed by another":                  {labelled(copies.ManagedByLabel, "Helm"), "app.kubernetes.io/managed-by"},
		"managed by nobody":                   {func(s *corev1.Secret) { delete(s.Labels, copies.ManagedByLabel) }, "app.kubernetes.io/managed-by"},
		"a label of another controller":       {labelled("argocd.argoproj.io/secret-type", "cluster"), labels},
		"another label of its own domain":     {labelled("liveconfig.internal/volumes", "true"), labels},
		"that label in the list":              {listed("liveconfig.internal/volumes", "true"), labels},
		"an annotation of another controller": {annotated("example.org/a", "b"), annotations},
		"the annotation of a release":         {annotated(releases.Annotation, ""), annotations},
		"the annotation of a stable copy":     {annotated(releases.ExposureAnnotation, ""), annotations},
		"too long a list":                     {annotated(copies.CopiedLabels, strings.Repeat("team,example.org/b,", 500)), carriesNone},
		"too much from its source":            {annotated("note", strings.Repeat("ä", 2100)), carriesNone},
		"a token of a service account":        {serviceAccountToken, "may not write tokens"},
		"a token of a node":                   {typed(corev1.SecretTypeBootstrapToken), "may not write tokens of nodes"},
		"a release of Helm":                   {typed("helm.sh/release.v1"), "releases of Helm"},
		// CEL does not see the source. SECURITY.md says so.
		"a listed label that the source lacks": {listed("example.org/a", "b"), ""},
	}
}

// triesToCreateStable change a stable copy before it is created.
func triesToCreateStable() map[string]try {
	const form, owner = "must be those of one source", "the owners of a copy"
	return map[string]try{
		"a stable copy":                {all(), ""},
		"the name of a source":         {named("web"), "must end in .stable"},
		"the name of another's":        {named("foreign.stable"), form},
		"another source":               {labelled(stableOf, "foreign"), form},
		"another label":                {labelled("example.org/a", "b"), "its own labels"},
		"a listed label":               {listed("example.org/a", "b"), "its own labels"},
		"another annotation":           {annotated("example.org/a", "b"), "its own annotations"},
		"the annotation of a release":  {annotated(releases.Annotation, ""), "its own annotations"},
		"its own annotation":           {annotated(releases.ExposureAnnotation, ""), ""},
		"an owner":                     {ownedBy("apps/v1", "ReplicaSet"), owner},
		"a finalizer":                  {func(s *corev1.Secret) { s.Finalizers = []string{"a.b/c"} }, "finalizers"},
		"a token of a node":            {typed(corev1.SecretTypeBootstrapToken), "may not write tokens of nodes"},
		"a release of Helm":            {typed("helm.sh/release.v1"), "releases of Helm"},
		"the name of a token":          {all(named("bootstrap-token-a.stable"), labelled(stableOf, "bootstrap-token-a")), "named like tokens"},
		"the name of a Helm's release": {all(named("sh.helm.release.v1.stable"), labelled(stableOf, "sh.helm.release.v1")), "named like tokens"},
	}
}

// TestTheControllerMayCreateNothingButCopies tries what somebody could who has the controller's token.
func TestTheControllerMayCreateNothingButCopies(t *testing.T) {
	t.Parallel()
	by := newThief(t)
	create := func(namespace string, s *corev1.Secret) error {
		options := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
		_, err := by.client.CoreV1().Secrets(namespace).Create(t.Context(), s, options)
		return err
	}
	awaitPolicy(t, func() error { return create(by.team, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "probe"}}) })
	long := strings.Repeat("a", 240) + "." + strings.Repeat("b", 10)
	for what, s := range map[string]*corev1.Secret{
		"a long name":                           copyOfSecret(t, long, "1"),
		"a name that is cut before a dot":       copyOfSecret(t, strings.Repeat("a", 51)+"."+strings.Repeat("b", 189)+"."+long[240:], "1"),
		"a name as long as is not cut":          copyOfSecret(t, strings.Repeat("a", 242), "1"),
		"a long label":                          copyOfSecret(t, strings.Repeat("a", 64), "1"),
		"a long name of a stable copy":          stableCopy(long[:releases.MostName]),
		"a stable copy that is cut at a hyphen": stableCopy(strings.Repeat("a", 51) + "-" + strings.Repeat("b", 90)),
	} {
		if err := create(by.team, s); err != nil {
			t.Errorf("to create an object with %s = %v", what, err)
		}
	}
	for name, test := range triesToCreate() {
		s := copyOfSecret(t, "web", "1")
		test.change(s)
		wantTry(t, "create a copy with: "+name, create(by.team, s), test.want)
	}
	for name, test := range triesToCreateStable() {
		s := stableCopy("web")
		test.change(s)
		wantTry(t, "create a stable copy with: "+name, create(by.team, s), test.want)
	}
	token := copyOfSecret(t, "web", "1")
	token.Name, token.Type = "bootstrap-token-abcdef", corev1.SecretTypeBootstrapToken
	wantTry(t, "create a token of a node", create(metav1.NamespaceSystem, token), "ValidatingAdmissionPolicy")
}

func wantTry(t *testing.T, what string, err error, want string) {
	t.Helper()
	if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("to %s = %v, want %q", what, err, want)
	}
}

func owners(all ...string) string {
	return `{"metadata": {"ownerReferences": [` + strings.Join(all, ", ") + `]}}`
}

// TestTheControllerMayChangeNothingButCopies tries what somebody could who has the controller's token.
func TestTheControllerMayChangeNothingButCopies(t *testing.T) {
	t.Parallel()
	by := newThief(t)
	admin, thief := by.cluster.Client().CoreV1().Secrets(by.team), by.client.CoreV1().Secrets(by.team)
	immutable := true
	made, lost, foreign := copyOfSecret(t, "web", "1"), copyOfSecret(t, "web", "2"), copyOfSecret(t, "foreign", "3")
	ownedBy("v1", "Node")(made)
	marks := quoted(t, map[string]any{"immutable": true, "metadata": map[string]any{"labels": foreign.Labels, "annotations": foreign.Annotations}})
	digits := lost.Annotations[copies.DigestAnnotation]
	maps.DeleteFunc(lost.Labels, func(key, _ string) bool { return key == copyOf })
	foreign.Labels, foreign.Annotations = nil, nil
	bare := copyOfSecret(t, "web", "4")
	labels, annotations, err := copies.Restore(bare, trigger.Object{Kind: api.Secret, Name: "web"})
	if err != nil {
		t.Fatal(err)
	}
	restored := quoted(t, map[string]any{"metadata": map[string]any{"labels": labels, "annotations": annotations}})
	bare.Labels = nil
	delete(bare.Annotations, copies.SourceAnnotation)
	node := `{"apiVersion": "v1", "kind": "Node", "name": "web", "uid": "a"}`
	unmarked := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "unmarked"}, Data: made.Data}
	unmarked.Name, unmarked.Immutable = "other-0123456789", &immutable
	plain := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "plain"}, Data: made.Data}
	for _, s := range []*corev1.Secret{made, lost, bare, foreign, unmarked, plain, stableCopy("web")} {
		if _, err := admin.Create(t.Context(), s, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	patch := func(name, patch string) error {
		_, err := thief.Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	awaitPolicy(t, func() error { return patch("plain", `{"data": {"a": "Mg=="}}`) })
	const others = "may only change and delete its copies"
	tests := map[string]struct{ name, patch, want string }{
		"change a foreign one":                 {"plain", `{"data": {"a": "Mg=="}}`, others},
		"label a foreign one":                  {"plain", `{"metadata": {"labels": {"a": "b"}}}`, others},
		"take a foreign one for a stable copy": {"plain", `{"metadata": {"labels": {"liveconfig.internal/stable-of": "plain"}}}`, others},
		"take a foreign one for a copy":        {foreign.Name, marks, others},
		"take an immutable one for a copy":     {unmarked.Name, marks, others},
		"give a label back":                    {lost.Name, `{"metadata": {"labels": {"liveconfig.internal/copy-of": "web"}}}`, ""},
		"give another label back":              {lost.Name, `{"metadata": {"labels": {"liveconfig.internal/copy-of": "foreign"}}}`, "must be those of one source"},
		"give no label back":                   {lost.Name, `{"metadata": {"labels": {"team": "b"}}}`, "may only write copies"},
		"take the label away":                  {made.Name, `{"metadata": {"labels": {"liveconfig.internal/copy-of": null}}}`, "may only write copies"},
		"make a copy stable": {
			made.Name, `{"metadata": {"labels": {"liveconfig.internal/copy-of": null, "liveconfig.internal/stable-of": "web"}}}`, "must end in .stable",
		},
		"say it is another's copy":     {made.Name, `{"metadata": {"annotations": {"liveconfig.internal/source": "secret/foreign"}}}`, "must be those of one source"},
		"write the digest again":       {made.Name, `{"metadata": {"annotations": {"liveconfig.internal/digest": "` + digits + `"}}}`, "must be those of one source"},
		"give all marks back":          {bare.Name, restored, ""},
		"add a revision that needs it": {made.Name, owners(node, `{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "b"}`), ""},
		"add another owner":            {made.Name, owners(node, `{"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "b"}`), "the owners of a copy"},
		"follow a label":               {made.Name, `{"metadata": {"labels": {"team": "b"}}}`, ""},
		"take a listed label away":     {made.Name, `{"metadata": {"labels": {"team": null}, "annotations": {"liveconfig.internal/copied-labels": "example.org/b"}}}`, ""},
		"follow an annotation":         {made.Name, `{"metadata": {"annotations": {"note": "d"}}}`, ""},
		"add another label":            {made.Name, `{"metadata": {"labels": {"a": "b"}}}`, "its own labels"},
		"add another annotation":       {made.Name, `{"metadata": {"annotations": {"a": "b"}}}`, "its own annotations"},
		"say Helm manages it":          {made.Name, `{"metadata": {"labels": {"app.kubernetes.io/managed-by": "Helm"}}}`, "its own labels"},
		"add a finalizer":              {made.Name, `{"metadata": {"finalizers": ["a.b/c"]}}`, "finalizers"},
		"take somebody's owner away":   {made.Name, `{"metadata": {"ownerReferences": []}}`, "may remove no owner"},
		"change a stable copy":         {"web.stable", `{"data": {"a": "Mg=="}}`, ""},
		"annotate a stable copy":       {"web.stable", `{"metadata": {"annotations": {"liveconfig.internal/exposure": "b"}}}`, ""},
		"annotate it as another does":  {"web.stable", `{"metadata": {"annotations": {"a": "b"}}}`, "its own annotations"},
		"make it stay":                 {"web.stable", `{"metadata": {"finalizers": ["a.b/c"]}}`, "finalizers"},
		"unlabel a stable copy":        {"web.stable", `{"metadata": {"labels": {"liveconfig.internal/stable-of": null}}}`, "may only write copies"},
		"make it another's":            {"web.stable", `{"metadata": {"labels": {"liveconfig.internal/stable-of": "foreign"}}}`, "must be those of one source"},
	}
	for name, test := range tests {
		wantTry(t, name, patch(test.name, test.patch), test.want)
	}
	remove := func(name string) error { return thief.Delete(t.Context(), name, metav1.DeleteOptions{}) }
	wantTry(t, "delete a foreign one", remove("plain"), others)
	wantTry(t, "delete a stable copy", remove("web.stable"), "")
	wantTry(t, "delete a copy", remove(made.Name), "")
	if _, err := admin.Update(t.Context(), plain, metav1.UpdateOptions{}); err != nil {
		t.Errorf("an administrator changes a Secret: %v", err)
	}
}
