package release

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/release"
)

// span is a time in which a pod that was Ready had one content of an object in its files.
type span struct {
	from, to time.Time
}

// ruling is what the annotation asked for from a time on.
type ruling struct {
	at time.Time
	// pause is how long a step lasts; zero for an annotation that asks for no evidence.
	pause time.Duration
}

// evidence is what a release of one object has to go by.
type evidence struct {
	mu      sync.Mutex // Guards the fields below.
	spans   map[string][]*span
	rulings []ruling
}

func newEvidence() *evidence { return &evidence{spans: map[string][]*span{}} }

// begin returns a new span of a value.
func (e *evidence) begin(value string, from, to time.Time) *span {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := &span{from, to}
	e.spans[value] = append(e.spans[value], s)
	return s
}

func (e *evidence) extend(s *span, to time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s.to = to
}

// rule notes an annotation that somebody writes.
func (e *evidence) rule(pause time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.rulings = append(e.rulings, ruling{time.Now(), pause})
}

// needed returns for how long a content must have been seen that was shown from a time on and promoted at another one: the
// shortest of the pauses that were in force.
func (e *evidence) needed(from, to time.Time) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	shortest := time.Duration(-1)
	for i, r := range e.rulings {
		isOver := i+1 < len(e.rulings) && e.rulings[i+1].at.Before(from)
		if !isOver && !r.at.After(to) && (shortest < 0 || r.pause < shortest) {
			shortest = r.pause
		}
	}
	return max(shortest, 0)
}

// covered returns for how long at least one pod that was Ready had a value until a time.
func (e *evidence) covered(value string, until time.Time) (sum time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	spans := slices.Clone(e.spans[value])
	slices.SortFunc(spans, func(a, b *span) int { return a.from.Compare(b.from) })
	var end time.Time
	for _, s := range spans {
		from, to := s.from, s.to
		if to.After(until) {
			to = until
		}
		if from.Before(end) {
			from = end
		}
		if to.After(from) {
			sum += to.Sub(from)
			end = to
		}
	}
	return sum
}

// unproven returns what is wrong with the contents that became stable: each was seen in the files of pods that were Ready for
// the time of a step, unless a person has said so, or it was stable before.
func (c *copyHistory) unproven(e *evidence) (wrong []string, automatic int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := map[string]bool{}
	var before copyState
	for i, s := range c.states {
		if s.isAbsent {
			before = copyState{isAbsent: true}
			continue
		}
		isChanged := i > 0 && s.value != before.value
		if isChanged {
			text, isAutomatic := c.unprovenChange(e, i, before, known)
			if text != "" {
				wrong = append(wrong, text)
			}
			if isAutomatic {
				automatic++
			}
		}
		known[s.value] = true
		before = s
	}
	return wrong, automatic
}

// unprovenChange returns what is wrong with one change, and whether the controller has made it by itself.
func (c *copyHistory) unprovenChange(e *evidence, i int, before copyState, known map[string]bool) (wrong string, isAutomatic bool) {
	s := c.states[i]
	number, err := strconv.Atoi(s.value)
	isPromoted := err == nil && s.last.Outcome == release.Promoted && s.last.Digest == digestOf(c.data(number))
	switch {
	case before.isAbsent && known[s.value]: // The copy was made again.
		return "", false
	case before.isAbsent:
		return fmt.Sprintf("%s became stable with a new copy, and was never stable before: %s", s.value, s), false
	case !isPromoted && known[s.value] && s.exposure.State == release.Reverted && strings.HasPrefix(s.exposure.Reason, "undone"):
		return "", false
	case !isPromoted:
		return fmt.Sprintf("%s became stable, and no promotion says why: %s", s.value, s), false
	case s.last.Reason != "":
		return "", false // By a person.
	}
	from := s.last.At
	for _, other := range c.states[:i] {
		if other.exposure.Digest == s.last.Digest && !other.exposure.Since.IsZero() && other.exposure.Since.Before(from) {
			from = other.exposure.Since
		}
	}
	const tolerance = 300 * time.Millisecond
	until := s.last.At.Add(time.Second) // It is known in whole seconds.
	if s.heard.Before(until) {
		until = s.heard
	}
	needed, covered := e.needed(from, until), e.covered(s.value, until)
	if covered+tolerance < needed {
		return fmt.Sprintf("%s became stable at %s although pods that were Ready had it for %s only, want %s: %s",
			s.value, s.last.At.Format(time.StampMilli), covered, needed, s), true
	}
	return "", needed > 0
}

// half returns why a pod has half of a group: it has an edit of one object that was only ever released together with another
// edit of the other object, and an older one of that; empty for no reason.
func half(one, two *copyHistory, first, second int) string {
	others := one.partnersOf(two, first)
	if len(others) == 0 || slices.ContainsFunc(others, func(number int) bool { return number <= second }) {
		return ""
	}
	return fmt.Sprintf("%d of %s and %d of %s, but %d was only ever released together with %v", first, one.name, second, two.name, first, others)
}

// partnersOf returns the edits of another object that an edit was released together with; none if it was ever released alone.
func (c *copyHistory) partnersOf(other *copyHistory, number int) (numbers []int) {
	digest := digestOf(c.data(number))
	for _, together := range c.togethers(digest) {
		partner := other.releasedBy(together)
		if partner == 0 {
			return nil
		}
		numbers = append(numbers, partner)
	}
	return numbers
}

// togethers returns what stands for the releases of a content.
func (c *copyHistory) togethers(digest string) (all []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.states {
		together := s.exposure.Together()
		if s.exposure.Digest == digest && !slices.Contains(all, together) {
			all = append(all, together)
		}
	}
	return all
}

// releasedBy returns the edit that was released by what stands for a release; 0 for none.
func (c *copyHistory) releasedBy(together string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.states, func(s copyState) bool { return together != "" && s.exposure.Together() == together })
	if i < 0 {
		return 0
	}
	for number := 1; number <= c.newest; number++ {
		if digestOf(c.data(number)) == c.states[i].exposure.Digest {
			return number
		}
	}
	return 0
}

// waitFor waits, unless ctx ends.
func waitFor(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// TestEvidence: what became stable was seen for the time of a step, or there is a reason why it was not.
func TestEvidence(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	at := func(seconds float64) time.Time { return begin.Add(time.Duration(seconds * float64(time.Second))) }
	digest := digestOf(tlsData(2))
	shown := copyState{version: 2, value: "1", uid: "a", exposure: release.Exposure{Digest: digest, Since: at(1)}}
	promoted := copyState{version: 3, value: "2", uid: "a", last: release.Entry{Digest: digest, Outcome: release.Promoted, At: at(4)}, heard: at(4)}
	byPerson, undone := promoted, copyState{version: 4, value: "1", uid: "a", exposure: release.Exposure{Digest: digest, State: release.Reverted, Reason: "undone by me"}}
	byPerson.last.Reason = "promoted by me"
	unsaid, again := promoted, promoted
	unsaid.last = release.Entry{}
	again.uid, again.last = "b", release.Entry{}
	first, absent := copyState{version: 1, value: "1", uid: "a"}, copyState{version: 3, isAbsent: true}
	tests := map[string]struct {
		states []copyState
		spans  [][2]float64
		pauses []ruling
		want   bool
	}{
		"seen for the pause":              {[]copyState{first, shown, promoted}, [][2]float64{{1.1, 5}}, []ruling{{at(0), 2 * time.Second}}, true},
		"by two pods in turn":             {[]copyState{first, shown, promoted}, [][2]float64{{1.1, 2.1}, {2, 3.1}}, []ruling{{at(0), 2 * time.Second}}, true},
		"at the last moment":              {[]copyState{first, shown, promoted}, [][2]float64{{3.5, 5}}, []ruling{{at(0), 2 * time.Second}}, false},
		"by two pods at once":             {[]copyState{first, shown, promoted}, [][2]float64{{1.1, 2.1}, {1.1, 2.1}}, []ruling{{at(0), 2 * time.Second}}, false},
		"only afterwards":                 {[]copyState{first, shown, promoted}, [][2]float64{{4, 9}}, []ruling{{at(0), 2 * time.Second}}, false},
		"never":                           {[]copyState{first, shown, promoted}, nil, []ruling{{at(0), 2 * time.Second}}, false},
		"nobody asked for it":             {[]copyState{first, shown, promoted}, nil, []ruling{{at(0), 0}}, true},
		"nobody asked for it meanwhile":   {[]copyState{first, shown, promoted}, nil, []ruling{{at(0), time.Second}, {at(2), 0}, {at(3), time.Second}}, true},
		"nobody asked for it earlier":     {[]copyState{first, shown, promoted}, nil, []ruling{{at(0), 0}, {at(0.5), time.Second}}, false},
		"a person has said so":            {[]copyState{first, shown, byPerson}, nil, []ruling{{at(0), time.Second}}, true},
		"nobody has said so":              {[]copyState{first, shown, unsaid}, [][2]float64{{1, 9}}, []ruling{{at(0), time.Second}}, false},
		"undone":                          {[]copyState{first, shown, byPerson, undone}, nil, []ruling{{at(0), time.Second}}, true},
		"made again":                      {[]copyState{first, shown, absent, {version: 4, value: "1", uid: "b"}}, nil, []ruling{{at(0), time.Second}}, true},
		"made again with another content": {[]copyState{first, shown, absent, again}, nil, []ruling{{at(0), time.Second}}, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEvidence()
			e.rulings = tc.pauses
			for _, s := range tc.spans {
				e.begin("2", at(s[0]), at(s[1]))
			}
			c := &copyHistory{name: "tls", data: tlsData, states: tc.states}
			if wrong, _ := c.unproven(e); (len(wrong) == 0) != tc.want {
				t.Errorf("%q is wrong, want that nothing is: %t", wrong, tc.want)
			}
		})
	}
}

// TestHalf: a pod has half of a group if it has an edit without the one that it was released together with.
func TestHalf(t *testing.T) {
	t.Parallel()
	both, alone := map[string]string{"configmap/web": "20", "secret/tls": "21"}, map[string]string{"configmap/web": "30"}
	exposed := func(data map[string]string, with map[string]string) copyState {
		return copyState{exposure: release.Exposure{Digest: digestOf(data), With: with}}
	}
	one := &copyHistory{name: "web", data: webData, newest: 3, states: []copyState{exposed(webData(2), both), exposed(webData(3), alone)}}
	two := &copyHistory{name: tlsName, data: tlsData, newest: 3, states: []copyState{exposed(tlsData(2), both)}}
	tests := map[string]struct {
		first, second int
		want          bool
	}{
		"none of it": {1, 1, false}, "all of it": {2, 2, false}, "one of it": {2, 1, true}, "alone": {3, 1, false}, "a newer one": {2, 3, false},
	}
	for name, tc := range tests {
		if got := half(one, two, tc.first, tc.second); (got != "") != tc.want {
			t.Errorf("%s: %q, want a half: %t", name, got, tc.want)
		}
	}
}
