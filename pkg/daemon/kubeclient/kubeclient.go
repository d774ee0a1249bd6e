// Package kubeclient makes clients of the API server for the few types that the driver reads and
// writes. The typed clients of the client library include every type, which takes megabytes of
// memory on each node.
//
// It does not know the requests, or their credentials.
package kubeclient

import (
	"errors"
	"fmt"
	"net/http"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

// Types are the types of clients. They are made once and shared.
type Types struct {
	scheme *runtime.Scheme
	codecs serializer.CodecFactory
}

// New returns the types of the groups core, authorization.k8s.io and storage.k8s.io, each in
// version v1.
func New() (*Types, error) {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	err := errors.Join(corev1.AddToScheme(scheme), authorizationv1.AddToScheme(scheme), storagev1.AddToScheme(scheme))
	if err != nil {
		return nil, fmt.Errorf("register the types of the API: %w", err)
	}
	return &Types{scheme: scheme, codecs: serializer.NewCodecFactory(scheme)}, nil
}

// Codecs returns the codecs of objects.
func (t *Types) Codecs() serializer.CodecFactory { return t.codecs }

// Parameters returns the codec of request options in URLs.
func (t *Types) Parameters() runtime.ParameterCodec { return runtime.NewParameterCodec(t.scheme) }

// Client returns a client of one group and version, which sends its requests with c. It uses the
// address and the content type of the configuration.
func (t *Types) Client(config *rest.Config, c *http.Client, group schema.GroupVersion) (rest.Interface, error) {
	config = rest.CopyConfig(config)
	config.GroupVersion, config.APIPath = &group, "/apis"
	if group.Group == corev1.GroupName {
		config.APIPath = "/api"
	}
	config.NegotiatedSerializer = t.codecs.WithoutConversion()
	client, err := rest.RESTClientForConfigAndClient(config, c)
	if err != nil {
		return nil, fmt.Errorf("make a client for %s: %w", group, err)
	}
	return client, nil
}
