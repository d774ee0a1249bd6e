package fakeserver

import (
	"slices"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

// All returns the requests so far.
func (c *Server) All() []Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.requests)
}

// Story returns the verbs of the requests for an object so far, and each question about it.
func (c *Server) Story(ref api.Ref) []string {
	var verbs []string
	for _, r := range c.All() {
		if r.Ref == ref {
			verbs = append(verbs, r.Verb)
		}
	}
	return verbs
}

// Requested returns the verbs of the requests for an object so far.
func (c *Server) Requested(ref api.Ref) []string {
	return slices.DeleteFunc(c.Story(ref), func(verb string) bool { return verb == Asking || verb == Asserting })
}

// Times returns when the requests of a verb for an object were made.
func (c *Server) Times(verb string, ref api.Ref) []time.Time {
	var times []time.Time
	for _, r := range c.All() {
		if r.Verb == verb && r.Ref == ref {
			times = append(times, r.At)
		}
	}
	return times
}

// Count returns how many requests of the verb there were so far, for any object.
func (c *Server) Count(verb string) int {
	return len(slices.DeleteFunc(c.All(), func(r Request) bool { return r.Verb != verb }))
}

// OpenInAll returns how many watches the server has open.
func (c *Server) OpenInAll() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.watches)
}
