package soak

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// judged is a model with one volume of two objects: each has had three versions, of which the first is that nothing was
// there.
type judged struct {
	*model
	volume    *vol
	web, cert ref
}

func newJudged(policy string) *judged {
	j := &judged{model: newModel("home"), web: ref{configMap, "home", "web"}, cert: ref{secret, "home", "cert"}}
	for _, at := range []ref{j.web, j.cert} {
		o := newObject(at)
		o.versions = append(o.versions,
			version{"k0": {1, 5}, "k1": {1, 5}, "old": {1, 1}}, version{"k0": {2, 9}, "k1": {1, 5}}, version{"k0": {3, 5}, "k1": {3, 0}})
		j.objects[at] = o
	}
	j.access[reader{"ann", "home"}] = &access{level: everything}
	j.volume = &vol{
		spec: spec{
			policy: policy, defaultMode: 0o644, uid: -1, gid: -1, fsGroup: -1,
			sources: []source{{ref: j.web}, {ref: j.cert, items: []item{{"k0", "d/k0", 0o600}, {"k1", "k1", -1}}}},
		},
		pod: &pod{account: "ann"}, state: live,
		floor: map[ref]int{j.web: 1, j.cert: 1}, seen: map[seenKey]int{},
	}
	return j
}

// at returns what the volume holds when its objects have those versions.
func (j *judged) at(web, cert int) snapshot {
	s := snapshot{files: map[string]file{}, dirs: map[string]unix.Stat_t{"d": {Mode: unix.S_IFDIR | 0o755}}}
	for i, n := range []int{web, cert} {
		src := j.volume.sources[i]
		for p, f := range src.project(j.objects[src.ref].versions[n]) {
			s.set(p, value(src.ref, f.key, f.entry), j.volume.modeOf(src, p))
		}
	}
	return s
}

func (s snapshot) set(p string, data []byte, mode uint32) {
	s.files[p] = file{data: data, stat: unix.Stat_t{Mode: unix.S_IFREG | mode}}
}

// TestTheModelSeesWhatIsWrong wants the model to take what a driver may show, and nothing else.
func TestTheModelSeesWhatIsWrong(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		policy string
		change func(j *judged) snapshot
		want   string // Empty for nothing wrong.
	}{
		"the newest":       {atomicPolicy, func(j *judged) snapshot { return j.at(3, 3) }, ""},
		"an older version": {atomicPolicy, func(j *judged) snapshot { return j.at(1, 2) }, ""},
		"one that is older than what was seen": {atomicPolicy, func(j *judged) snapshot {
			j.volume.floor[j.web] = 2
			return j.at(1, 3)
		}, "none of its versions 2 to 3"},
		"two versions": {atomicPolicy, func(j *judged) snapshot {
			s := j.at(2, 2)
			s.files["d/k0"] = j.at(2, 3).files["d/k0"]
			return s
		}, "none of its versions"},
		"a key of an older version": {atomicPolicy, func(j *judged) snapshot {
			s := j.at(3, 3)
			s.files["old"] = j.at(1, 3).files["old"]
			return s
		}, "none of its versions"},
		"a file too few":         {atomicPolicy, func(j *judged) snapshot { return without(j.at(2, 2), "k0") }, "none of its versions"},
		"an object that is gone": {atomicPolicy, func(j *judged) snapshot { return without(j.at(2, 2), "k0", "k1", "old") }, "none of its versions"},
		"the value of an earlier source": {atomicPolicy, func(j *judged) snapshot {
			s := j.at(3, 3)
			s.set("k1", value(j.web, "k1", entry{3, 0}), 0o644)
			return s
		}, "none of its versions"},
		"torn bytes": {replacePolicy, func(j *judged) snapshot {
			s := j.at(3, 3)
			s.set("k0", value(j.web, "k0", entry{3, 5})[:30], 0o644)
			return s
		}, "k0: "},
		"another object's value": {replacePolicy, func(j *judged) snapshot {
			s := j.at(3, 3)
			s.set("k0", value(ref{secret, "home", "other"}, "k0", entry{3, 5}), 0o644)
			return s
		}, "not a source of the volume"},
		"a mode": {atomicPolicy, func(j *judged) snapshot {
			s := j.at(3, 3)
			s.set("d/k0", s.files["d/k0"].data, 0o644)
			return s
		}, "has mode"},
		"an empty directory": {atomicPolicy, func(j *judged) snapshot {
			s := j.at(3, 3)
			s.dirs["e"] = s.dirs["d"]
			return s
		}, "is empty"},
		"two versions of plain files": {replacePolicy, func(j *judged) snapshot {
			s := j.at(2, 2)
			s.files["d/k0"] = j.at(2, 3).files["d/k0"]
			return s
		}, ""},
		"a plain file that is older than what was seen": {replacePolicy, func(j *judged) snapshot {
			j.volume.seen[seenKey{"k0", j.web}] = 3
			return j.at(2, 3)
		}, "in none of the versions 3 to 3"},
		"a plain file too few":          {replacePolicy, func(j *judged) snapshot { return without(j.at(2, 2), "k0") }, "is missing"},
		"a file in place too few":       {inPlacePolicy, func(j *judged) snapshot { return without(j.at(2, 2), "d/k0") }, "is missing"},
		"a plain file that may be gone": {replacePolicy, func(j *judged) snapshot { return without(j.at(1, 1), "old") }, ""},
		"a change of what never changes": {neverPolicy, func(j *judged) snapshot {
			j.volume.pinned = j.at(2, 2).sums()
			return j.at(3, 2)
		}, "may not have changed"},
		"a change while something is missing": {atomicPolicy, func(j *judged) snapshot {
			j.objects[j.web].versions = append(j.objects[j.web].versions, nil)
			j.volume.pinned, j.volume.pinnedAt = j.at(2, 2).sums(), map[ref]int{j.web: 4, j.cert: 2}
			return j.at(2, 3)
		}, "may not have changed"},
		"a change for a pod that may not read": {atomicPolicy, func(j *judged) snapshot {
			j.access[reader{"ann", "home"}] = &access{level: nothing, blindTo: map[ref]int{j.cert: 2}}
			return j.at(3, 3)
		}, "none of its versions 1 to 2"},
		"the loss of what may not be read": {atomicPolicy, func(j *judged) snapshot {
			j.access[reader{"ann", "home"}] = &access{level: nothing}
			return without(j.at(3, 3), "k1")
		}, "none of its versions"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJudged(tt.policy)
			s := tt.change(j)
			err := j.judge(j.volume, s, floorsOf(j.volume))
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("judge = %v, want %q", err, tt.want)
			}
		})
	}
}

func without(s snapshot, paths ...string) snapshot {
	maps.DeleteFunc(s.files, func(p string, _ file) bool { return slices.Contains(paths, p) })
	return s
}

// TestTheModelKnowsWhatTheDriverNeedNotKnow: what is not watched may be gone without the driver knowing it.
func TestTheModelKnowsWhatTheDriverNeedNotKnow(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(j *judged)
		want   bool
	}{
		"all is watched":      {func(j *judged) { j.lose(j.web); j.lose(j.cert) }, false},
		"an immutable object": {func(j *judged) { j.lose(j.web); j.objects[j.web].unwatched = true }, true},
		"what is polled":      {func(j *judged) { j.lose(j.cert); j.access[reader{"ann", "home"}] = &access{level: getOnly} }, true},
		"what is polled, and is there": {
			func(j *judged) { j.lose(j.web); j.access[reader{"ann", "home"}] = &access{level: getOnly} }, false,
		},
		"what was polled before": {
			func(j *judged) {
				j.lose(j.cert)
				j.access[reader{"ann", "home"}] = &access{level: everything, changed: time.Now()}
			}, true,
		},
	} {
		j := newJudged(atomicPolicy)
		tc.change(j)
		if got := j.mayBeBehind(j.volume); got != tc.want {
			t.Errorf("%s: the driver may be behind: %t, want %t", name, got, tc.want)
		}
	}
}

// lose has an object be gone.
func (j *judged) lose(r ref) { j.objects[r].versions = append(j.objects[r].versions, nil) }
