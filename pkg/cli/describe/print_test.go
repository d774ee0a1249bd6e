package describe

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/statusz"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/versions"
)

// TestPrint compares what is printed of all that there can be with testdata/all.txt. UPDATE=1
// writes it again.
func TestPrint(t *testing.T) {
	t.Parallel()
	got := (&page{now: noon.Add(time.Hour)}).format(everything(), Description{Kind: "Pod", Name: "bare", Namespace: "shop"})
	file := filepath.Join("testdata", "all.txt")
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	wantSame(t, "Print", string(want), got)
}

func TestPrintShowsSomePods(t *testing.T) {
	t.Parallel()
	var d Description
	for i := range 20 {
		state := []versions.State{versions.Current, versions.Unknown, versions.Lagging, versions.Current}[i%4]
		d.Pods = append(d.Pods, Pod{Name: fmt.Sprintf("web-%02d", i), Phase: "Running", State: state, Volumes: []PodVolume{{}}})
	}
	tests := map[string]struct {
		pods  []Pod
		most  int
		shown string
		note  string
	}{
		"the worst first, as many as may be": {pods: d.Pods, most: 7, shown: "02 06 10 14 18 01 05", note: "and 3 more that are not current: see -o wide"},
		"no current ones":                    {pods: d.Pods, most: 11, shown: "02 06 10 14 18 01 05 09 13 17"},
		"all":                                {pods: d.Pods[:4], shown: "00 01 02 03"},
		"a single one":                       {pods: d.Pods[:1], most: 7, shown: "00"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			page := (&page{mostPods: test.most}).format(Description{Pods: test.pods})
			var shown []string
			for line := range strings.Lines(page) {
				if _, rest, found := strings.Cut(line, "web-"); found {
					shown = append(shown, rest[:2])
				}
			}
			if got := strings.Join(shown, " "); got != test.shown {
				t.Errorf("the pods shown are %s, want %s", got, test.shown)
			}
			if got := strings.Contains(page, "more that are not current"); got != (test.note != "") || !strings.Contains(page, test.note) {
				t.Errorf("Print = %s\nwant the note %q", page, test.note)
			}
		})
	}
}

func TestPrintKeepsToItsLines(t *testing.T) {
	t.Parallel()
	const forged = "a\nEvents: none\tb"
	page := (&page{}).format(Description{
		Rollout: &Rollout{AfterUndo: forged},
		Volumes: []Volume{{Mounts: []Mount{{Path: forged}}}},
		Events:  []Event{{Reason: forged}},
		Unknown: []Unknown{{What: forged}},
	})
	if got, want := strings.Count(page, `a\nEvents: none\tb`), 4; got != want || strings.Contains(page, "\nEvents: none") {
		t.Errorf("Print = %s\nwant what is in objects on one line, in %d places", page, want)
	}
}

func TestPrintListsCopiesWithoutVolumes(t *testing.T) {
	t.Parallel()
	lagging := PodSource{CopyOf: "configmap/app", State: versions.Lagging, Why: "it is of another revision"}
	page := (&page{}).format(Description{Pods: []Pod{
		{Name: "web-1", State: versions.Lagging, NotAsked: "it has no volume of liveconfig", Elsewhere: []PodSource{lagging}},
	}})
	if !strings.Contains(page, "Why: it is of another revision") {
		t.Errorf("Print = %s\nwant why the pod lags", page)
	}
}

// everything is a description in which nothing is missing.
func everything() Description {
	octal := "0400"
	tls := api.Ref{Kind: "Secret", Namespace: "other", Name: "tls"}
	copied := api.Ref{Kind: "ConfigMap", Namespace: "shop", Name: "app-1"}
	mounts := []Mount{{Container: "web", Path: "/etc/web"}, {Container: "web", Path: "/etc/one", SubPath: "one"}}
	early := noon.Add(-time.Minute)
	return Description{
		Kind: "Deployment", Namespace: "shop", Name: "web", ServiceAccount: "shop",
		Rollout: &Rollout{
			TriggeredBy: "configmap/app", Revision: "3", State: "rolled out", AfterUndo: "roll", WhileFailing: "hold",
			Copies: []Copy{{Of: "configmap/app", Copy: "configmap/app-1"}, {Of: "secret/gone"}},
			Newer:  []Copy{{Of: "configmap/app", Copy: "configmap/app-2"}},
		},
		Volumes: []Volume{
			{
				Name: "files", Mounts: mounts, UpdatePolicy: "Atomic", OnDelete: "Keep", DefaultMode: "0644", UID: new(7), FSGroup: new(int64(9)),
				Sources: []Source{
					{Object: copied, CopyOf: "configmap/app"},
					{Object: tls, Optional: true, Items: []Item{{Key: "a", Path: "a"}, {Key: "b", Path: "c", Mode: octal}}},
					{Object: tls, As: &As{Path: "all.env", Format: "dotenv", Mode: octal}},
				},
			},
			{Name: "fixed", Mounts: mounts[1:], UpdatePolicy: "Never", OnDelete: "Keep", DefaultMode: "0644", GID: new(8)},
			{Name: "inplace", Mounts: mounts[1:], UpdatePolicy: "InPlace", OnDelete: "Keep", DefaultMode: "0644"},
			{Name: "wrong", Mistakes: []string{"spec.volumes[1].csi.volumeAttributes.configmap: Forbidden"}},
		},
		Others: []Use{
			{Object: "configmap/app-1", Way: AsVariables, Container: "web", Prefix: "APP_"},
			{Object: "secret/db", Optional: true, Way: AsVariable, Container: "web", Variable: "PASSWORD"},
			{Object: "configmap/ca", Way: AsVolume, Volume: "ca", Type: "projected", Mounts: mounts},
			{Object: "configmap/ca", Way: AsVolume, Volume: "one", Type: "configMap", Mounts: mounts[1:]},
			{Object: "configmap/ca", Way: AsVolume, Volume: "two", Type: "configMap"},
			{Object: "secret/registry", Optional: true, Way: ToPull},
			{Object: "secret/share", Way: ToMount, Volume: "share", Type: "azureFile"},
		},
		Objects: []Object{
			{Ref: app, Exists: true, Version: version("12"), ChangedAt: noon, Copy: "app-2", Pods: map[versions.State]int{versions.Lagging: 1, versions.Current: 2}},
			{Ref: tls, Unread: "you may not", Exists: true, Version: version("13")},
			{Ref: tls, Unread: "you may not"},
			{Ref: tls},
		},
		Pods: []Pod{
			{Name: "web-1", Node: "n1", Phase: "Running", State: versions.Lagging, Volumes: []PodVolume{
				{
					Name: "files", Reported: true, State: statusz.Live, Digest: "abc", Bytes: 7, ProjectedAt: noon, CheckedAt: noon,
					Problem: &statusz.Problem{Kind: "Denied", Message: "to allow it, apply:\nkind: Role\nrules: []", Since: early},
					Sources: []PodSource{
						{Object: copied, CopyOf: "configmap/app", State: versions.Lagging, Why: "it is of another revision", Since: early, Projected: version("1"), Known: version("1"), KnownAt: noon},
						{Object: tls, State: versions.Current, Projected: version("1"), Known: version("2"), Polled: true, Revoked: true, Error: "is forbidden"},
						{Object: tls, State: versions.Lagging, Projected: version("1")},
					},
				},
				{Name: "fixed", Reported: true, State: statusz.Publishing, Sources: []PodSource{{Object: tls, State: versions.Lagging, Known: version("2")}}},
				{Name: "inplace", Reported: true, State: statusz.Frozen},
				{Name: "wrong"},
			}, Elsewhere: []PodSource{{Object: copied, CopyOf: "configmap/app", State: versions.Lagging, Why: "it is of another revision"}}},
			{Name: "web-2", Phase: "Pending", State: versions.Unknown, NotAsked: "it is on no node yet", Volumes: []PodVolume{{Name: "files"}}},
		},
		Events: []Event{
			{Type: "Warning", Reason: "AccessLost", Last: noon, Count: 3, Object: "pod/web-1", From: "csi.liveconfig.internal", Message: "to allow it, apply:\nkind: Role"},
			{Type: "Normal", Reason: "Projected", Last: noon.Add(2 * time.Hour), Count: 1, Object: "pod/web-1", From: "csi.liveconfig.internal", Message: "by a clock that is fast"},
		},
		Unknown: []Unknown{{What: "what is on node n2", Why: "you may not ask", Type: "kubectl auth can-i"}, {What: "its pods", Why: "nobody knows"}},
	}
}

func TestVolumesOf(t *testing.T) {
	t.Parallel()
	csi := &corev1.CSIVolumeSource{Driver: ours.Driver, ReadOnly: new(true), VolumeAttributes: map[string]string{
		"sources": `[{configMap: {name: app-1, items: [{key: a, path: b, mode: 0}]}}, {secret: {name: s, namespace: other, as: {path: x, format: json, mode: 0400}, optional: true}}]`,
		"gid":     "7", "defaultMode": "0440",
	}}
	got := volumesOf(&corev1.PodSpec{
		SecurityContext: &corev1.PodSecurityContext{FSGroup: new(int64(9))},
		Volumes:         []corev1.Volume{{Name: "files", VolumeSource: corev1.VolumeSource{CSI: csi}}},
	}, ours, map[api.Ref]api.Ref{app1: app})
	want := Volume{
		Name: "files", UpdatePolicy: "Atomic", OnDelete: "Keep", DefaultMode: "0440", GID: new(7), FSGroup: new(int64(9)),
		Sources: []Source{
			{Object: app1, CopyOf: "configmap/app", Items: []Item{{Key: "a", Path: "b", Mode: "0000"}}},
			{
				Object: api.Ref{Kind: "Secret", Namespace: "other", Name: "s"}, Optional: true,
				As: &As{Path: "x", Format: "json", Mode: "0400"},
			},
		},
	}
	wantSame(t, "volumesOf", []Volume{want}, got)
}

// TestNoEvents: without an Event, the page shows when files were written last.
func TestNoEvents(t *testing.T) {
	t.Parallel()
	pod := func(name string, times ...time.Time) Pod {
		p := Pod{Name: name, State: versions.Current}
		for _, at := range times {
			p.Volumes = append(p.Volumes, PodVolume{Name: "files", Reported: true, State: statusz.Live, ProjectedAt: at})
		}
		return p
	}
	for name, test := range map[string]struct {
		pods   []Pod
		events []Event
		want   string
	}{
		"the last of all":          {pods: []Pod{pod("web-1", noon), pod("web-2", noon, noon.Add(time.Minute)), pod("web-3")}, want: "Events: none; files last written 59m ago, those of pod web-2\n"},
		"a driver that just began": {pods: []Pod{pod("web-1", time.Time{})}, want: "Events: none\n"},
		"with an Event":            {pods: []Pod{pod("web-1", noon)}, events: []Event{{Type: "Normal", Last: noon}}, want: "Events:\n"},
	} {
		got := (&page{now: noon.Add(time.Hour)}).format(Description{Pods: test.pods, Events: test.events})
		if !strings.Contains(got, "\n"+test.want) {
			t.Errorf("%s: the page has not %q:\n%s", name, test.want, got)
		}
	}
}
