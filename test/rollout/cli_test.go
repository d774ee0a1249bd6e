package rollout

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/liveconfig-csi/liveconfig/pkg/rollout"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
)

// pluginProgram returns the plugin, and a kubeconfig of a cluster administrator.
func pluginProgram(t testing.TB, c *cluster.Cluster) (binary, kubeconfig string) {
	t.Helper()
	kubeconfig = filepath.Join(t.TempDir(), "admin")
	expect.NoError(t, c.WriteAdminKubeconfig(kubeconfig))
	return environment.Plugin(t), kubeconfig
}

// plugin runs the plugin in the site's namespace and returns what it prints.
func (s *site) plugin(args ...string) (stdout, stderr string, err error) {
	s.t.Helper()
	binary, kubeconfig := pluginProgram(s.t, s.c)
	var out, errOut bytes.Buffer
	command := exec.CommandContext(s.t.Context(), binary, append([]string{"--kubeconfig=" + kubeconfig, "--namespace=" + s.namespace}, args...)...)
	command.Stdout, command.Stderr = &out, &errOut
	err = command.Run()
	return out.String(), errOut.String(), err
}

// does runs the plugin, and fails the test unless it works and prints each of these texts.
func (s *site) does(args []string, says ...string) string {
	s.t.Helper()
	out, errOut, err := s.plugin(args...)
	if err != nil {
		s.t.Fatalf("%q: %v\n%s", args, err, errOut)
	}
	s.hears(args, out+errOut, says...)
	return out
}

// refuses runs the plugin, and fails the test unless it ends with 1 and prints each of these texts.
func (s *site) refuses(args []string, says ...string) {
	s.t.Helper()
	out, errOut, err := s.plugin(args...)
	if err == nil || !strings.Contains(err.Error(), "exit status 1") || out != "" {
		s.t.Fatalf("%q ends with %v, want exit status 1 and no output:\n%s%s", args, err, out, errOut)
	}
	s.hears(args, errOut, says...)
}

func (s *site) hears(args []string, got string, says ...string) {
	s.t.Helper()
	for _, want := range says {
		if !strings.Contains(got, want) {
			s.t.Errorf("%q says nothing of %q:\n%s", args, want, got)
		}
	}
}

// recorded waits until an undo is recorded.
func (s *site) recorded(ref string) {
	s.t.Helper()
	s.eventually(func() error {
		if is := s.past(ref); !is.Undone {
			return fmt.Errorf("the undo of %s is not recorded: %+v", ref, is)
		}
		return nil
	})
}

// begin applies a manifest and starts the controller when each of its workloads has its first revision. A controller that runs
// may be faster than those of Kubernetes, so that the first revision has copies already.
func (s *site) begin(manifest string, refs ...string) {
	s.t.Helper()
	s.apply(manifest)
	for _, ref := range refs {
		s.kubectl("rollout", "status", ref, "--timeout="+soon.String())
		if meta, _ := s.see(ref); len(s.revisions(meta.UID)) != 1 {
			s.t.Fatalf("%s has the revisions %v before the controller runs, want one", ref, s.revisions(meta.UID))
		}
	}
	s.start()
}

// storyFromFirst is story for a site without a running controller, with begin: revision 1 has the source itself.
func (s *site) storyFromFirst(ref, manifest string, values ...string) []string {
	s.t.Helper()
	s.putConfigMap("foo", values[0])
	s.begin(manifest, ref)
	var copies []string
	for _, value := range values {
		s.edit("foo", value)
		copies = append(copies, s.reached(ref, foo(value))["configmap/foo"])
	}
	return copies
}

// listed is what history -o json prints for a workload.
type listed struct{ Revisions []listedRevision }

type listedRevision struct {
	Revision        int64
	Current, Undone bool
	Config          []struct{ Source, Copy, State string }
}

// listedOf returns the revisions that the plugin lists of a workload.
func (s *site) listedOf(ref string) []listedRevision {
	s.t.Helper()
	var list []listed
	if err := yaml.Unmarshal([]byte(s.does([]string{"rollout", "history", ref, "-o", "json"})), &list); err != nil || len(list) != 1 {
		s.t.Fatalf("the history of %s is of %d workloads: %v", ref, len(list), err)
	}
	return list[0].Revisions
}

// history returns what the plugin lists of a workload, revision by revision.
func (s *site) history(ref string) []string {
	s.t.Helper()
	var lines []string
	for _, r := range s.listedOf(ref) {
		line := fmt.Sprint(r.Revision)
		for name, is := range map[string]bool{" current": r.Current, " undone": r.Undone} {
			if is {
				line += name
			}
		}
		for _, config := range r.Config {
			line += " " + strings.Join(strings.Fields(config.Source+" "+config.Copy+" "+config.State), " ")
		}
		lines = append(lines, line)
	}
	return lines
}

// TestHistoryOfThePlugin: the history shows for each revision which copies it has, which is current and which was undone, and
// shows what an edit has changed.
func TestHistoryOfThePlugin(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"deployment", "statefulset", "daemonset"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s, ref := newIdleSite(t), kind+"/web"
			copies := s.storyFromFirst(ref, manifest(kind, "web"), "one\n", "two\n")
			revision := func(number, marks, copied string) string {
				return number + marks + " configmap/foo " + copied + " there"
			}
			want := []string{"1 configmap/foo itself", revision("2", "", copies[0]), revision("3", " current", copies[1])}
			if diff := cmp.Diff(want, s.history(ref)); diff != "" {
				t.Errorf("history (-want +got):\n%s", diff)
			}
			s.does([]string{"rollout", "history", ref, "--revision=3"},
				"revision 2", "-one\n+two\n", "configmap/"+copies[0]+"/config", "configmap/foo as "+copies[1], "Other changes:   <none>")

			s.does([]string{"rollout", "undo", ref, "--dry-run"}, "-two\n+one\n", "rolled back to revision 2 (client dry run)")
			if got := s.mounted(ref); got != copies[1] {
				t.Fatalf("after a dry run the pods mount %s, want %s", got, copies[1])
			}
			s.does([]string{"rollout", "undo", ref},
				kind+".apps/web rolled back to revision 2", "the config stays until somebody edits configmap/foo, which is rolled out")
			s.recorded(ref)
			s.reached(ref, foo("one\n"))
			s.unmoved(ref, "waiting after the undo", func() {})
			want = []string{"1 configmap/foo itself", revision("3", " undone", copies[1]), revision("4", " current", copies[0])}
			if diff := cmp.Diff(want, s.history(ref)); diff != "" {
				t.Errorf("history after the undo (-want +got):\n%s", diff)
			}

			s.does([]string{"rollout", "undo", ref}, "rolled back to revision 3", "nothing is undone any more")
			s.reached(ref, foo("two\n"))
			s.cleared(ref)
			s.does([]string{"rollout", "undo", ref, "--to-revision=5"}, "skipped rollback (current template already matches revision 5)")
		})
	}
}

// TestPluginUndoesAsKubectlDoes: of two workloads that are alike, the plugin takes one back, and kubectl the other. Then they
// are alike again.
func TestPluginUndoesAsKubectlDoes(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"deployment", "statefulset", "daemonset"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s, ours, theirs := newIdleSite(t), kind+"/ours", kind+"/their"
			s.putConfigMap("foo", "one")
			old, now := annotated("liveconfig.internal/while-failing: hold, kubernetes.io/change-cause: first")
			s.begin(manifest(kind, "ours", old, now)+"---\n"+manifest(kind, "their", old, now), ours, theirs)
			s.reached(ours, foo("one"))
			s.reached(theirs, foo("one"))
			s.edit("foo", "two")
			s.reached(ours, foo("two"))
			s.reached(theirs, foo("two"))
			for _, ref := range []string{ours, theirs} {
				s.kubectl("annotate", ref, "--overwrite", "kubernetes.io/change-cause=second", "note=mine")
			}
			if kind == "deployment" { // Its revisions have the annotations a moment later.
				s.eventually(func() error {
					if err := s.copiedToRevision("ours", "note"); err != nil {
						return err
					}
					return s.copiedToRevision("their", "note")
				})
			}
			s.does([]string{"rollout", "undo", ours, "--to-revision=2"})
			s.kubectl("rollout", "undo", theirs, "--to-revision=2")
			for _, ref := range []string{ours, theirs} {
				s.recorded(ref)
				s.reached(ref, foo("one"))
			}
			if diff := cmp.Diff(s.traits(theirs), s.traits(ours)); diff != "" {
				t.Errorf("an undo by the plugin leaves another workload than one by kubectl (-kubectl +plugin):\n%s", diff)
			}
		})
	}
}

// traits returns the parts of a workload that are equal for two that are alike.
func (s *site) traits(ref string) string {
	s.t.Helper()
	meta, template := s.see(ref)
	_, name, _ := strings.Cut(ref, "/")
	delete(meta.Annotations, "kubectl.kubernetes.io/last-applied-configuration")
	delete(meta.Annotations, trigger.UndoneAnnotation) // It has a time.
	text, err := yaml.Marshal([]any{meta.Annotations, meta.Labels, template, meta.Generation, len(s.revisions(meta.UID))})
	expect.NoError(s.t, err)
	return strings.ReplaceAll(string(text), "app: "+name, "app: NAME")
}

// TestPluginRefusesWhatIsLost: no undo goes to a revision whose copies are gone, unless its source can give them again or
// somebody insists.
func TestPluginRefusesWhatIsLost(t *testing.T) {
	t.Parallel()
	s, ref := newIdleSite(t), "deployment/web"
	copies := s.storyFromFirst(ref, deployment("web"), "one", "two", "three")
	s.kubectl("delete", "configmap", copies[1])
	s.event("Deployment/web", rollout.ReasonCopyGone, copies[1])
	before := s.past(ref)

	s.does([]string{"rollout", "history", ref}, copies[1]+" (gone)")
	s.does([]string{"rollout", "history", ref, "--revision=4"}, "cannot be shown: its copy "+copies[1]+" is gone")
	s.refuses([]string{"rollout", "undo", ref},
		"configmap/"+copies[1]+", its copy of configmap/foo, is gone", "Revisions to which it can go: 1, 2 (--to-revision)", "--force")
	if diff := cmp.Diff(before, s.past(ref)); diff != "" {
		t.Fatalf("the undo that was refused changed %s (-want +got):\n%s", ref, diff)
	}
	s.does([]string{"rollout", "undo", ref, "--force", "--dry-run=server"}, "pods of revision 3 cannot start", "(server dry run)")

	s.kubectl("create", "configmap", copies[1], "--from-literal=config=other")
	s.refuses([]string{"rollout", "undo", ref}, "is not the copy that should have this name")
	s.kubectl("delete", "configmap", copies[1])

	s.does([]string{"rollout", "undo", ref, "--to-revision=2"})
	s.recorded(ref)
	s.edit("foo", "two")
	s.reached(ref, foo("two"))
}

// TestPluginResumes: what waits after an undo or a pause is rolled out when the plugin resumes, and the plugin prints what that is.
func TestPluginResumes(t *testing.T) {
	t.Parallel()
	s, ref := newSite(t), "deployment/web"
	old, now := annotated("liveconfig.internal/after-undo: pause")
	s.story(ref, manifest("deployment", "web", old, now), "one", "two")
	s.does([]string{"rollout", "undo", ref}, "the config stays until kubectl liveconfig rollout resume deployment/web: edits of configmap/foo wait")
	s.recorded(ref)
	s.reached(ref, foo("one"))
	s.does([]string{"rollout", "resume", ref, "--dry-run"}, "nothing was edited since")
	s.unmoved(ref, "an edit while an undo holds it", func() { s.edit("foo", "three") })
	s.does([]string{"rollout", "resume", ref}, "deployment.apps/web resumed", "what was edited since is rolled out now")
	s.reached(ref, foo("three"))
	s.refuses([]string{"rollout", "resume", ref}, "there is nothing to resume")

	s.does([]string{"rollout", "pause", ref}, "deployment.apps/web paused", "until kubectl liveconfig rollout resume deployment/web")
	s.refuses([]string{"rollout", "pause", ref}, "it is paused already")
	s.unmoved(ref, "an edit while paused", func() { s.edit("foo", "four") })
	s.refuses([]string{"rollout", "undo", ref}, "it is paused", "kubectl liveconfig rollout resume deployment/web")
	s.does([]string{"rollout", "resume", ref}, "deployment/web is not paused any more")
	s.reached(ref, foo("four"))
}

// TestPluginUndoesWhileTheRolloutFails: a rollout that gets nowhere changes the workload's status all the time, and the undo
// reaches it all the same.
func TestPluginUndoesWhileTheRolloutFails(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"deployment", "statefulset", "daemonset"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s, ref, _ := failing(t, kind, "note: mine")
			is := s.listedOf(ref)
			s.does([]string{"rollout", "undo", ref}, fmt.Sprintf("rolled back to revision %d", is[len(is)-2].Revision))
			s.recorded(ref)
			s.replaceBad(kind)
			s.reached(ref, foo("one"))
		})
	}
}
