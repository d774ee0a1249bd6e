package cluster

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/source"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/copies"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
)

// Contents reads what copies and sources of one namespace hold, each once.
type Contents struct {
	client    kubernetes.Interface
	namespace string
	read      map[trigger.Object]content
}

func NewContents(client kubernetes.Interface, namespace string) *Contents {
	return &Contents{client: client, namespace: namespace, read: map[trigger.Object]content{}}
}

// content is what came of reading an object.
type content struct {
	// Exists says that it was found and read, and data is what it holds by key.
	Exists bool
	Data   map[string][]byte
	// CopyName is what a copy of it as it is would be called; verified says whether it is a copy itself, and a good one.
	CopyName string
	Verified error
	// Err is why it could not be read. That it does not exist is none.
	Err error
}

// Of reads an object.
func (c *Contents) Of(ctx context.Context, o trigger.Object) content {
	if is, found := c.read[o]; found {
		return is
	}
	is, err := c.get(ctx, o)
	switch {
	case apierrors.IsNotFound(err):
		is = content{}
	case err != nil:
		is = content{Err: fmt.Errorf("read %s: %w", o, err)}
	}
	c.read[o] = is
	return is
}

func (c *Contents) get(ctx context.Context, o trigger.Object) (content, error) {
	is := content{Exists: true}
	if o.Kind == api.Secret {
		secret, err := c.client.CoreV1().Secrets(c.namespace).Get(ctx, o.Name, metav1.GetOptions{})
		if err != nil {
			return content{}, err
		}
		is.Data = source.ContentOfSecret(secret).Data
		digest := copies.DigestOf(secret)
		is.CopyName, is.Verified = copies.Name(o.Name, digest), copies.Verify(secret, digest)
		return is, nil
	}
	configMap, err := c.client.CoreV1().ConfigMaps(c.namespace).Get(ctx, o.Name, metav1.GetOptions{})
	if err != nil {
		return content{}, err
	}
	is.Data = source.ContentOfConfigMap(configMap).Data
	digest := copies.DigestOf(configMap)
	is.CopyName, is.Verified = copies.Name(o.Name, digest), copies.Verify(configMap, digest)
	return is, nil
}
