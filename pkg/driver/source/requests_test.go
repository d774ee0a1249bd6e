package source_test

import (
	"slices"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

// all returns the requests so far.
func (c *cluster) all() []request {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.requests)
}

// story returns the verbs of the requests for an object so far, and each question about it.
func (c *cluster) story(ref api.Ref) []string {
	var verbs []string
	for _, r := range c.all() {
		if r.ref == ref {
			verbs = append(verbs, r.verb)
		}
	}
	return verbs
}

// requested returns the verbs of the requests for an object so far.
func (c *cluster) requested(ref api.Ref) []string {
	return slices.DeleteFunc(c.story(ref), func(verb string) bool { return verb == asking || verb == asserting })
}

// times returns when the requests of a verb for an object were made.
func (c *cluster) times(verb string, ref api.Ref) []time.Time {
	var times []time.Time
	for _, r := range c.all() {
		if r.verb == verb && r.ref == ref {
			times = append(times, r.at)
		}
	}
	return times
}

// count returns how many requests of the verb there were so far, for any object.
func (c *cluster) count(verb string) int {
	return len(slices.DeleteFunc(c.all(), func(r request) bool { return r.verb != verb }))
}
