package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/nodes"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/versions"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/copies"
	"github.com/liveconfig-csi/liveconfig/pkg/statusz"
)

// addDriverNamespaceFlag adds the flag by which people say where the driver's pods are.
func addDriverNamespaceFlag(c *cobra.Command, namespace *string) {
	c.Flags().StringVar(namespace, "driver-namespace", nodes.DefaultNamespace, "namespace of the driver's pods, which tell what nodes have")
}

// cluster is what commands ask that look at pods: the API server, and the drivers of nodes.
type cluster struct {
	client  kubernetes.Interface
	meta    metadata.Interface
	drivers *nodes.Drivers
}

// cluster returns how to ask the cluster, whose driver's pods are in a namespace.
func (s *session) cluster(driverNamespace string) (*cluster, error) {
	config, err := s.config()
	if err != nil {
		return nil, err
	}
	client, errOfClient := kubernetes.NewForConfig(config)
	meta, errOfMeta := metadata.NewForConfig(config)
	if err := errors.Join(errOfClient, errOfMeta); err != nil {
		return nil, fmt.Errorf("prepare to ask the API server: %w", err)
	}
	return &cluster{client: client, meta: meta, drivers: nodes.New(config, client, driverNamespace)}, nil
}

// version returns which version of an object there is. What the object holds does not leave the API server.
func (c *cluster) version(ctx context.Context, of api.Ref) (versions.Now, error) {
	objects := c.meta.Resource(corev1.SchemeGroupVersion.WithResource(of.Kind.Resource() + "s")).Namespace(of.Namespace)
	object, err := objects.Get(ctx, of.Name, metav1.GetOptions{})
	return now(object, err, of)
}

// content returns which version of an object there is, and the name that a copy of it has. It takes the whole object to
// know that name.
func (c *cluster) content(ctx context.Context, of api.Ref) (versions.Now, error) {
	if of.Kind == api.Secret {
		object, err := c.client.CoreV1().Secrets(of.Namespace).Get(ctx, of.Name, metav1.GetOptions{})
		found, err := now(object, err, of)
		if found.Version != nil {
			found.Copies = []string{copies.Name(of.Name, copies.DigestOf(object))}
		}
		return found, err
	}
	object, err := c.client.CoreV1().ConfigMaps(of.Namespace).Get(ctx, of.Name, metav1.GetOptions{})
	found, err := now(object, err, of)
	if found.Version != nil {
		found.Copies = []string{copies.Name(of.Name, copies.DigestOf(object))}
	}
	return found, err
}

// now is what a get of an object says: that it does not exist is no error.
func now(object metav1.Object, err error, of api.Ref) (versions.Now, error) {
	switch {
	case apierrors.IsNotFound(err):
		return versions.Now{}, nil
	case apierrors.IsForbidden(err):
		return versions.Now{}, fmt.Errorf("you may not get %s", of)
	case err != nil:
		return versions.Now{}, fmt.Errorf("get %s: %w", of, err)
	}
	found := versions.Now{Version: &statusz.Version{UID: string(object.GetUID()), ResourceVersion: object.GetResourceVersion()}}
	found.ChangedAt = changedAt(object)
	return found, nil
}

// changedAt is when an object was last changed, as far as the API server has noted who changed it.
func changedAt(object metav1.Object) time.Time {
	last := object.GetCreationTimestamp().Time
	for _, field := range object.GetManagedFields() {
		if field.Time != nil && field.Time.After(last) {
			last = field.Time.Time
		}
	}
	return last
}

// remarkUnasked tells which nodes could not be asked, and why: those for one reason together.
func (s *session) remarkUnasked(answers map[string]nodes.Answer) {
	groups := map[string][]*nodes.Unavailable{}
	for _, node := range slices.Sorted(maps.Keys(answers)) {
		if err := answers[node].Err; err != nil {
			why := err.Reason() + strings.ReplaceAll(err.Type, node, "NODE")
			groups[why] = append(groups[why], err)
		}
	}
	for _, why := range slices.Sorted(maps.Keys(groups)) {
		var names []string
		for _, err := range groups[why] {
			names = append(names, err.Node)
		}
		first := groups[why][0]
		s.remark("the driver cannot be asked on %s: %s; see %s", list(names, "node", "nodes"), first.Reason(), first.Type)
	}
}

// list names one thing or a few, and counts many.
func list(names []string, one, many string) string {
	const most = 5
	switch {
	case len(names) == 1:
		return one + " " + names[0]
	case len(names) <= most:
		return many + " " + strings.Join(names, ", ")
	default:
		return fmt.Sprintf("%d %s (%s and others)", len(names), many, strings.Join(names[:most], ", "))
	}
}
