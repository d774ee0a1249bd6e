package rollout

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/copies"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
)

// triggered is a manifest of a Deployment that is triggered by a list, makes variables of all that it has, and needs none.
func triggered(name, list string) string {
	manifest, _, _ := strings.Cut(deployment(name), "        volumeMounts:")
	manifest = strings.Replace(manifest, "configmap/foo}", fmt.Sprintf("%q}", list), 1) + "        envFrom:\n"
	for source := range strings.SplitSeq(list, ",") {
		kind, name, _ := strings.Cut(source, "/")
		ref := map[string]string{"configmap": "configMapRef", "secret": "secretRef"}[kind]
		manifest += fmt.Sprintf("        - {%s: {name: %s, optional: true}}\n", ref, name)
	}
	return manifest
}

// configMapNow returns a ConfigMap as it is now.
func (s *site) configMapNow(name string) *corev1.ConfigMap {
	s.t.Helper()
	o, err := s.client.CoreV1().ConfigMaps(s.namespace).Get(s.t.Context(), name, metav1.GetOptions{})
	expect.NoError(s.t, err)
	return o
}

// copyUIDs returns the UIDs of the copies of ConfigMaps that there are, by name.
func (s *site) copyUIDs() map[string]string {
	s.t.Helper()
	list, err := s.client.CoreV1().ConfigMaps(s.namespace).List(s.t.Context(), metav1.ListOptions{LabelSelector: copies.Label})
	expect.NoError(s.t, err)
	found := map[string]string{}
	for _, o := range list.Items {
		found[o.Name] = string(o.UID)
	}
	return found
}

// makeCopyable creates objects whose copies differ: a ConfigMap that two tools manage, and Secrets of all sorts. It
// returns the list that names them.
func (s *site) makeCopyable() string {
	s.t.Helper()
	core, list := s.client.CoreV1(), []string{"configmap/managed"}
	_, err := core.ConfigMaps(s.namespace).Create(s.t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Name: "managed", Finalizers: []string{"example.test/keep"},
			Labels:      map[string]string{"app.kubernetes.io/managed-by": "Helm", "app": "managed"},
			Annotations: map[string]string{"argocd.argoproj.io/tracking-id": "x", "meta.helm.sh/release-name": "y"},
		},
		Data: map[string]string{"text": "ä\n", "empty": ""}, BinaryData: map[string][]byte{"bytes": {0xff, 0x00}},
	}, metav1.CreateOptions{})
	expect.NoError(s.t, err)
	for kind, data := range map[corev1.SecretType]map[string][]byte{
		corev1.SecretTypeOpaque:           {"any": {0}},
		corev1.SecretTypeTLS:              {"tls.crt": {}, "tls.key": {}},
		corev1.SecretTypeDockerConfigJson: {".dockerconfigjson": []byte(`{"auths":{}}`)},
		corev1.SecretTypeBasicAuth:        {"username": []byte("u")},
		"example.test/own":                nil,
	} {
		name := strings.NewReplacer("/", "-", "kubernetes.io", "k").Replace(strings.ToLower(string(kind)))
		list = append(list, "secret/"+name)
		_, err := core.Secrets(s.namespace).Create(s.t.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}}, Type: kind, Data: data,
		}, metav1.CreateOptions{})
		expect.NoError(s.t, err)
	}
	return strings.Join(list, ",")
}

// TestCopiesAreWhatTheirSourcesAre has copies of ConfigMaps and of Secrets of all types, made for a workload that needs
// none of them: their content and type is the source's, their metadata their own, and nobody can change them.
//
// Fault 35.
func TestCopiesAreWhatTheirSourcesAre(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	list := s.makeCopyable()
	s.apply(triggered("web", list))
	config := s.follows("web", strings.Split(list, ",")...)
	if got := s.madeSince(2); got != "" {
		t.Error(got)
	}
	for o, name := range config {
		s.checkCopy(o, name)
	}

	secret := api.Ref{Kind: api.Secret, Name: "opaque"}
	s.kubectl("patch", "secret", "opaque", "--patch", `{"stringData": {"any": "more"}}`)
	if s.follows("web", strings.Split(list, ",")...)[secret] == config[secret] {
		t.Errorf("the edit of %s did not change its copy", secret)
	}
	s.kubectl("patch", "configmap", "managed", "--type=json", "--patch", `[{"op": "remove", "path": "/metadata/finalizers"}]`)
}

// checkCopy compares a copy with its source.
func (s *site) checkCopy(o api.Ref, name string) {
	s.t.Helper()
	var source, made metav1.Object
	var immutable *bool
	var err error
	if o.Kind == api.Secret {
		before, _ := s.client.CoreV1().Secrets(s.namespace).Get(s.t.Context(), o.Name, metav1.GetOptions{})
		after, problem := s.client.CoreV1().Secrets(s.namespace).Get(s.t.Context(), name, metav1.GetOptions{})
		source, made, immutable, err = before, after, after.Immutable, problem
		if before.Type != after.Type {
			s.t.Errorf("the copy of %s is of type %s, want %s", o, after.Type, before.Type)
		}
	} else {
		after, problem := s.client.CoreV1().ConfigMaps(s.namespace).Get(s.t.Context(), name, metav1.GetOptions{})
		source, made, immutable, err = s.configMapNow(o.Name), after, after.Immutable, problem
	}
	expect.NoError(s.t, err)
	if immutable == nil || !*immutable {
		s.t.Errorf("the copy of %s is not immutable", o)
	}
	annotations := made.GetAnnotations()
	want := map[string]string{
		copies.SourceAnnotation: o.String(), copies.SourceUIDAnnotation: string(source.GetUID()),
		copies.SourceResourceVersionAnnotation: source.GetResourceVersion(),
		copies.DigestAnnotation:                annotations[copies.DigestAnnotation], copies.NoteAnnotation: annotations[copies.NoteAnnotation],
	}
	if diff := cmp.Diff(want, annotations); diff != "" || !strings.Contains(annotations[copies.NoteAnnotation], "edit "+o.String()) {
		s.t.Errorf("the annotations of the copy of %s (-want +got):\n%s", o, diff)
	}
	labels := map[string]string{copies.Label: o.Name, copies.ManagedByLabel: copies.ManagedBy}
	if diff := cmp.Diff(labels, made.GetLabels()); diff != "" {
		s.t.Errorf("the labels of the copy of %s (-want +got):\n%s", o, diff)
	}
	if got := made.GetFinalizers(); len(got) > 0 {
		s.t.Errorf("the copy of %s has the finalizers %v", o, got)
	}
	digits := strings.TrimPrefix(annotations[copies.DigestAnnotation], "sha256:")
	if len(digits) != 64 || made.GetName() != o.Name+"-"+digits[:10] {
		s.t.Errorf("the copy of %s of digest %q has the name %s", o, digits, made.GetName())
	}
}

// TestSameContentIsSameCopy has an edit back to what was there before use the copy that is still there from then.
//
// Fault 35.
func TestSameContentIsSameCopy(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.putConfigMap("foo", "one")
	s.apply(deployment("web"))
	first := s.follows("web", "configmap/foo")
	before := s.copyUIDs()
	s.putConfigMap("foo", "two")
	s.follows("web", "configmap/foo")
	s.kubectl("label", "configmap/foo", "seen=yes")
	s.putConfigMap("foo", "one")
	if diff := cmp.Diff(first, s.follows("web", "configmap/foo")); diff != "" {
		t.Errorf("after the edit back the config is (-before +now):\n%s", diff)
	}
	after := s.copyUIDs()
	for name, uid := range before {
		if after[name] != uid {
			t.Errorf("the copy %s is another object now", name)
		}
	}
	if got := s.madeSince(3); got != "" || len(after) != 2 {
		t.Errorf("there are the copies %v, want 2; %s", after, got)
	}
}

// TestLargeAndLongSources has sources copied that are as large, or have as long a name, as can be, and one whose own
// annotations are as large as its content.
//
// Fault 35.
func TestLargeAndLongSources(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	long := strings.Repeat("a", 250) + ".b"
	for _, o := range []*corev1.ConfigMap{
		{ObjectMeta: metav1.ObjectMeta{Name: "large"}, Data: map[string]string{"config": strings.Repeat("x", 1<<20-16)}},
		{ObjectMeta: metav1.ObjectMeta{Name: "binary"}, BinaryData: map[string][]byte{"config": make([]byte, 1<<20)}},
		{ObjectMeta: metav1.ObjectMeta{Name: long + "c"}, Data: map[string]string{"config": "x"}},
		{ObjectMeta: metav1.ObjectMeta{Name: long + "d"}, Data: map[string]string{"config": "x"}},
	} {
		if _, err := s.client.CoreV1().ConfigMaps(s.namespace).Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	random := rand.Text() // One that no earlier copy has.
	s.putConfigMap("applied", strings.Repeat(random[:16], 15000))
	sources := []string{"configmap/applied", "configmap/binary", "configmap/large", "configmap/" + long + "c", "configmap/" + long + "d"}
	s.apply(triggered("web", strings.Join(sources, ",")))
	config := s.follows("web", sources...)
	names := map[string]bool{}
	for o, name := range config {
		names[name] = true
		if made := s.configMapNow(name); len(made.Annotations) != 5 {
			t.Errorf("the copy of %.20s has the annotations %v", o, made.Annotations)
		}
	}
	if len(names) != len(sources) {
		t.Errorf("the copies are %v, want one for each source", names)
	}
}

// TestWhatCannotBeCopied makes a change wait, with a reason, when its copy cannot be made: a token of a service account, and a
// name that somebody else's object has, which stays as it is.
//
// Fault 35.
func TestWhatCannotBeCopied(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.apply("apiVersion: v1\nkind: Secret\nmetadata: {name: token, annotations: {kubernetes.io/service-account.name: default}}\n" +
		"type: kubernetes.io/service-account-token\n")
	s.apply(triggered("token", "secret/token"))
	s.event("Deployment/token", rollout.ReasonHeldBack, "projected serviceAccountToken")

	s.putConfigMap("foo", "one")
	s.apply(deployment("web"))
	first := s.follows("web", "configmap/foo")
	two := fixture.ConfigMap("foo", map[string]string{"config": "two"})
	copied, err := copies.OfConfigMap(two)
	expect.NoError(t, err)
	taken := copied.Name
	s.putConfigMap(taken, "mine")
	mine := s.configMapNow(taken)
	s.putConfigMap("foo", "two")
	s.event("Deployment/web", rollout.ReasonHeldBack, taken+" is not the copy that should have this name")
	if diff := cmp.Diff(mine, s.configMapNow(taken)); diff != "" {
		t.Errorf("the object of somebody else (-before +after):\n%s", diff)
	}
	if got := s.deployment("web").Spec.Template.Annotations[trigger.ConfigAnnotation]; got != first.String() {
		t.Errorf("the template has %s, want %s", got, first)
	}
	s.putConfigMap("foo", "three")
	s.follows("web", "configmap/foo")
	if got := s.deployment("token"); got.Generation != 1 || got.Labels[trigger.RolloutLabel] != "" {
		t.Errorf("the Deployment that is triggered by a token was written: %v", got.ManagedFields)
	}
}

// TestDeletedCopiesAreMadeAgain has a copy that somebody deletes come back as it was if its source still has the content,
// without any new revision. Otherwise its users get an Event, and it comes back with the content.
func TestDeletedCopiesAreMadeAgain(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.putConfigMap("foo", "one")
	s.apply(deployment("web"))
	foo := api.Ref{Kind: api.ConfigMap, Name: "foo"}
	first := s.follows("web", "configmap/foo")[foo]
	s.ownedByRevisions(first, 1)
	before := s.configMapNow(first)
	s.remade(before, func() { s.kubectl("delete", "configmap", first) })

	s.putConfigMap("foo", "two")
	second := s.follows("web", "configmap/foo")[foo]
	s.kubectl("delete", "configmap", first)
	s.event("Deployment/web", rollout.ReasonCopyGone, first)
	s.kubectl("rollout", "pause", "deployment/web")
	s.remade(before, func() { s.putConfigMap("foo", "one") }) // An old ReplicaSet needs it.
	s.kubectl("delete", "configmap", second)
	s.event("Deployment/web", rollout.ReasonCopyGone, second)
	s.kubectl("rollout", "resume", "deployment/web")
	s.follows("web", "configmap/foo")
	if got := s.madeSince(3); got != "" {
		t.Error(got)
	}
}

// TestLostLabelsComeBack takes the label from copies, by which the controller and others know them. The controller knows a copy by
// its name and content, and puts the label back. It reports nothing about deleted copies, and one that is really deleted meanwhile
// is made again.
//
// Fault 35.
func TestLostLabelsComeBack(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.putConfigMap("foo", "one")
	s.apply(deployment("web"))
	first := s.follows("web", "configmap/foo")[fooMap]
	s.putConfigMap("foo", "two")
	second := s.follows("web", "configmap/foo")[fooMap]
	for _, name := range []string{first, second} { // The source has the content of the second one only.
		s.ownedByRevisions(name, 1)
		before := s.configMapNow(name)
		s.kubectl("label", "configmap", name, copies.Label+"-", copies.ManagedByLabel+"-")
		s.asBefore(before)
		s.kubectl("annotate", "configmap", name, copies.SourceAnnotation+"-") // The label is there, and has too little.
		s.asBefore(before)
		s.kubectl("label", "configmap", name, copies.Label+"-", copies.ManagedByLabel+"-")
		s.kubectl("annotate", "configmap", name, copies.SourceAnnotation+"-") // Before or after the label is back.
		s.asBefore(before)
		if after := s.configMapNow(name); after.UID != before.UID {
			t.Errorf("the copy %s is another object now", name)
		}
	}
	before := s.configMapNow(second)
	s.remade(before, func() {
		s.kubectl("label", "configmap", second, copies.Label+"-")
		s.kubectl("delete", "configmap", second)
	})
	for _, e := range s.events("Deployment/web") {
		if e.Reason == rollout.ReasonCopyGone {
			t.Errorf("an Event says: %s", e.Message)
		}
	}
}

// asBefore waits until a copy has the labels and annotations that it had.
func (s *site) asBefore(before *corev1.ConfigMap) {
	s.t.Helper()
	s.eventually(func() error {
		after := s.configMapNow(before.Name)
		return errorOf(cmp.Diff(before.Labels, after.Labels) + cmp.Diff(before.Annotations, after.Annotations))
	})
}

// errorOf makes an error of a difference, if there is one.
func errorOf(diff string) error {
	if diff == "" {
		return nil
	}
	return errors.New(diff)
}

// remade does something, and waits until a copy is there again with the content and owners that it had.
func (s *site) remade(before *corev1.ConfigMap, do func()) {
	s.t.Helper()
	do()
	s.eventually(func() error {
		after, err := s.client.CoreV1().ConfigMaps(s.namespace).Get(s.t.Context(), before.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && after.UID == before.UID {
			return fmt.Errorf("%s was not made again", before.Name)
		}
		if err != nil {
			return err
		}
		if diff := cmp.Diff(before.Data, after.Data) + cmp.Diff(before.OwnerReferences, after.OwnerReferences); diff != "" {
			return fmt.Errorf("%s was made as another (-before +after):\n%s", before.Name, diff)
		}
		return nil
	})
}
