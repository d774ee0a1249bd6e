package release

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
)

// oracle knows every state that the stable copies have had, in their order, and what each pod has had, in its order. It judges
// without a clock: a pod may be behind its copies, but it never goes back to an older state of them, and it is never ahead of
// what the API server says after the pod was looked at.
type oracle struct {
	*site

	copies []*copyHistory
	mu     sync.Mutex // Guards the fields below.
	seen   map[*corev1.Pod]map[*copyHistory][]observation
	gone   map[*corev1.Pod]bool // They are being replaced.
}

// copyHistory is every state that a stable copy has had.
type copyHistory struct {
	name     string
	isSecret bool
	file     string                             // The key, and the file, whose value is the number of an edit.
	data     func(number int) map[string]string // The content of an edit.
	// mayHave says of an edit that no rule allows whether a state shows it for another reason.
	mayHave func(number int, s copyState) bool
	// beside are the other objects of its group.
	beside []*copyHistory

	mu     sync.Mutex // Guards the fields below.
	states []copyState
	newest int // The number of the newest edit, where somebody counts them.
}

// copyState is one of them.
type copyState struct {
	version  uint64
	value    string
	exposure release.Exposure
	uid      types.UID
	last     release.Entry // How the last release has ended.
	heard    time.Time
	// isAbsent: somebody has deleted the copy. A new pod gets what the object has then.
	isAbsent bool
}

// observation is that a pod has had a value from then on.
type observation struct {
	value string
	// atMost is the version of the copy after the pod was looked at: what the pod has comes from no later one.
	atMost uint64
}

func newOracle(s *site, copies ...*copyHistory) *oracle {
	return &oracle{site: s, copies: copies, seen: map[*corev1.Pod]map[*copyHistory][]observation{}, gone: map[*corev1.Pod]bool{}}
}

// record records until ctx ends. The first state of each copy is there when it returns.
func (o *oracle) record(ctx context.Context, wg *sync.WaitGroup) {
	o.T.Helper()
	for _, c := range o.copies {
		version, err := o.list(ctx, c, metav1.ListOptions{})
		expect.NoError(o.T, err)
		wg.Go(func() { o.follow(ctx, c, version) })
	}
	wg.Go(func() { o.observe(ctx) })
}

// list records the state of a copy that a list has, and returns the version of the list.
func (o *oracle) list(ctx context.Context, c *copyHistory, options metav1.ListOptions) (version uint64, err error) {
	options.FieldSelector = c.selector()
	var found runtime.Object
	if c.isSecret {
		found, err = o.Cluster.Client().CoreV1().Secrets(o.Namespace).List(ctx, options)
	} else {
		found, err = o.ConfigMaps().List(ctx, options)
	}
	if err != nil {
		return 0, err
	}
	if err := meta.EachListItem(found, func(object runtime.Object) error { c.add(object); return nil }); err != nil {
		return 0, err
	}
	list, err := meta.ListAccessor(found)
	if err != nil {
		return 0, err
	}
	version, err = strconv.ParseUint(list.GetResourceVersion(), 10, 64)
	if err == nil && meta.LenList(found) == 0 {
		c.append(copyState{version: version, isAbsent: true})
	}
	return version, err
}

func (c *copyHistory) selector() string {
	return fields.OneTermEqualSelector("metadata.name", c.name+release.Suffix).String()
}

// unrecorded is the same copy without its states.
func (c *copyHistory) unrecorded() *copyHistory {
	return &copyHistory{name: c.name, isSecret: c.isSecret, file: c.file}
}

// add records the state of a copy.
func (c *copyHistory) add(object runtime.Object) {
	var next copyState
	var of metav1.ObjectMeta
	switch m := object.(type) {
	case *corev1.ConfigMap:
		of, next.value = m.ObjectMeta, m.Data[c.file]
	case *corev1.Secret:
		of, next.value = m.ObjectMeta, string(m.Data[c.file])
	default:
		return
	}
	next.value = environment.Unmarked(next.value)
	next.exposure, _ = release.ParseExposure(of.Annotations[release.ExposureAnnotation])
	next.version, _ = strconv.ParseUint(of.ResourceVersion, 10, 64)
	next.uid, next.heard = of.UID, time.Now()
	if history, err := release.ParseHistory(of.Annotations[release.HistoryAnnotation]); err == nil && len(history) > 0 {
		next.last = history[0]
	}
	c.append(next)
}

// append adds a state, unless it is known.
func (c *copyHistory) append(next copyState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.states) == 0 || next.version > c.states[len(c.states)-1].version {
		c.states = append(c.states, next)
	}
}

// follow records every later state, also if the API server ends the watch and does not know its version any more.
func (o *oracle) follow(ctx context.Context, c *copyHistory, since uint64) {
	for ctx.Err() == nil {
		options := metav1.ListOptions{FieldSelector: c.selector(), ResourceVersion: strconv.FormatUint(since, 10), AllowWatchBookmarks: true}
		w, err := o.watch(ctx, c, options)
		switch {
		case apierrors.IsResourceExpired(err), apierrors.IsGone(err):
			since = o.recall(ctx, c, since)
			continue
		case err != nil:
			<-time.After(20 * time.Millisecond)
			continue
		}
		for event := range w.ResultChan() {
			if event.Type == watch.Error {
				since = o.recall(ctx, c, since)
				break
			}
			if of, ok := event.Object.(metav1.Object); ok {
				since, _ = strconv.ParseUint(of.GetResourceVersion(), 10, 64)
			}
			switch event.Type {
			case watch.Bookmark:
			case watch.Deleted:
				c.append(copyState{version: since, isAbsent: true})
			default:
				c.add(event.Object)
			}
		}
		w.Stop()
	}
}

func (o *oracle) watch(ctx context.Context, c *copyHistory, options metav1.ListOptions) (watch.Interface, error) {
	if c.isSecret {
		return o.Cluster.Client().CoreV1().Secrets(o.Namespace).Watch(ctx, options)
	}
	return o.ConfigMaps().Watch(ctx, options)
}

// recall records the states since a version, of which there was no watch: it asks for the copy at every version until now.
func (o *oracle) recall(ctx context.Context, c *copyHistory, since uint64) (now uint64) {
	for {
		var err error // Older states come first.
		if now, err = o.list(ctx, c.unrecorded(), metav1.ListOptions{}); err == nil {
			break
		}
		if ctx.Err() != nil {
			return since
		}
		<-time.After(20 * time.Millisecond)
	}
	for version := since + 1; version <= now; {
		_, err := o.list(ctx, c, metav1.ListOptions{
			ResourceVersion: strconv.FormatUint(version, 10), ResourceVersionMatch: metav1.ResourceVersionMatchExact,
		})
		switch {
		case ctx.Err() != nil:
			return now
		case err == nil || apierrors.IsResourceExpired(err):
			version++
		default:
			<-time.After(20 * time.Millisecond)
		}
	}
	return now
}

// observe looks at the files of all pods until ctx ends.
func (o *oracle) observe(ctx context.Context) {
	for ctx.Err() == nil {
		o.mu.Lock()
		pods := slices.Clone(o.pods)
		o.mu.Unlock()
		for _, pod := range pods {
			for _, c := range o.copies {
				o.look(ctx, pod, c)
			}
		}
		<-time.After(time.Millisecond)
	}
}

// look records what a pod has, if that is something else than before.
func (o *oracle) look(ctx context.Context, pod *corev1.Pod, c *copyHistory) {
	text, err := os.ReadFile(o.Path(pod, c.file))
	value := environment.Unmarked(string(text))
	if err != nil {
		value = err.Error()
	}
	o.mu.Lock()
	last := o.seen[pod][c]
	isGone := o.gone[pod] && errors.Is(err, fs.ErrNotExist)
	o.mu.Unlock()
	if isGone || len(last) > 0 && last[len(last)-1].value == value {
		return
	}
	o.note(ctx, pod, c, value)
}

// last returns what a pod is known to have.
func (o *oracle) last(pod *corev1.Pod, c *copyHistory) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := o.seen[pod][c]
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1].value
}

// note records what a pod has by now.
func (o *oracle) note(ctx context.Context, pod *corev1.Pod, c *copyHistory, value string) {
	probe := c.unrecorded()
	for {
		if _, err := o.list(ctx, probe, metav1.ListOptions{}); err == nil {
			break
		}
		if ctx.Err() != nil {
			return
		}
		<-time.After(20 * time.Millisecond)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.seen[pod] == nil {
		o.seen[pod] = map[*copyHistory][]observation{}
	}
	o.seen[pod][c] = append(o.seen[pod][c], observation{value, probe.states[0].version})
}

// judge compares what each pod has had with what the copies said at that moment.
func (o *oracle) judge() {
	o.T.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	looks := 0
	for pod, byCopy := range o.seen {
		for c, observations := range byCopy {
			looks += len(observations)
			if i, at := c.unexplained(observations, string(pod.UID)); i >= 0 {
				o.T.Errorf("pod %s has had %s of %s, which was neither stable nor exposed to it then: it had a state of version %d or later before, "+
					"and the copy had version %d. All that it has had: %v. All states: %v",
					pod.Name, observations[i].value, c.name, c.states[at].version, observations[i].atMost, observations, c.states)
			}
		}
	}
	states := 0
	for _, c := range o.copies {
		states += len(c.states)
	}
	o.T.Logf("%d states of the stable copies explain %d different things that pods have had", states, looks)
}

// unexplained returns the first observation of a pod that no state explains, and the state of the one before; -1 for none. A
// candidate that a pod had and lost comes back by a later state only, because no test makes an edit twice, unless the copy of
// another object of its group was missing: without that the candidate is half of a group.
func (c *copyHistory) unexplained(observations []observation, uid string) (i, at int) {
	last := map[string]int{} // The state by which a candidate was seen.
	for i, seen := range observations {
		least := at
		if before, wasSeen := last[seen.value]; wasSeen && !c.wereMissing(c.states[before].version, seen.atMost) {
			least = max(at, before+1)
		}
		next := c.from(least, seen, uid)
		if next < 0 {
			return i, at
		}
		if at = next; c.states[at].value != seen.value {
			last[seen.value] = at
		}
	}
	return -1, at
}

// wereMissing reports whether the copy of another object of the group was missing between two versions.
func (c *copyHistory) wereMissing(from, to uint64) bool {
	return slices.ContainsFunc(c.beside, func(other *copyHistory) bool {
		for i, s := range other.states {
			isBack := i+1 < len(other.states) && other.states[i+1].version < from
			if s.isAbsent && s.version <= to && !isBack {
				return true
			}
		}
		return false
	})
}

// from returns the first state that explains what a pod has had, not before another one, and not after what was the last then;
// -1 for none.
func (c *copyHistory) from(at int, seen observation, uid string) int {
	number, err := strconv.Atoi(seen.value)
	if err != nil {
		return -1
	}
	digest := digestOf(c.data(number))
	for i := at; i < len(c.states) && c.states[i].version <= seen.atMost; i++ {
		s := c.states[i]
		isIt := s.isAbsent || s.value == seen.value || s.exposure.Shows(uid, digest)
		if isIt && (c.mayHave == nil || c.mayHave(number, s)) {
			return i
		}
	}
	return -1
}

func digestOf(data map[string]string) string {
	content := map[string][]byte{}
	for key, value := range data {
		content[key] = []byte(value)
	}
	return release.Digest(content)
}

func (s copyState) String() string {
	if s.isAbsent {
		return fmt.Sprintf("%d: absent", s.version)
	}
	return fmt.Sprintf("%d: %s, %s step %d, %v below %g", s.version, s.value, s.exposure.State, s.exposure.Step, s.exposure.Pods, s.exposure.Threshold)
}

// TestOracle: what pods have had is explained by the states of a copy in their order, and by no later one.
func TestOracle(t *testing.T) {
	t.Parallel()
	shown := func(number int) release.Exposure {
		return release.Exposure{Digest: digestOf(tlsData(number)), Pods: []string{"pod"}}
	}
	states := []copyState{ // An edit is shown to the pod and taken back; the next one is promoted.
		{version: 10, value: "1"},
		{version: 20, value: "1", exposure: shown(2)},
		{version: 30, value: "1"},
		{version: 40, value: "3"},
		{version: 50, isAbsent: true},
		{version: 60, value: "3"},
	}
	const ofAGroup = "once more, after the other object of the group had no copy"
	tests := map[string]struct {
		seen []observation
		want bool
	}{
		"at its time":                       {[]observation{{"1", 10}, {"2", 20}, {"1", 30}, {"3", 40}}, true},
		"late":                              {[]observation{{"1", 10}, {"2", 40}, {"1", 40}, {"3", 40}}, true},
		"before it was exposed":             {[]observation{{"2", 19}}, false},
		"before it was promoted":            {[]observation{{"1", 10}, {"3", 30}}, false},
		"once more after it was taken back": {[]observation{{"2", 20}, {"1", 30}, {"2", 40}}, false},
		"once more":                         {[]observation{{"2", 20}, {"1", 20}, {"2", 20}}, false},
		ofAGroup:                            {[]observation{{"2", 20}, {"1", 24}, {"2", 24}}, true},
		"stable once more":                  {[]observation{{"3", 40}, {"1", 40}}, false},
		"new while there is no copy":        {[]observation{{"4", 50}}, true},
		"still after the copy is back":      {[]observation{{"4", 50}, {"3", 60}, {"4", 60}}, false},
		"something else":                    {[]observation{{"torn", 40}}, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &copyHistory{data: tlsData, states: states}
			if name == ofAGroup {
				c.beside = []*copyHistory{{states: []copyState{{version: 12}, {version: 22, isAbsent: true}, {version: 25}}}}
			}
			if i, _ := c.unexplained(tc.seen, "pod"); i < 0 != tc.want {
				t.Errorf("observation %d is not explained, want that all are: %t", i, tc.want)
			}
		})
	}
}
