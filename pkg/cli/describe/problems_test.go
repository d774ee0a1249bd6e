package describe

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/statusz"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/versions"
)

func lagging(name, why string) PodSource {
	return PodSource{
		Object: api.Ref{Kind: "ConfigMap", Namespace: "shop", Name: name}, State: versions.Lagging, Why: why, Since: noon,
	}
}

func unknown(name, why string) PodSource {
	return PodSource{Object: api.Ref{Kind: "Secret", Namespace: "shop", Name: name}, State: versions.Unknown, Why: why}
}

func TestProblems(t *testing.T) {
	t.Parallel()
	fine := PodSource{State: versions.Current}
	live := func(problem *statusz.Problem, sources ...PodSource) []PodVolume {
		return []PodVolume{{Name: "config", Reported: true, State: statusz.Live, Problem: problem, Sources: sources}}
	}
	absent := func(sources ...PodSource) []PodVolume {
		return []PodVolume{{Name: "config", Sources: sources}}
	}
	missing := &statusz.Problem{Kind: "Missing", Message: `configmap "gone" not found`, Since: noon}
	tests := map[string]struct {
		pod    Pod
		mounts map[string]string
		want   []string
		// notAsked and notKnown are whether the pod counts as such.
		notAsked, notKnown int
	}{
		"nothing is wrong": {pod: Pod{Node: "n", Volumes: live(nil, fine)}},
		"the problem of a volume is there once, whatever its sources lack for it": {
			pod:  Pod{Node: "n", Volumes: live(missing, lagging("app", missing.Message), lagging("gone", missing.Message))},
			want: []string{`config: Missing: configmap "gone" not found`},
		},
		"another reason of a source is beside it": {
			pod:  Pod{Node: "n", Volumes: live(missing, lagging("app", "its node has not heard of it yet"), fine)},
			want: []string{`config: Missing: configmap "gone" not found`, "config: configmap/app: its node has not heard of it yet"},
		},
		"sources with one reason are together": {
			pod:  Pod{Node: "n", Volumes: live(nil, lagging("a", "late"), lagging("b", "other"), lagging("c", "late"))},
			want: []string{"config: configmap/a, configmap/c: late", "config: configmap/b: other"},
		},
		"the kubelet knows why a volume is not mounted": {
			pod:    Pod{Node: "n", Volumes: absent(lagging("app", "the driver of its node has no such volume"))},
			mounts: map[string]string{"config": "service account shop may not get secret tls"},
			want:   []string{"config: not mounted: service account shop may not get secret tls"},
		},
		"also where the driver cannot be asked": {
			pod:    Pod{Node: "n", NotAsked: "no answer", Volumes: absent(unknown("app", "no answer"))},
			mounts: map[string]string{"config": "denied"},
			want:   []string{"config: not mounted: denied"}, notAsked: 1,
		},
		"the reason of another volume is not the reason of this one": {
			pod:    Pod{Node: "n", Volumes: absent(lagging("app", "the driver of its node has no such volume"))},
			mounts: map[string]string{"data": "the disk is on fire"},
			want:   []string{"config: configmap/app: the driver of its node has no such volume"},
		},
		"attributes with mistakes have no sources": {
			pod:  Pod{Node: "n", Volumes: []PodVolume{{Name: "config", Mistakes: []string{"attribute a", "attribute b"}}}},
			want: []string{"config: attribute a; attribute b"},
		},
		"a volume that is missing": {
			pod:  Pod{Node: "n", Volumes: absent(lagging("app", "the driver of its node has no such volume"))},
			want: []string{"config: configmap/app: the driver of its node has no such volume"},
		},
		"a node that did not answer is no problem": {
			pod: Pod{Node: "n", NotAsked: "no answer", Volumes: absent(unknown("app", "no answer"))}, notAsked: 1,
		},
		"neither is a copy without the right to read the Secret": {
			pod: Pod{
				Node: "n", NotAsked: "it has no volume of liveconfig",
				Elsewhere: []PodSource{unknown("tls", "it is not known which copy is the newest")},
			},
			notKnown: 1,
		},
		"the same in a volume": {
			pod:      Pod{Node: "n", Volumes: live(nil, fine, unknown("tls", "it is not known which copy is the newest"))},
			notKnown: 1,
		},
		"neither is a driver that has just started": {
			pod:      Pod{Node: "n", Volumes: absent(unknown("app", "the driver has just started"), unknown("tls", "the driver has just started"))},
			notKnown: 1,
		},
		"a problem beside what is not known": {
			pod:  Pod{Node: "n", Volumes: live(nil, unknown("tls", "it is not known which copy is the newest"), lagging("app", "late"))},
			want: []string{"config: configmap/app: late"}, notKnown: 1,
		},
		"a node that did not answer counts once": {
			pod:      Pod{Node: "n", NotAsked: "no answer", Volumes: absent(unknown("app", "no answer")), Elsewhere: []PodSource{unknown("tls", "newest")}},
			notAsked: 1,
		},
		"neither is a pod without a node": {pod: Pod{NotAsked: "on no node", Volumes: absent(lagging("app", "on no node"))}},
		"copies of variables are at no volume": {
			pod:  Pod{Node: "n", NotAsked: "it has no volume of liveconfig", Elsewhere: []PodSource{lagging("app", "it is of another revision")}},
			want: []string{": configmap/app: it is of another revision"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var all Problems
			all.add("shop", test.pod, noon, test.mounts)
			var got []string
			for _, p := range all.Problems {
				got = append(got, p.Volume+": "+p.Reason)
				if p.Namespace != "shop" || p.Node != "n" {
					t.Errorf("the problem is of namespace %q and node %q, want shop and n", p.Namespace, p.Node)
				}
			}
			if all.NotAsked != test.notAsked || all.NotKnown != test.notKnown {
				t.Errorf("%d pods are not asked and %d not known, want %d and %d", all.NotAsked, all.NotKnown, test.notAsked, test.notKnown)
			}
			wantSame(t, "problems", test.want, got)
		})
	}
}

func TestPrintProblems(t *testing.T) {
	t.Parallel()
	one := Problem{Namespace: "shop", Pod: "web-1", Node: "node-1", Volume: "config", Reason: "no\nway\t!", Since: noon}
	unknown := []Unknown{{What: "what is in the files on node n", Why: "no answer", Type: "kubectl logs driver"}}
	tests := map[string]struct {
		all  Problems
		want string
	}{
		"none": {
			all:  Problems{Looked: 12, Pods: 10},
			want: "No problems in 10 pods with volumes of liveconfig; 12 pods looked at\n",
		},
		"none that is known": {
			all: Problems{Looked: 12, Pods: 10, NotAsked: 4, Unknown: unknown},
			want: "No problems in 6 pods with volumes of liveconfig; 12 pods looked at; 4 pods are on nodes that did not answer\n\n" +
				"Not Known:\n  what is in the files on node n: no answer\n    kubectl logs driver\n",
		},
		"something is not known": {
			all: Problems{Looked: 12, Pods: 10, NotAsked: 4, NotKnown: 3},
			want: "No problems in 3 pods with volumes of liveconfig; 12 pods looked at; 4 pods are on nodes that did not answer; " +
				"of 3 pods it is not known whether they are current\n",
		},
		"two of one pod": {
			all: Problems{Looked: 12, Pods: 10, Problems: []Problem{one, {Namespace: "shop", Pod: "web-1", Reason: "late"}}},
			want: "POD         NODE    VOLUME  SINCE  REASON\n" +
				"shop/web-1  node-1  config  60m    no way !\n" +
				"                    -       -      late\n\n" +
				"1 of 10 pods with volumes of liveconfig have problems; 12 pods looked at\n",
		},
		"volumes of a pod with one problem": {
			all: Problems{Looked: 12, Pods: 10, Problems: []Problem{one, {
				Namespace: "shop", Pod: "web-1", Node: "node-1", Volume: "tls", Reason: one.Reason, Since: noon.Add(time.Minute),
			}}},
			want: "POD         NODE    VOLUME       SINCE  REASON\n" +
				"shop/web-1  node-1  config, tls  60m    no way !\n\n" +
				"1 of 10 pods with volumes of liveconfig have problems; 12 pods looked at\n",
		},
	}
	for name, test := range tests {
		got := (&page{now: noon.Add(time.Hour)}).printProblems(test.all)
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: printProblems (-want +got):\n%s", name, diff)
		}
	}
}
