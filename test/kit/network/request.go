package network

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/fields"
)

// Request is one that a front was asked.
type Request struct {
	// At is when it came in.
	At time.Time
	// Verb is the one that RBAC knows: get, list, watch, create and so on.
	Verb string
	// Resource to Name say what was asked for: «configmaps», the namespace if any, and the one object, also of a list or
	// watch that selects one by name. They are empty for a request outside the resources.
	Resource, Namespace, Name string
	// Version is the resource version that was asked for.
	Version string
	// Token is what the request came with.
	Token string
}

// requestOf reads a request of the kind that clients of Kubernetes make.
func requestOf(r *http.Request) Request {
	query := r.URL.Query()
	asked := Request{
		At: time.Now(), Verb: strings.ToLower(r.Method), Version: query.Get("resourceVersion"),
		Token: strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "),
	}
	switch path := strings.Split(strings.Trim(r.URL.Path, "/"), "/"); {
	case len(path) > 2 && path[0] == "api":
		asked.locate(path[2:])
	case len(path) > 3 && path[0] == "apis":
		asked.locate(path[3:])
	default:
		return asked
	}
	if selector, err := fields.ParseSelector(query.Get("fieldSelector")); err == nil && asked.Name == "" {
		asked.Name, _ = selector.RequiresExactMatch("metadata.name")
	}
	asked.Verb = verbOf(r, asked.Verb)
	return asked
}

// locate takes what follows the version in a path.
func (a *Request) locate(path []string) {
	if path[0] == "namespaces" && len(path) > 2 {
		a.Namespace, path = path[1], path[2:]
	}
	a.Resource = path[0]
	if len(path) > 1 {
		a.Name, a.Verb = path[1], "one "+a.Verb
	}
}

// verbOf returns the verb of a request to resources, of which it is known by then whether it is about one by its path.
func verbOf(r *http.Request, method string) string {
	watch := r.URL.Query().Get("watch")
	switch {
	case watch == "true" || watch == "1":
		return "watch"
	case method == "one get":
		return "get"
	case method == "get":
		return "list"
	case method == "post" || method == "one post":
		return "create"
	case method == "one put":
		return "update"
	}
	return strings.TrimPrefix(method, "one ")
}

// Verb matches requests with one of the verbs.
func Verb(verbs ...string) func(Request) bool {
	return func(r Request) bool { return slices.Contains(verbs, r.Verb) }
}

// About matches requests about one ConfigMap or Secret of a namespace, whatever their verb; the resource is as in URLs.
func About(resource, namespace, name string) func(Request) bool {
	return func(r Request) bool {
		return r.Resource == resource && r.Namespace == namespace && r.Name == name
	}
}

// All matches what all of the others match.
func All(of ...func(Request) bool) func(Request) bool {
	return func(r Request) bool {
		for _, matches := range of {
			if !matches(r) {
				return false
			}
		}
		return true
	}
}
