package fakeserver

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/kubeclient"
)

// responder is an error that knows the answer which it is on the wire.
type responder interface {
	error
	Response(r *http.Request) *http.Response
}

// Front is how an API server speaks to its clients.
type Front struct {
	T      *testing.T
	Types  *kubeclient.Types
	kind   string // The content type.
	encode runtime.Encoder
}

// NewFront returns one that answers in protobuf.
func NewFront(t *testing.T) *Front {
	t.Helper()
	types, err := kubeclient.New()
	if err != nil {
		t.Fatal(err)
	}
	f := &Front{T: t, Types: types}
	f.Speak(runtime.ContentTypeProtobuf)
	return f
}

// Speak sets the content type of answers from now on.
func (f *Front) Speak(kind string) {
	f.T.Helper()
	codecs := f.Types.Codecs()
	info, ok := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), kind)
	if !ok {
		f.T.Fatalf("there is no %s", kind)
	}
	f.kind, f.encode = kind, codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion)
}

// Client returns a client of who answers, as the driver has one.
func (f *Front) Client(server http.RoundTripper) rest.Interface {
	f.T.Helper()
	config := &rest.Config{
		Host: "https://front", QPS: -1, ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeProtobuf},
	}
	client, err := f.Types.Client(config, &http.Client{Transport: server}, corev1.SchemeGroupVersion)
	if err != nil {
		f.T.Fatal(err)
	}
	return client
}

// bytesOf returns what an object is on the wire.
func (f *Front) bytesOf(o runtime.Object) []byte {
	data, err := runtime.Encode(f.encode, o.DeepCopyObject()) // Encoders write into what many tests share.
	if err != nil {
		f.T.Error(err)
	}
	return data
}

// Event returns the bytes of an event.
func (f *Front) Event(e watch.Event) []byte {
	event := &metav1.WatchEvent{Type: string(e.Type), Object: runtime.RawExtension{Raw: f.bytesOf(e.Object)}}
	if f.kind == runtime.ContentTypeJSON {
		return f.bytesOf(event)
	}
	data, err := event.Marshal()
	if err != nil {
		f.T.Error(err)
	}
	length := uint32(len(data)) //nolint:gosec // Events of tests are small.
	return append(binary.BigEndian.AppendUint32(nil, length), data...)
}

// Answer returns one with the object in it, or with the error. An error that is no
// status of the API is the network's.
func (f *Front) Answer(r *http.Request, o runtime.Object, err error) (*http.Response, error) {
	if p, ok := errors.AsType[responder](err); ok {
		return p.Response(r), nil
	}
	code := http.StatusOK
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
		said := status.Status()
		o, code = &said, int(said.Code)
	} else if err != nil {
		return nil, err
	}
	response := Respond(r, code, f.kind, io.NopCloser(bytes.NewReader(f.bytesOf(o))))
	if seconds, _ := apierrors.SuggestsClientDelay(err); code == http.StatusTooManyRequests && seconds > 0 {
		response.Header.Set("Retry-After", strconv.Itoa(seconds))
	}
	return response, nil
}

// Stream returns the answer that a watch is.
func (f *Front) Stream(r *http.Request, body io.ReadCloser) *http.Response {
	return Respond(r, http.StatusOK, f.kind+";stream=watch", body)
}

// Respond returns an answer.
func Respond(r *http.Request, code int, kind string, body io.ReadCloser) *http.Response {
	return &http.Response{
		Status: http.StatusText(code), StatusCode: code, Body: body, Request: r,
		Header: http.Header{"Content-Type": {kind}}, ContentLength: -1,
	}
}

// Asked returns what a request is for.
func (f *Front) Asked(r *http.Request) (verb string, ref api.Ref, opts metav1.ListOptions) {
	query := r.URL.Query()
	if err := metav1.Convert_url_Values_To_v1_ListOptions(&query, &opts, nil); err != nil {
		f.T.Error(err)
	}
	// That is /api/v1/namespaces/<namespace>/<resource>, and perhaps /<name>.
	const namespace, resource, name = 4, 5, 6
	path := append(strings.Split(r.URL.Path, "/"), "", "", "")
	kinds := map[string]api.Kind{"configmaps": api.ConfigMap, "secrets": api.Secret}
	kind, known := kinds[path[resource]]
	ref = api.Ref{Kind: kind, Namespace: path[namespace], Name: path[name]}
	verb = "get"
	switch selected := nameIn(opts.FieldSelector); {
	case ref.Name != "" && selected == "":
	case ref.Name == "" && selected != "" && opts.Watch:
		verb, ref.Name = "watch", selected
	case ref.Name == "" && selected != "":
		verb, ref.Name = "list", selected
	default:
		known = false
	}
	if !known || ref.Namespace == "" || r.Method != http.MethodGet {
		f.T.Errorf("%s %s, want one object selected by name", r.Method, r.URL)
	}
	return verb, ref, opts
}

// nameIn returns the name that a selector asks for; empty if it selects anything else.
func nameIn(selector string) string {
	parsed, err := fields.ParseSelector(selector)
	if err != nil || len(parsed.Requirements()) != 1 {
		return ""
	}
	name, _ := parsed.RequiresExactMatch(metav1.ObjectNameField)
	return name
}

// TextOf returns the text of an error, without the request.
func TextOf(err error) string {
	if sent, ok := errors.AsType[*url.Error](err); ok && err == error(sent) { //nolint:errorlint // A wrapper says more.
		err = sent.Err
	}
	return err.Error()
}

// Client returns one of the server.
func (c *Server) Client() rest.Interface { return c.Front.Client(c.Wire) }

// RoundTrip is [http.RoundTripper].
func (c *Server) RoundTrip(r *http.Request) (*http.Response, error) {
	if ref, ok := wholeKind(r); ok {
		return c.serveSelection(r, ref)
	}
	verb, ref, opts := c.Front.Asked(r)
	if c.takeSwallowed(verb, ref, opts) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	switch verb {
	case "get":
		o, err := c.get(ref)
		return c.Front.Answer(r, o, err)
	case "list":
		o, err := c.list(ref, opts)
		return c.Front.Answer(r, o, err)
	}
	w, err := c.watch(r.Context(), ref, opts)
	if err != nil {
		return c.Front.Answer(r, nil, err)
	}
	return c.Front.Stream(r, w), nil
}
