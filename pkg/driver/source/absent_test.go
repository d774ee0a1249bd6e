package source_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/identity"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/objectwatch/fakeserver"
)

// page is an answer that is not made by an API server, as proxies have them.
type page struct{ kind, text string }

func (p *page) Error() string { return p.text }

func (p *page) Response(r *http.Request) *http.Response {
	return fakeserver.Respond(r, http.StatusNotFound, p.kind, io.NopCloser(strings.NewReader(p.text)))
}

// notFound is what an API server answers about an object that does not exist, or whose namespace
// does not.
func notFound(resource, name string, change func(*metav1.Status)) error {
	err := apierrors.NewNotFound(corev1.Resource(resource), name)
	change(&err.ErrStatus)
	return err
}

func unchanged(*metav1.Status) {}

// TestOnlyTheAPIServersWordThatItIsGoneCounts for an object that is read by get: every other
// answer with the status 404 is an error. A proxy that lost its server, a wrong path, or an answer
// about something else is not about the object. This is a part of fault 25.
func TestOnlyTheAPIServersWordThatItIsGoneCounts(t *testing.T) {
	type test struct {
		answer error
		gone   bool
	}
	tests := map[string]test{
		"the object is not found":       {notFound("configmaps", "web", unchanged), true},
		"without the kind":              {notFound("configmaps", "web", func(s *metav1.Status) { s.Details.Kind = "" }), true},
		"a page of a proxy":             {&page{"text/html; charset=utf-8", "<html><body><h1>404 Not Found</h1></body></html>"}, false},
		"the text of an unknown path":   {&page{"text/plain; charset=utf-8", "404 page not found\n"}, false},
		"a page without a type":         {&page{"", "404 page not found\n"}, false},
		"nothing at all":                {&page{"text/plain", ""}, false},
		"JSON of a gateway":             {&page{"application/json", `{"message":"no Route matched with those values"}`}, false},
		"JSON that is cut off":          {&page{"application/json", `{"kind":"Status","apiVersion":"v1","status":"Fail`}, false},
		"a Status that is a success":    {&page{"application/json", `{"kind":"Status","apiVersion":"v1","status":"Success"}`}, false},
		"another object of that name":   {notFound("secrets", "web", unchanged), false},
		"another name":                  {notFound("configmaps", "webs", unchanged), false},
		"its namespace":                 {notFound("namespaces", "default", unchanged), false},
		"another group":                 {apierrors.NewNotFound(schema.GroupResource{Group: "x.org", Resource: "configmaps"}, "web"), false},
		"about nothing":                 {notFound("configmaps", "web", func(s *metav1.Status) { s.Details = nil }), false},
		"without a name":                {notFound("configmaps", "web", func(s *metav1.Status) { s.Details.Name = "" }), false},
		"without a reason":              {notFound("configmaps", "web", func(s *metav1.Status) { s.Reason = "" }), false},
		"for another reason, with 404":  {notFound("configmaps", "web", func(s *metav1.Status) { s.Reason = metav1.StatusReasonUnknown }), false},
		"of what a server did not know": {notFound("configmaps", "web", unexpected), false},
	}
	each(t, identity.Driver(), tests, func(b *bench, tt test) {
		o := b.putMap(configMap(web, "1"))
		b.onlyGets()
		defer b.acquire(web)()
		pass(untilPolled)
		b.want(web, polling(holding(o)))
		b.AnswerGets(tt.answer)
		pass(longestPause)
		if tt.gone {
			b.want(web, polling(known{Synced: true}))
		} else {
			b.wantStrange(web, o)
		}
		b.AnswerGets(nil)
		pass(longestPause)
		b.want(web, polling(holding(o)))
	})
}

// unexpected makes a status one that the client library has made up of an answer it did not
// understand.
func unexpected(s *metav1.Status) {
	s.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeUnexpectedServerResponse, Message: "404 page not found"}}
}

// wantStrange checks that a polled object is what it was, with an error that does not pass for
// its absence.
func (b *bench) wantStrange(ref api.Ref, was *corev1.ConfigMap) {
	b.t.Helper()
	err := b.Get(b.key(ref)).Err
	if err == nil || apierrors.IsNotFound(err) {
		b.t.Fatalf("what is wrong with %s: %v, want an error that is not the object's absence", ref, err)
	}
	for _, want := range []string{"configmap default/web", "404"} {
		if !strings.Contains(err.Error(), want) {
			b.t.Errorf("what is wrong: %v, want it to name %q", err, want)
		}
	}
	troubled := polling(holding(was))
	troubled.Err = fakeserver.TextOf(err)
	b.want(ref, troubled)
	b.wantForbidden(ref, "another error")
}
