package kubeclient_test

import (
	"bytes"
	"io"
	"net/http"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/liveconfig-csi/liveconfig/pkg/daemon/kubeclient"
)

// recorder answers each request with an object in the form that was asked for first, and
// remembers it.
type recorder struct {
	types  *kubeclient.Types
	answer runtime.Object
	seen   *http.Request
	body   []byte
}

func (r *recorder) RoundTrip(request *http.Request) (*http.Response, error) {
	r.seen = request
	if request.Body != nil {
		var err error
		if r.body, err = io.ReadAll(request.Body); err != nil {
			return nil, err
		}
	}
	body := &bytes.Buffer{}
	encoder := r.types.Codecs().LegacyCodec(r.answer.GetObjectKind().GroupVersionKind().GroupVersion())
	if err := encoder.Encode(r.answer, body); err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: http.StatusOK, Body: io.NopCloser(body), Header: http.Header{"Content-Type": {"application/json"}}, Request: request,
	}, nil
}

// TestClient asks for one object of each group: each is where the API server has it, and is
// understood.
func TestClient(t *testing.T) {
	t.Parallel()
	types, err := kubeclient.New()
	if err != nil {
		t.Fatal(err)
	}
	named := metav1.ObjectMeta{Name: "thing"}
	tests := map[string]struct {
		group    schema.GroupVersion
		resource string
		answer   runtime.Object
		into     func() metav1.Object
		want     string
	}{
		"core": {
			corev1.SchemeGroupVersion, "configmaps",
			&corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: named},
			func() metav1.Object { return &corev1.ConfigMap{} }, "/api/v1/configmaps/thing",
		},
		"storage": {
			storagev1.SchemeGroupVersion, "csidrivers",
			&storagev1.CSIDriver{TypeMeta: metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "CSIDriver"}, ObjectMeta: named},
			func() metav1.Object { return &storagev1.CSIDriver{} }, "/apis/storage.k8s.io/v1/csidrivers/thing",
		},
		"authorization": {
			authorizationv1.SchemeGroupVersion, "subjectaccessreviews",
			&authorizationv1.SubjectAccessReview{
				TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SubjectAccessReview"}, ObjectMeta: named,
			},
			func() metav1.Object { return &authorizationv1.SubjectAccessReview{} },
			"/apis/authorization.k8s.io/v1/subjectaccessreviews/thing",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &recorder{types: types, answer: tt.answer}
			config := &rest.Config{Host: "https://api", ContentConfig: rest.ContentConfig{ContentType: "application/vnd.kubernetes.protobuf"}}
			client, err := types.Client(config, &http.Client{Transport: r}, tt.group)
			if err != nil {
				t.Fatal(err)
			}
			got := tt.into()
			object, ok := got.(runtime.Object)
			if !ok {
				t.Fatalf("%T is not an object", got)
			}
			err = client.Get().Resource(tt.resource).Name("thing").
				VersionedParams(&metav1.GetOptions{ResourceVersion: "7"}, types.Parameters()).Do(t.Context()).Into(object)
			if err != nil || got.GetName() != "thing" {
				t.Errorf("the answer is %v, %v, want thing", got, err)
			}
			if url := r.seen.URL; url.Path != tt.want || url.Query().Get("resourceVersion") != "7" {
				t.Errorf("asked for %s, want %s", url, tt.want)
			}
			if config.GroupVersion != nil || config.APIPath != "" {
				t.Error("the caller's configuration was changed")
			}
		})
	}
}

func TestClientOfABadConfiguration(t *testing.T) {
	t.Parallel()
	types, err := kubeclient.New()
	if err != nil {
		t.Fatal(err)
	}
	const want = "make a client for v1: "
	_, err = types.Client(&rest.Config{Host: "https://a b"}, http.DefaultClient, corev1.SchemeGroupVersion)
	if err == nil || err.Error()[:min(len(want), len(err.Error()))] != want {
		t.Errorf("Client = %v, want %s and the cause", err, want)
	}
}
