package deploy

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	releases "github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/copies"
)

// The marks of copies, as JSON patches have them.
const (
	copyOf      = copies.Label
	stableOf    = releases.StableLabel
	carriesNone = "labels and annotations of its source"
)

// A try is something that the controller never writes, or a write of its own for comparison.
type try struct {
	// what is tried, as docs/security/checks.md shows it.
	what   string
	change func(*written)
	// want is a part of the error; empty if the request is to succeed.
	want string
	// ofSecrets is true for what a ConfigMap has not.
	ofSecrets bool
}

func named(name string) func(*written) { return func(w *written) { w.meta.Name = name } }

func typed(of corev1.SecretType) func(*written) { return func(w *written) { w.secret.Type = of } }

func labelled(key, value string) func(*written) {
	return func(w *written) { w.meta.Labels[key] = value }
}

func annotated(key, value string) func(*written) {
	return func(w *written) { w.meta.Annotations[key] = value }
}

// listed is a label that the object claims to have from its source.
func listed(key, value string) func(*written) {
	return func(w *written) {
		w.meta.Labels[key], w.meta.Annotations[copies.CopiedLabels] = value, w.meta.Annotations[copies.CopiedLabels]+","+key
	}
}

// listedAnnotation is the same for an annotation.
func listedAnnotation(key, value string) func(*written) {
	return func(w *written) {
		w.meta.Annotations[key] = value
		w.meta.Annotations[copies.CopiedAnnotations] += "," + key
	}
}

// ownedBy returns a change of an object that gives it an owner.
func ownedBy(version, kind string, change ...func(*metav1.OwnerReference)) func(*written) {
	return func(w *written) {
		owner := metav1.OwnerReference{APIVersion: version, Kind: kind, Name: "web", UID: "a"}
		for _, change := range change {
			change(&owner)
		}
		w.meta.OwnerReferences = []metav1.OwnerReference{owner}
	}
}

func controls(o *metav1.OwnerReference) { o.Controller = new(true) }

func blocks(o *metav1.OwnerReference) { o.BlockOwnerDeletion = new(true) }

func finalized(w *written) { w.meta.Finalizers = []string{"a.b/c"} }

func all(changes ...func(*written)) func(*written) {
	return func(w *written) {
		for _, change := range changes {
			change(w)
		}
	}
}

// sourceOf returns a change of the annotation that names the source: of the same kind if that is empty.
func sourceOf(kind, name string) func(*written) {
	return func(w *written) {
		if kind == "" {
			kind = strings.ToLower(string(w.kind))
		}
		w.meta.Annotations[copies.SourceAnnotation] = kind + "/" + name
	}
}

func otherKind(w *written) {
	other := map[api.Kind]string{api.ConfigMap: "secret", api.Secret: "configmap"}[w.kind]
	sourceOf(other, "web")(w)
}

// triesToCreate change a copy before it is created.
func triesToCreate() []try {
	const form, labels, annotations, owner = "must be those of one source", "its own labels", "its own annotations", "the owners of a copy"
	return []try{
		{what: "a copy as the controller makes it", change: all()},
		{what: "owned by a ReplicaSet", change: ownedBy("apps/v1", "ReplicaSet")},
		{what: "owned by a Deployment", change: ownedBy("apps/v1", "Deployment")},
		{what: "controlled by a Deployment", change: ownedBy("apps/v1", "Deployment", controls), want: owner},
		{what: "an owner whose deletion waits for it", change: ownedBy("apps/v1", "Deployment", blocks), want: owner},
		{what: "owned by a Node", change: ownedBy("v1", "Node"), want: owner},
		{what: "owned by a Deployment of another API group", change: ownedBy("example.org/v1", "Deployment"), want: owner},
		{what: "a finalizer", change: finalized, want: "finalizers"},
		{what: "not immutable", change: func(w *written) { *w.immutable = nil }, want: "must be immutable"},
		{what: "no labels and annotations", change: func(w *written) { w.meta.Labels, w.meta.Annotations = nil, nil }, want: "may only write copies"},
		{what: "no annotations", change: func(w *written) { w.meta.Annotations = nil }, want: form},
		{what: "a name that another program trusts", change: named("aws-auth"), want: form},
		{what: "a name that the API server makes", change: func(w *written) { w.meta.Name, w.meta.GenerateName = "", "web-" }, want: form},
		{what: "the name of the source", change: named("web"), want: form},
		{what: "the name of a copy of another source", change: named("foreign-0123456789"), want: form},
		{what: "another hash in the name", change: named("web-0123456789"), want: form},
		{what: "no hash in the name", change: named("web-012345678x"), want: form},
		{what: "the name of a stable copy", change: named("web.stable"), want: form},
		{what: "another source", change: sourceOf("", "foreign"), want: form},
		{what: "a source of the other kind", change: otherKind, want: form},
		{what: "no source", change: sourceOf("", ""), want: form},
		{what: "another source in the label", change: labelled(copyOf, "foreign"), want: form},
		{what: "another digest", change: annotated(copies.DigestAnnotation, "sha256:"+strings.Repeat("0", 64)), want: form},
		{what: "a digest without a hash", change: annotated(copies.DigestAnnotation, "web"), want: form},
		{what: "the labels of a copy and of a stable copy", change: labelled(stableOf, "web"), want: "may only write copies"},
		{what: "managed by another program", change: labelled(copies.ManagedByLabel, "Helm"), want: "app.kubernetes.io/managed-by"},
		{what: "managed by no program", change: func(w *written) { delete(w.meta.Labels, copies.ManagedByLabel) }, want: "app.kubernetes.io/managed-by"},
		{what: "a label of another controller", change: labelled("argocd.argoproj.io/secret-type", "cluster"), want: labels},
		{what: "another label of liveconfig", change: labelled("liveconfig.internal/volumes", "true"), want: labels},
		{what: "another label of liveconfig, listed", change: listed("liveconfig.internal/volumes", "true"), want: labels},
		{what: "an annotation of another controller", change: annotated("example.org/a", "b"), want: annotations},
		{what: "what kubectl applied, listed", change: listedAnnotation(corev1.LastAppliedConfigAnnotation, "{}"), want: annotations},
		{what: "the annotation of a release", change: annotated(releases.Annotation, ""), want: annotations},
		{what: "the annotation of a release, listed", change: listedAnnotation(releases.Annotation, ""), want: annotations},
		{what: "the annotation of a stable copy", change: annotated(releases.ExposureAnnotation, ""), want: annotations},
		{what: "a list of labels that is too long", change: annotated(copies.CopiedLabels, strings.Repeat("team,example.org/b,", 500)), want: carriesNone},
		{what: "too much from its source", change: annotated("note", strings.Repeat("ä", 2100)), want: carriesNone},
		{what: "a token of a service account", want: "may not write tokens", ofSecrets: true, change: all(
			typed(corev1.SecretTypeServiceAccountToken), listedAnnotation(corev1.ServiceAccountNameKey, "default"))},
		{what: "a token of a node", change: typed(corev1.SecretTypeBootstrapToken), want: "may not write tokens of nodes", ofSecrets: true},
		{what: "a release of Helm", change: typed("helm.sh/release.v1"), want: "releases of Helm", ofSecrets: true},
		// CEL does not see the source. docs/security/controller.md describes it.
		{what: "a listed label that the source does not have", change: listed("example.org/a", "b")},
		{what: "a listed annotation that the source does not have", change: listedAnnotation("example.org/a", "b")},
		{what: "other content than the digest says", change: func(w *written) { w.setData("b") }},
	}
}

// triesToCreateStable change a stable copy before it is created.
func triesToCreateStable() []try {
	const form, owner = "must be those of one source", "the owners of a copy"
	return []try{
		{what: "a stable copy as the controller makes it", change: all()},
		{what: "the name of a source", change: named("web"), want: "must end in .stable"},
		{what: "immutable", change: func(w *written) { *w.immutable = new(true) }, want: "may not make a stable copy immutable"},
		{what: "the name of a stable copy of another source", change: named("foreign.stable"), want: form},
		{what: "another source in the label", change: labelled(stableOf, "foreign"), want: form},
		{what: "another label", change: labelled("example.org/a", "b"), want: "its own labels"},
		{what: "another label, listed", change: listed("example.org/a", "b"), want: "its own labels"},
		{what: "managed by another program", change: labelled(copies.ManagedByLabel, "Helm"), want: "its own labels"},
		{what: "another annotation", change: annotated("example.org/a", "b"), want: "its own annotations"},
		{what: "the annotation of a release", change: annotated(releases.Annotation, ""), want: "its own annotations"},
		{what: "the annotation of the exposure", change: annotated(releases.ExposureAnnotation, "")},
		{what: "an owner", change: ownedBy("apps/v1", "ReplicaSet"), want: owner},
		{what: "a finalizer", change: finalized, want: "finalizers"},
		{what: "a token of a node", change: typed(corev1.SecretTypeBootstrapToken), want: "may not write tokens of nodes", ofSecrets: true},
		{what: "a release of Helm", change: typed("helm.sh/release.v1"), want: "releases of Helm", ofSecrets: true},
		{what: "the name of a token of a node", change: all(named("bootstrap-token-a.stable"), labelled(stableOf, "bootstrap-token-a")), want: "named like tokens"},
		{what: "the name of a release of Helm", change: all(named("sh.helm.release.v1.stable"), labelled(stableOf, "sh.helm.release.v1")), want: "named like tokens"},
	}
}

// triesToCreateFormer change an object that keeps former contents before it is created.
func triesToCreateFormer() []try {
	const form = "must be those of one source"
	return []try{
		{what: "former contents as the controller keeps them", change: annotated(releases.FormerAnnotation, "{}")},
		{what: "the name of a source", change: named("web"), want: "in .former"},
		{what: "the name of a stable copy", change: named("web.stable"), want: "in .former"},
		{what: "the name of those of another source", change: named("foreign.former"), want: form},
		{what: "another source in the label", change: labelled(releases.FormerLabel, "foreign"), want: form},
		{what: "the label of a stable copy too", change: labelled(stableOf, "web"), want: "may only write copies"},
		{what: "immutable", change: func(w *written) { *w.immutable = new(true) }, want: "immutable"},
		{what: "another label", change: labelled("example.org/a", "b"), want: "its own labels"},
		{what: "another annotation", change: annotated("example.org/a", "b"), want: "its own annotations"},
		{what: "an owner", change: ownedBy("apps/v1", "ReplicaSet"), want: "the owners of a copy"},
		{what: "a token of a node", change: typed(corev1.SecretTypeBootstrapToken), want: "may not write tokens of nodes", ofSecrets: true},
	}
}
