package versions_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/statusz"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/versions"
)

const driver = "csi.liveconfig.internal"

var (
	web     = api.Ref{Kind: api.ConfigMap, Namespace: "shop", Name: "web"}
	webCopy = api.Ref{Kind: api.ConfigMap, Namespace: "shop", Name: "web-0123456789"}
	tls     = api.Ref{Kind: api.Secret, Namespace: "certs", Name: "tls"}
)

func TestPlaces(t *testing.T) {
	t.Parallel()
	const toCopy = `{"configmap/web": "web-0123456789"}`
	volume := func(name string, attributes map[string]string) corev1.Volume {
		csi := &corev1.CSIVolumeSource{Driver: driver, VolumeAttributes: attributes}
		return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{CSI: csi}}
	}
	other := volume("other", map[string]string{"configMap": "x"})
	other.CSI.Driver = "another"
	tests := map[string]struct {
		config  string
		volumes []corev1.Volume
		want    []versions.Place
		wantErr string
	}{
		"sources have the pod's namespace, or their own": {
			volumes: []corev1.Volume{
				volume("a", map[string]string{"configMap": "web"}),
				volume("b", map[string]string{"secret": "tls", "namespace": "certs"}),
			},
			want: []versions.Place{{Volume: "a", Object: web, Names: web}, {Volume: "b", Object: tls, Names: tls}},
		},
		"an object is there once for each volume": {
			volumes: []corev1.Volume{
				volume("a", map[string]string{"sources": `[{configMap: {name: web, items: [{key: a, path: a}]}}, {configMap: {name: web}}]`}),
				volume("b", map[string]string{"configMap": "web"}),
			},
			want: []versions.Place{{Volume: "a", Object: web, Names: web}, {Volume: "b", Object: web, Names: web}},
		},
		"behind a copy is what people edit": {
			config:  toCopy,
			volumes: []corev1.Volume{volume("a", map[string]string{"configMap": "web-0123456789"})},
			want:    []versions.Place{{Volume: "a", Object: web, Names: webCopy}},
		},
		"a copy in two volumes is one in each": {
			config: toCopy,
			volumes: []corev1.Volume{
				volume("a", map[string]string{"configMap": "web-0123456789"}), volume("b", map[string]string{"configMap": "web-0123456789"}),
			},
			want: []versions.Place{{Volume: "a", Object: web, Names: webCopy}, {Volume: "b", Object: web, Names: webCopy}},
		},
		"a copy that Kubernetes shows has no volume": {
			config: toCopy,
			want:   []versions.Place{{Object: web, Names: webCopy}},
		},
		"an object that triggers and does not exist has no copy": {
			config:  `{"configmap/web": ""}`,
			volumes: []corev1.Volume{volume("a", map[string]string{"configMap": "web", "optional": "true"})},
			want:    []versions.Place{{Volume: "a", Object: web, Names: web}},
		},
		"other drivers and other volumes are left out": {
			volumes: []corev1.Volume{other, {Name: "tmp"}},
		},
		"mistakes do not hide the rest": {
			config: "{",
			volumes: []corev1.Volume{
				volume("bad", map[string]string{"configMaps": "x"}), volume("a", map[string]string{"configMap": "web"}),
			},
			want: []versions.Place{{Volume: "a", Object: web, Names: web}},
			wantErr: "the annotation liveconfig.internal/config of the pod template: not an object of texts: unexpected end of JSON input\n" +
				"volume bad: mistake in volumeAttributes: configMaps: Forbidden: unknown attribute, did you mean \"configMap\"?",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			annotations := map[string]string{}
			if tc.config != "" {
				annotations["liveconfig.internal/config"] = tc.config
			}
			got, err := versions.Places(annotations, &corev1.PodSpec{Volumes: tc.volumes}, "shop", driver)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("places (-want +got):\n%s", diff)
			}
			text := ""
			if err != nil {
				text = err.Error()
			}
			if text != tc.wantErr {
				t.Errorf("error = %q, want %q", text, tc.wantErr)
			}
		})
	}
}

var (
	edited   = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	troubled = edited.Add(time.Minute)
)

// world is a pod, whose node has a volume with an object, and what the API has of it.
type world struct {
	report statusz.Report
	volume *statusz.Volume
	source *statusz.Source
	at     versions.Place
	now    versions.Now
}

func version(number string) *statusz.Version {
	return &statusz.Version{UID: "uid-web", ResourceVersion: number}
}

// newWorld has all current.
func newWorld() *world {
	w := &world{
		at:  versions.Place{Volume: "config", Object: web, Names: web},
		now: versions.Now{Version: version("7"), ChangedAt: edited},
	}
	w.report = statusz.Report{SchemaVersion: statusz.SchemaVersion, Recovered: true, Volumes: []statusz.Volume{
		{Pod: statusz.Pod{UID: "another"}, Name: "config"},
		{Pod: statusz.Pod{UID: "uid-pod"}, Name: "another"},
		{
			Pod: statusz.Pod{UID: "uid-pod"}, Name: "config", State: statusz.Live, UpdatePolicy: "Atomic",
			Sources: []statusz.Source{{Kind: "ConfigMap", Namespace: "shop", Name: "web", Known: version("7"), Projected: version("7")}},
		},
	}}
	w.volume = &w.report.Volumes[2]
	w.source = &w.volume.Sources[0]
	return w
}

// copied has the pod use a copy.
func (w *world) copied(newest ...string) {
	w.at.Names, w.source.Name, w.now.Copies = webCopy, webCopy.Name, newest
}

func TestJudge(t *testing.T) {
	t.Parallel()
	behind := func(why string) versions.Verdict {
		return versions.Verdict{State: versions.Lagging, Has: "6", Since: edited, Why: why}
	}
	tests := map[string]struct {
		given func(*world)
		want  versions.Verdict
	}{
		"the version of the API is current": {
			given: func(*world) {},
			want:  versions.Verdict{State: versions.Current, Has: "7"},
		},
		"a version is not known to be newer": {
			given: func(w *world) { w.source.Projected, w.source.Known = version("8"), version("8") },
			want:  versions.Verdict{State: versions.Lagging, Has: "8", Since: edited, Why: "its node has not heard of it yet"},
		},
		"a later version will do where that is set": {
			given: func(w *world) { w.source.Projected, w.now.OrNewer = version("10"), true },
			want:  versions.Verdict{State: versions.Current, Has: "10"},
		},
		"an earlier version will not do": {
			given: func(w *world) { w.source.Projected, w.source.Known, w.now.OrNewer = version("6"), version("6"), true },
			want:  behind("its node has not heard of it yet"),
		},
		"a later version of another object will not do": {
			given: func(w *world) {
				w.source.Projected, w.now.OrNewer = &statusz.Version{UID: "before", ResourceVersion: "9"}, true
			},
			want: versions.Verdict{State: versions.Lagging, Has: "9", Since: edited, Why: "its node is about to write it"},
		},
		"the same version of another object is not current": {
			given: func(w *world) { w.source.Projected = &statusz.Version{UID: "before", ResourceVersion: "7"} },
			want:  versions.Verdict{State: versions.Lagging, Has: "7", Since: edited, Why: "its node is about to write it"},
		},
		"nothing of what does not exist is current": {
			given: func(w *world) { w.source.Projected, w.source.Known, w.now = nil, nil, versions.Now{} },
			want:  versions.Verdict{State: versions.Current},
		},
		"files of what was deleted are not": {
			given: func(w *world) {
				w.now, w.source.Known = versions.Now{}, nil
				w.volume.Problem = &statusz.Problem{Message: `configmap "web" not found`, Since: troubled}
			},
			want: versions.Verdict{State: versions.Lagging, Has: "7", Since: troubled, Why: `configmap "web" not found`},
		},
		"a node that has not heard": {
			given: func(w *world) { w.source.Projected, w.source.Known = version("6"), version("6") },
			want:  behind("its node has not heard of it yet"),
		},
		"a node that polls": {
			given: func(w *world) { w.source.Projected, w.source.Known, w.source.Polled = version("6"), version("6"), true },
			want:  behind("its node has not heard of it yet: it is read now and then, because its reader may not list and watch it"),
		},
		"a node that has not written": {
			given: func(w *world) { w.source.Projected = version("6") },
			want:  behind("its node is about to write it"),
		},
		"the error of the source comes first": {
			given: func(w *world) {
				w.source.Projected, w.source.Error = version("6"), "forbidden"
				w.volume.Problem = &statusz.Problem{Message: "of the volume"}
			},
			want: behind("forbidden"),
		},
		"an edit that was promoted": {
			given: func(w *world) {
				w.source.Projected, w.source.Release = version("20"), &statusz.Release{Stable: *version("20"), IsShown: true}
			},
			want: versions.Verdict{State: versions.Current, Has: "20"},
		},
		"an edit that is shown to others": {
			given: func(w *world) {
				w.source.Projected, w.source.Release = version("20"), &statusz.Release{Stable: *version("20"), State: "Progressing"}
			},
			want: versions.Verdict{
				State: versions.Lagging, Has: "20", Since: edited,
				Why: "the release of the edit has not reached this pod yet: see kubectl liveconfig release status configmap/web",
			},
		},
		"an edit that was taken back": {
			given: func(w *world) {
				w.source.Projected, w.source.Release = version("20"), &statusz.Release{Stable: *version("20"), State: "Reverted"}
			},
			want: versions.Verdict{
				State: versions.Lagging, Has: "20", Since: edited, IsEnded: true,
				Why: "the release of the edit is reverted: see kubectl liveconfig release status configmap/web",
			},
		},
		"a volume that never changes": {
			given: func(w *world) { w.source.Projected, w.volume.UpdatePolicy = version("6"), "Never" },
			want:  behind("its volume has the update policy Never"),
		},
		"a volume that is being made": {
			given: func(w *world) { w.source.Projected, w.volume.State = nil, statusz.Publishing },
			want:  versions.Verdict{State: versions.Lagging, Since: edited, Why: "its volume is being made"},
		},
		"a volume that is busy": {
			given: func(w *world) { w.source.Projected, w.volume.State = nil, statusz.Busy },
			want:  versions.Verdict{State: versions.Unknown, Why: "the driver of its node is busy with the volume"},
		},
		"a node without the volume": {
			given: func(w *world) { w.volume.Pod.UID = "before" },
			want:  versions.Verdict{State: versions.Lagging, Why: "the driver of its node has no such volume"},
		},
		"a node that does not know all yet": {
			given: func(w *world) { w.volume.Pod.UID, w.report.Recovered = "before", false },
			want: versions.Verdict{
				State: versions.Unknown, Why: "the driver of its node has just started and does not know all volumes yet",
			},
		},
		"a volume without the object": {
			given: func(w *world) { w.source.Name = "before" },
			want:  versions.Verdict{State: versions.Lagging, Why: "the driver of its node does not have it in the volume"},
		},
		"a node that cannot be asked": {
			given: func(w *world) { w.report = statusz.Report{} },
			want:  versions.Verdict{State: versions.Unknown, Why: "the driver of its node cannot be asked"},
		},
		"the newest copy is current": {
			given: func(w *world) { w.copied(webCopy.Name) },
			want:  versions.Verdict{State: versions.Current, Has: webCopy.Name},
		},
		"any of several good copies is": {
			given: func(w *world) { w.copied(webCopy.Name, "web-later") },
			want:  versions.Verdict{State: versions.Current, Has: webCopy.Name},
		},
		"another copy is not": {
			given: func(w *world) { w.copied("web-later") },
			want: versions.Verdict{
				State: versions.Lagging, Has: webCopy.Name, Since: edited, Why: "it is of another revision than the one with web-later",
			},
		},
		"it is not known which copy is the newest": {
			given: func(w *world) { w.copied() },
			want:  versions.Verdict{State: versions.Unknown, Has: webCopy.Name, Why: "it is not known which copy is the newest"},
		},
		"a copy that is not in the files": {
			given: func(w *world) {
				w.copied(webCopy.Name)
				w.source.Projected, w.source.Error = nil, "forbidden"
			},
			want: versions.Verdict{State: versions.Lagging, Why: "forbidden"},
		},
		"a copy that Kubernetes shows needs no node": {
			given: func(w *world) {
				w.copied(webCopy.Name)
				w.at.Volume, w.report = "", statusz.Report{}
			},
			want: versions.Verdict{State: versions.Current, Has: webCopy.Name},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			tc.given(w)
			pod := versions.Pod{UID: "uid-pod"}
			if w.report.SchemaVersion > 0 {
				pod.Report = &w.report
			}
			if diff := cmp.Diff(tc.want, pod.Judge(w.at, w.now)); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNewest(t *testing.T) {
	t.Parallel()
	report := func(known map[string]*statusz.Version) statusz.Report {
		var v statusz.Volume
		for _, name := range slices.Sorted(maps.Keys(known)) {
			v.Sources = append(v.Sources, statusz.Source{Kind: "ConfigMap", Namespace: "shop", Name: name, Known: known[name]})
		}
		return statusz.Report{Volumes: []statusz.Volume{v}}
	}
	reports := []statusz.Report{
		report(map[string]*statusz.Version{"web": version("9")}),
		report(map[string]*statusz.Version{"other": version("99"), "web": version("10")}),
		report(map[string]*statusz.Version{"web": nil}),
		report(map[string]*statusz.Version{"web": version("8")}),
	}
	if diff := cmp.Diff(version("10"), versions.Newest(reports, web)); diff != "" {
		t.Errorf("newest (-want +got):\n%s", diff)
	}
	if got := versions.Newest(reports, tls); got != nil {
		t.Errorf("newest of what no node knows = %v, want none", got)
	}
}
