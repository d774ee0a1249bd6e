package describe

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/liveconfig-csi/liveconfig/pkg/api/statusz"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/observe"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/reloaders"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/versions"
)

// reloadingPod is a pod with a reloader of its volume.
func reloadingPod(name string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
	pod.Status.Phase = corev1.PodRunning
	pod.Spec.NodeName = "n1"
	pod.Spec.Volumes = []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{
		Driver: ours.Driver, ReadOnly: new(true), VolumeAttributes: map[string]string{"configMap": "app"},
	}}}}
	pod.Spec.Containers = []corev1.Container{{
		Name: "reload", Command: []string{"/liveconfig-reload", "--watch=/etc/app"},
		VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: "/etc/app"}},
	}}
	return pod
}

// describeReloads returns the page of pods whose reloaders answer so, by the pod.
func describeReloads(t *testing.T, pods []*corev1.Pod, answer func(w http.ResponseWriter, pod string)) (Description, string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, isOfPod := strings.CutPrefix(r.URL.Path, "/api/v1/namespaces/shop/pods/")
		name, isAsked := strings.CutSuffix(name, ":9533/proxy/statusz")
		if !isOfPod || !isAsked {
			t.Errorf("the API server is asked for %s", r.URL.Path)
		}
		answer(w, name)
	}))
	t.Cleanup(server.Close)
	asker, err := reloaders.New(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	d := &report{describer: newDescriber(&observe.Cluster{Driver: ours.Driver}, asker), observed: &observe.Workload{}}
	for i, pod := range pods {
		d.addPod(pod)
		d.Pods[i].State = versions.Current
		d.Pods[i].Volumes[0] = PodVolume{Name: "config", Reported: true, State: statusz.Live, Digest: "abc", ProjectedAt: noon.Add(-time.Hour)}
	}
	d.askReloaders(t.Context())
	return d.Description, (&page{now: noon, mostPods: shownPods}).format(d.Description)
}

// TestReloads shows what reloaders report, and what the reader does not know otherwise.
func TestReloads(t *testing.T) {
	t.Parallel()
	at := func(d time.Duration) string { return noon.Add(d).Format(time.RFC3339) }
	read := `"readAt":"` + at(-time.Hour) + `",`
	failing := read + `"failure":"POST http://127.0.0.1/reload: the answer is 400\u001b[2J","failedSince":"` + at(-time.Minute) + `"`
	for name, test := range map[string]struct{ answer, want string }{
		"it failed": {
			`{"content":2,"loaded":1,"failed":2,` + failing + `,"nextTry":"` + at(7*time.Second) + `"}`,
			"    reload by reload: failed, for 60s: content 2 (volume config, digest abc)\n" +
				`      Why: POST http://127.0.0.1/reload: the answer is 400\x1b[2J` + "\n" +
				"      Next: content 2 is tried again in 7s\n",
		},
		"it is being tried again":  {`{"content":2,"failed":2,` + failing + `,"nextTry":"` + at(-time.Second) + `"}`, "Next: content 2 is tried again now\n"},
		"by a clock that is wrong": {`{"content":2,"failed":2,` + failing + `,"nextTry":"` + at(240*time.Hour) + `"}`, "Next: content 2 is tried again in more than an hour\n"},
		"an older version":         {`{"content":2,"failed":2,` + failing + `}`, "Next: content 2 is tried again\n"},
		"a newer one is being tried": {
			`{"content":3,"loaded":1,"failed":2,` + failing + `}`,
			"    reload by reload: failed, for 60s: content 2; the newest is content 3 (volume config, digest abc)\n" +
				`      Why: POST http://127.0.0.1/reload: the answer is 400\x1b[2J` + "\n" +
				"      Next: content 3 is being tried\n",
		},
		"it succeeded": {
			`{` + read + `"content":2,"loaded":2,"successes":1,"lastSuccess":"` + at(-time.Minute) + `"}`,
			"    reload by reload: the program works with content 2 (volume config, digest abc), for 60s\n",
		},
		"nothing has changed": {`{` + read + `"content":1,"loaded":1}`, "reload by reload: no change since its start, content 1 (volume config, digest abc)\n"},
		"at work":             {`{` + read + `"content":2,"loaded":1}`, "reload by reload: the program is asked to read content 2 (volume config, digest abc)\n"},
		"the files are newer": {
			`{"readAt":"` + at(-time.Hour-time.Second) + `","content":1,"loaded":1}`,
			"reload by reload: no change since its start, content 1 (volume config, whose files have changed since)\n",
		},
		"an older version does not report when it has read": {`{"content":1,"loaded":1}`, "no change since its start, content 1 (volume config)\n"},
		"it begins": {`{"content":0,"loaded":0}`, "reload by reload: it has not read the files yet\n"},
	} {
		d, page := describeReloads(t, []*corev1.Pod{reloadingPod("web-0")}, func(w http.ResponseWriter, _ string) { _, _ = fmt.Fprint(w, test.answer) })
		if !strings.Contains(page, test.want) || strings.Contains(page, "Reloads:") || len(d.Unknown) > 0 {
			t.Errorf("%s: the page has not %q:\n%s", name, test.want, page)
		}
	}
}

func TestReloadsAsJSON(t *testing.T) {
	t.Parallel()
	d, _ := describeReloads(t, []*corev1.Pod{reloadingPod("web-0")}, func(w http.ResponseWriter, _ string) {
		_, _ = fmt.Fprint(w, `{"content":2,"loaded":1,"failed":2,"failure":"no","readAt":"2100-01-01T00:00:00Z"}`)
	})
	text, err := json.Marshal(d.Pods[0])
	const want = `"reloaders":[{"container":"reload","volume":"config","digest":"abc",` +
		`"result":{"content":2,"loaded":1,"failed":2,"failure":"no","readAt":"2100-01-01T00:00:00Z","successes":0,"failures":0}}]`
	if err != nil || !strings.Contains(string(text), want) {
		t.Errorf("the pod is %s, %v, want %s", text, err, want)
	}
}

// TestReloadsThatAreNotKnown are one entry with a command, however many pods they are of.
func TestReloadsThatAreNotKnown(t *testing.T) {
	t.Parallel()
	refuse := func(w http.ResponseWriter, pod string) {
		if pod == "web-0" {
			_, _ = fmt.Fprint(w, `{"content":1,"loaded":1}`)
			return
		}
		w.WriteHeader(http.StatusForbidden)
		_, _ = fmt.Fprint(w, `{"kind":"Status","code":403,"reason":"Forbidden","message":"no"}`)
	}
	d, page := describeReloads(t, []*corev1.Pod{reloadingPod("web-0"), reloadingPod("web-1"), reloadingPod("web-2")}, refuse)
	const why = "you may not ask it, which takes the verb get on pods/proxy in namespace shop"
	want := []Unknown{{
		What: "the last result of container reload of pods web-1, web-2", Why: why, Type: "kubectl -n shop logs web-1 -c reload",
	}}
	wantSame(t, "Unknown", want, d.Unknown)
	if got := d.Pods[1].Reloaders[0]; got.NotAsked != why || got.Result != nil {
		t.Errorf("the reloader = %+v, want why it was not asked", got)
	}
	if want := "Pods: 3 current\nReloads: 0 failed, 1 not failed, 2 not known\n"; !strings.Contains(page, want) {
		t.Errorf("the page has not %q:\n%s", want, page)
	}
	if _, page = describeReloads(t, []*corev1.Pod{reloadingPod("web-1")}, refuse); !strings.Contains(page, "    reload by reload: not known, see below\n") {
		t.Errorf("the page does not say that it is not known:\n%s", page)
	}
}

// TestPodsWhoseReloadFailed are shown although their files are current, and counted where there are many.
func TestPodsWhoseReloadFailed(t *testing.T) {
	t.Parallel()
	var pods []*corev1.Pod
	for i := range 9 {
		pods = append(pods, reloadingPod(fmt.Sprintf("web-%d", i)))
	}
	_, page := describeReloads(t, pods, func(w http.ResponseWriter, pod string) {
		failure := "no"
		if pod == "web-0" || pod == "web-1" {
			failure = ""
		}
		_, _ = fmt.Fprintf(w, `{"content":1,"failed":1,"failure":%q,"loaded":1}`, failure)
	})
	for _, want := range []string{
		"Pods: 9 current\nReloads: 7 failed, 2 not failed, 0 not known\n  web-2, ", "\n  web-6, ",
		"\n  and 2 more that are not current, or whose reload failed: see -o wide\n",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has not %q:\n%s", want, page)
		}
	}
}

// TestNotReadyFirst: where not all are asked, those are asked that are not ready.
func TestNotReadyFirst(t *testing.T) {
	t.Parallel()
	var pods []*corev1.Pod
	for i := range reloaders.Most + 2 {
		pod := reloadingPod(fmt.Sprintf("web-%d", i))
		if i < 50 {
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		}
		pods = append(pods, pod)
	}
	over := reloadingPod("over")
	over.Status.Phase = corev1.PodSucceeded
	d, _ := describeReloads(t, append(pods, over), func(w http.ResponseWriter, _ string) { _, _ = fmt.Fprint(w, `{"content":1}`) })
	if len(d.Unknown) != 1 || !strings.Contains(d.Unknown[0].What, "pods web-48, web-49") {
		t.Errorf("Unknown = %+v, want the last two that are ready", d.Unknown)
	}
}
