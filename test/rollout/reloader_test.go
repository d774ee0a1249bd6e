package rollout

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/liveconfig-csi/liveconfig/pkg/rollout"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
)

// asReloaderReads is manifest for a workload whose only annotations are these of Reloader.
func asReloaderReads(kind, annotations string, replaced ...string) string {
	return manifest(kind, "web", append([]string{"liveconfig.internal/triggered-by: configmap/foo", annotations}, replaced...)...)
}

const autoReload = `reloader.stakater.com/auto: "true"`

// reads returns a site whose controller reads annotations of Reloader.
func reads(t *testing.T) *site {
	t.Helper()
	return newSite(t, "--compat-reloader")
}

// wantConfig waits until the config of a workload has copies or versions of exactly these sources.
func (s *site) wantConfig(ref string, sources ...string) {
	s.t.Helper()
	s.eventually(func() error {
		_, template := s.see(ref)
		config, err := trigger.ParseConfig(template.Annotations[trigger.ConfigAnnotation])
		if got := trigger.Format(config.Objects()); err != nil || got != strings.Join(sources, ",") {
			return fmt.Errorf("the config of %s is about %q (%w), want %s", ref, got, err, sources)
		}
		return nil
	})
	s.settled("web")
}

// TestReloaderAnnotationsMakeRevisions: an edit is a revision with a copy, and an undo brings the config back, where Reloader
// would bring an old template with the new config.
func TestReloaderAnnotationsMakeRevisions(t *testing.T) {
	t.Parallel()
	for kind, annotations := range map[string]string{
		"deployment": autoReload, "statefulset": "configmap.reloader.stakater.com/reload: foo", "daemonset": `configmap.reloader.stakater.com/reload: "f[o]+"`,
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s, ref := reads(t), kind+"/web"
			first := s.story(ref, asReloaderReads(kind, annotations), "one", "two")[0]
			before := s.past(ref)
			s.undoes(ref)
			if got := s.mounted(ref); got != first {
				t.Fatalf("after the undo the pods mount %s, want %s", got, first)
			}
			s.wantRevisions(ref, before, 0)
			s.unmoved(ref, "a restart", s.restart)
			s.edit("foo", "three")
			s.reached(ref, foo("three"))
		})
	}
}

// TestReloaderAutoIsWhatTheTemplateUses: environment variables, volumes of Kubernetes and volumes of the driver, and what an
// edit adds to the template.
func TestReloaderAutoIsWhatTheTemplateUses(t *testing.T) {
	t.Parallel()
	s, ref := reads(t), "deployment/web"
	for _, name := range []string{"foo", "all", "one", "driven", "later"} {
		s.putConfigMap(name, "1")
	}
	s.key("1")
	const mount = "        volumeMounts:"
	uses := "        envFrom: [{configMapRef: {name: all}}]\n        env: [{name: ONE, valueFrom: {configMapKeyRef: {name: one, key: config}}}," +
		" {name: KEY, valueFrom: {secretKeyRef: {name: key, key: config}}}]\n" + mount
	text := asReloaderReads("deployment", autoReload, mount, uses) +
		"      - name: driven\n        csi: {driver: csi.liveconfig.internal, readOnly: true, volumeAttributes: {configMap: driven}}\n"
	s.apply(text)
	s.wantConfig(ref, "configmap/all", "configmap/driven", "configmap/foo", "configmap/one", "secret/key")
	for _, name := range []string{"all", "driven", "one"} {
		s.edit(name, "2")
		s.turned(ref, map[string]string{"configmap/" + name: "2"})
	}
	s.settled("web")

	s.apply(strings.Replace(text, "{configMapRef: {name: all}}", "{configMapRef: {name: later}}", 1))
	s.wantConfig(ref, "configmap/driven", "configmap/foo", "configmap/later", "configmap/one", "secret/key")
	s.edit("later", "2")
	s.rolledOut("web", map[string]string{"configmap/later": "2"})
	s.unmoved(ref, "an edit of what the template has stopped to use", func() { s.edit("all", "3") })
}

// TestReloaderMarksOfSources: the annotations of a source count when they are written and when they change.
func TestReloaderMarksOfSources(t *testing.T) {
	t.Parallel()
	s, ref := reads(t), "deployment/web"
	s.putConfigMap("foo", "1")
	s.putConfigMap("other", "1")
	s.kubectl("annotate", "configmap/other", "reloader.stakater.com/ignore=true")
	const mount = "        volumeMounts:"
	s.apply(asReloaderReads("deployment", autoReload, mount, "        envFrom: [{configMapRef: {name: other}}]\n"+mount))
	s.wantConfig(ref, "configmap/foo")
	s.unmoved(ref, "an edit of a source that is to be ignored", func() { s.edit("other", "2") })
	s.kubectl("annotate", "configmap/other", "reloader.stakater.com/ignore-")
	s.wantConfig(ref, "configmap/foo", "configmap/other")

	s.kubectl("annotate", ref, "reloader.stakater.com/auto-", "reloader.stakater.com/search=true")
	s.eventually(func() error {
		if _, template := s.see(ref); template.Annotations[trigger.ConfigAnnotation] != "" {
			return fmt.Errorf("no source has a mark, and the template has the config %s", template.Annotations[trigger.ConfigAnnotation])
		}
		return nil
	})
	s.event("Deployment/web", rollout.ReasonOptedOut, "uses the sources themselves again")
	s.kubectl("annotate", "configmap/foo", "reloader.stakater.com/match=true")
	s.wantConfig(ref, "configmap/foo")
	s.edit("foo", "2")
	s.rolledOut("web", foo("2"))
	s.unmoved(ref, "an edit of a source without a mark", func() { s.edit("other", "3") })
}

// TestReloaderMistakes: an Event has the mistake, the template stays, and the project's own annotation goes first.
func TestReloaderMistakes(t *testing.T) {
	t.Parallel()
	s, ref := reads(t), "deployment/web"
	s.story(ref, asReloaderReads("deployment", autoReload), "one")
	s.kubectl("annotate", ref, "configmap.reloader.stakater.com/reload=fo(")
	s.event("Deployment/web", rollout.ReasonHeldBack, `"fo(" is neither a name nor a regular expression`)
	s.unmoved(ref, "an edit beside a mistake", func() { s.edit("foo", "two") })
	s.kubectl("annotate", "--overwrite", ref, "configmap.reloader.stakater.com/reload=fooo")
	s.event("Deployment/web", rollout.ReasonHeldBack, "did you mean configmap/foo? kubectl annotate --overwrite deployment/web liveconfig.internal/triggered-by=configmap/foo")
	s.kubectl("annotate", ref, "liveconfig.internal/triggered-by=configmap/foo")
	s.rolledOut("web", foo("two"))
}

// TestReloaderIsNotReadByDefault: a controller without the flag leaves the workloads of Reloader alone.
func TestReloaderIsNotReadByDefault(t *testing.T) {
	t.Parallel()
	s, ref := newSite(t), "deployment/web"
	s.putConfigMap("foo", "one")
	s.apply(asReloaderReads("deployment", autoReload+", configmap.reloader.stakater.com/reload: foo"))
	s.kubectl("rollout", "status", ref, "--timeout="+soon.String())
	s.unmoved(ref, "an edit", func() { s.edit("foo", "two") })
	if got := s.mounted(ref); got != "foo" {
		t.Errorf("the pods mount %s, want foo", got)
	}
}

// TestReloaderIsNoLongerRead: without the flag, the pods go back to the objects themselves, which Reloader looks for.
func TestReloaderIsNoLongerRead(t *testing.T) {
	t.Parallel()
	s, ref := reads(t), "deployment/web"
	s.story(ref, asReloaderReads("deployment", autoReload), "one")
	s.stop()
	s.args = slices.DeleteFunc(s.args, func(arg string) bool { return arg == "--compat-reloader" })
	s.start()
	s.event("Deployment/web", rollout.ReasonOptedOut, "uses the sources themselves again")
	if got := s.mounted(ref); got != "foo" {
		t.Errorf("the pods mount %s, want foo", got)
	}
}

// TestReloaderIsReplaced: a manifest with the project's annotation in the place of those of Reloader is no rollout.
func TestReloaderIsReplaced(t *testing.T) {
	t.Parallel()
	s, ref := reads(t), "deployment/web"
	copied := s.story(ref, asReloaderReads("deployment", autoReload), "one")[0]
	s.kubectl("annotate", ref, "liveconfig.internal/triggered-by=configmap/foo", "reloader.stakater.com/auto-")
	s.unmoved(ref, "the other annotation", func() {})
	s.edit("foo", "two")
	if got := s.rolledOut("web", foo("two"))["configmap/foo"]; got == copied {
		t.Errorf("after the edit the copy is still %s", got)
	}
}
