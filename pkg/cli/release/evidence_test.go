package release

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/liveconfig-csi/liveconfig/pkg/api/statusz"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/session"
	"github.com/liveconfig-csi/liveconfig/pkg/nodes"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
)

const (
	oldVersion, newVersion = "7", "8"
	testDriver             = "csi.example"
)

// scene is an edit of configmap/web that some pods have.
type scene struct {
	annotation string
	state      release.State
	since      time.Duration // How long the step has lasted.
	shown      []string      // Names of pods, which are their UIDs.
	pods       []*corev1.Pod
	// versions are in the files of pods, by name. The driver of a pod that is not in it cannot be asked.
	versions map[string]string
}

// ReportsOf implements [reporter].
func (s scene) ReportsOf(_ context.Context, on []string, namespace string) map[string]nodes.Answer {
	answers := map[string]nodes.Answer{}
	for _, node := range on {
		a := nodes.Answer{Report: statusz.Report{Recovered: true}, Err: &nodes.Unavailable{Node: node, Why: "it is gone", Type: "kubectl get pods"}}
		for name, version := range s.versions {
			if "of-"+name != node {
				continue
			}
			a.Err = nil
			a.Report.Volumes = append(a.Report.Volumes, statusz.Volume{
				Pod: statusz.Pod{Namespace: namespace, Name: name, UID: name}, Name: "config", State: statusz.Live,
				Sources: []statusz.Source{{
					Kind: "ConfigMap", Namespace: namespace, Name: "web", Known: &statusz.Version{UID: "u", ResourceVersion: newVersion},
					Projected: &statusz.Version{UID: "u", ResourceVersion: version}, Release: &statusz.Release{IsShown: true},
				}},
			})
		}
		answers[node] = a
	}
	return answers
}

// webPod is a pod on a node that is named like it.
func webPod(name string, ready corev1.ConditionStatus) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, UID: types.UID(name)}}
	p.Spec.NodeName = "of-" + name
	p.Spec.Volumes = []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{
		Driver: testDriver, ReadOnly: new(true), VolumeAttributes: map[string]string{"configMap": "web"},
	}}}}
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
	return p
}

// status returns a command that looks at the scene, and what it prints.
func (s scene) status() (o *status, client *fake.Clientset, out, remarks *bytes.Buffer) {
	source := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "n", Name: "web", UID: "u", ResourceVersion: newVersion, Annotations: map[string]string{release.Annotation: s.annotation},
		},
		Data: map[string]string{"a": "2"},
	}
	e := release.Exposure{
		Digest: release.Digest(map[string][]byte{"a": []byte("2")}), Pods: s.shown, State: s.state, Step: 1, Since: time.Now().Add(-s.since),
	}
	stable := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "n", Name: "web.stable", Labels: map[string]string{release.StableLabel: "web"},
			Annotations: map[string]string{release.ExposureAnnotation: e.String()},
		},
		Data: map[string]string{"a": "1"},
	}
	objects := []runtime.Object{source, stable}
	for _, p := range s.pods {
		objects = append(objects, p)
	}
	flags, namespace := genericclioptions.NewConfigFlags(false), "n"
	flags.Namespace = &namespace
	out, remarks = &bytes.Buffer{}, &bytes.Buffer{}
	o = &status{timeout: time.Minute, drivers: &drivers{s, map[string]answer{}}, target: target{Session: &session.Session{
		ConfigFlags: flags, IOStreams: genericiooptions.IOStreams{Out: out, ErrOut: remarks},
	}}}
	o.driver.Driver = testDriver
	return o, fake.NewClientset(objects...), out, remarks
}

// TestEvidence: a step shows how many pods have the edit in their files and are Ready, and which ones hold it up.
func TestEvidence(t *testing.T) {
	t.Parallel()
	pods := []*corev1.Pod{webPod("a", corev1.ConditionTrue), webPod("b", corev1.ConditionTrue), webPod("c", corev1.ConditionFalse), webPod("d", corev1.ConditionTrue)}
	three := []string{"a", "b", "c"}
	for name, tc := range map[string]struct {
		scene
		row, holders, remark string
	}{
		"all have it": {
			scene{annotation: "{}", state: release.Progressing, shown: three, pods: pods, versions: map[string]string{"a": "8", "b": "9", "c": "8"}},
			"3/4 3/3 2/3", "", "",
		},
		"one lacks it": {
			scene{annotation: "{}", state: release.Waiting, shown: three, pods: pods, versions: map[string]string{"a": "8", "b": "7", "c": "7"}},
			"3/4 1/3 2/3", "b: its node is about to write it", "",
		},
		"all of them count if readiness does not": {
			scene{annotation: "check: none", state: release.Progressing, shown: three, pods: pods, versions: map[string]string{"a": "8", "b": "8", "c": "7"}},
			"3/4 2/3 2/3", "c: its node is about to write it", "",
		},
		"none is Ready": {
			scene{annotation: "{}", state: release.Waiting, shown: []string{"c"}, pods: pods, versions: map[string]string{"c": "8"}},
			"1/4 1/1 0/1", "c: it is not Ready", "",
		},
		"a driver does not answer": {
			scene{annotation: "{}", state: release.Waiting, shown: three, pods: pods, versions: map[string]string{"a": "8", "c": "8"}},
			"3/4 2/3 2/3", "b: the driver of its node cannot be asked: it is gone", "is not known of node of-b: the driver cannot be asked: it is gone; see kubectl get pods",
		},
		"no driver answers": {
			scene{annotation: "evidence: none", state: release.Progressing, shown: three, pods: pods},
			"3/4 ? 2/3", "", "is not known of nodes of-a, of-b, of-c: ",
		},
		"a frozen edit holds nothing up": {
			scene{annotation: "{}", state: release.Frozen, shown: three, pods: pods, versions: map[string]string{"a": "8", "b": "7", "c": "7"}},
			"3/4 1/3 2/3", "", "",
		},
		"no pod has it": {scene{annotation: "{}", state: release.Refused, pods: pods}, "0/4  ", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, client, _, remarks := tc.status()
			views, err := o.views(t.Context(), client, []string{"configmap/web"})
			if err != nil {
				t.Fatal(err)
			}
			v := views[0]
			if row := podsOf(v) + " " + filesOf(v) + " " + readyOf(v); row != tc.row {
				t.Errorf("the row is %q, want %q", row, tc.row)
			}
			var holders []string
			for _, h := range v.WaitsFor {
				holders = append(holders, h.Pod+": "+h.Reason)
			}
			if got := strings.Join(holders, "; "); got != tc.holders {
				t.Errorf("the step waits for %q, want %q", got, tc.holders)
			}
			o.remarkUnasked(views)
			o.remarkUnasked(views)
			if got := remarks.String(); strings.Count(got, tc.remark) != 1 && tc.remark != "" || tc.remark == "" && got != "" {
				t.Errorf("the remarks are %q, want %q once", got, tc.remark)
			}
		})
	}
}

// TestFewDriversAreAsked of a large step, and each once for a while.
func TestFewDriversAreAsked(t *testing.T) {
	t.Parallel()
	s := scene{annotation: "{}", state: release.Progressing, versions: map[string]string{}}
	for i := range 50 {
		name := fmt.Sprintf("p%02d", i)
		s.pods, s.shown, s.versions[name] = append(s.pods, webPod(name, corev1.ConditionTrue)), append(s.shown, name), "8"
	}
	o, client, _, _ := s.status()
	counted := &counter{reporter: s}
	o.drivers.reporter = counted
	for range 3 {
		views, err := o.views(t.Context(), client, []string{"configmap/web"})
		if err != nil {
			t.Fatal(err)
		}
		if v := views[0]; filesOf(v) != "20/20" || readyOf(v) != "50/50" || counted.asked != 20 {
			t.Fatalf("%s have it in their files, %s are Ready, %d drivers were asked; want 20/20, 50/50, 20", filesOf(v), readyOf(v), counted.asked)
		}
	}
}

type counter struct {
	reporter

	asked int
}

func (c *counter) ReportsOf(ctx context.Context, on []string, namespace string) map[string]nodes.Answer {
	c.asked += len(on)
	return c.reporter.ReportsOf(ctx, on, namespace)
}

// TestWatchNamesPods that hold a step up, a few of them, after they had time to get the edit.
func TestWatchNamesPods(t *testing.T) {
	t.Parallel()
	late := scene{annotation: "pause: 1s", state: release.Waiting, since: time.Minute, versions: map[string]string{}}
	for i := range 8 {
		name := fmt.Sprintf("p%d", i)
		late.pods, late.shown, late.versions[name] = append(late.pods, webPod(name, corev1.ConditionTrue)), append(late.shown, name), "7"
	}
	early := late
	early.since = -time.Hour // The clock of the controller is ahead.
	for name, tc := range map[string]struct {
		scene
		timeout time.Duration
		want    string
	}{
		"late":  {late, time.Second, "8/8 pods  0/8 files  8/8 Ready\n  waits for pod p0 on node of-p0: its node is about to write it\n"},
		"early": {early, time.Second, ""},
		"later": {early, 3 * time.Second, "8/8 pods  0/8 files  8/8 Ready\n  waits for pod p0 on node of-p0: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, client, out, _ := tc.status()
			o.timeout = tc.timeout
			err := o.follow(t.Context(), client, "configmap/web")
			if err == nil || err.Error() != fmt.Sprintf("configmap/web is Waiting after %s", tc.timeout) {
				t.Errorf("the error is %v", err)
			}
			if got := out.String(); got != "" && tc.want == "" || !strings.Contains(got, tc.want) || strings.Count(got, "waits for") > 5 || strings.Contains(got, "and for 3 more") != (tc.want != "") {
				t.Errorf("it prints %q, want %q", got, tc.want)
			}
		})
	}
}

// TestInterrupted: the error of a command that a person ends does not name the time limit.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	s := scene{annotation: "{}", state: release.Progressing, shown: []string{"a"}, pods: []*corev1.Pod{webPod("a", corev1.ConditionTrue)}, versions: map[string]string{"a": "8"}}
	o, client, out, _ := s.status()
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(200*time.Millisecond, func() { cancel(errors.New("interrupt signal received")) })
	err := o.follow(ctx, client, "configmap/web")
	if err == nil || err.Error() != "interrupted: configmap/web is Progressing" {
		t.Errorf("the error is %v", err)
	}
	if !strings.Contains(out.String(), "1/1 pods  1/1 files  1/1 Ready  for 30s\n") {
		t.Errorf("it prints %q", out.String())
	}
	ended, cancelNow := context.WithCancel(t.Context())
	cancelNow()
	if err := o.follow(ended, client, "configmap/web"); err == nil || err.Error() != "look at configmap/web: interrupted" {
		t.Errorf("the error is %v", err)
	}
}
