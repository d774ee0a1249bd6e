package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/liveconfig-csi/liveconfig/test/kit/node"
)

// store holds the objects of a bench: an API server, or a directory of manifests.
type store interface {
	createConfigMap(ctx context.Context, cm *corev1.ConfigMap) (*corev1.ConfigMap, error)
	updateConfigMap(ctx context.Context, cm *corev1.ConfigMap) error
	deleteConfigMap(ctx context.Context, name string) error
	setSecret(ctx context.Context, secret *corev1.Secret) error
	// addPod makes a pod known, in the place of one with its name, and returns its UID.
	addPod(ctx context.Context, name, account string) (types.UID, error)
	// events returns the messages of the Events about a pod with a reason.
	events(ctx context.Context, n *node.Node, pod *corev1.Pod, reason string) ([]string, error)
}

// manifestStore is a directory of manifests, one for each object.
type manifestStore struct{ dir, namespace string }

func (s manifestStore) path(kind, name string) string {
	return filepath.Join(s.dir, kind+"-"+name+".json")
}

// put writes a manifest in one step.
func (s manifestStore) put(kind string, object runtime.Object, meta *metav1.ObjectMeta) error {
	meta.Namespace = s.namespace
	text, err := json.Marshal(object)
	if err != nil {
		return err
	}
	path := s.path(kind, meta.Name)
	if err := os.WriteFile(path+".tmp", text, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".tmp", path)
}

func (s manifestStore) createConfigMap(ctx context.Context, cm *corev1.ConfigMap) (*corev1.ConfigMap, error) {
	if _, err := os.Lstat(s.path("ConfigMap", cm.Name)); !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("configmap %s is there already (%w)", cm.Name, err)
	}
	return cm, s.updateConfigMap(ctx, cm)
}

func (s manifestStore) updateConfigMap(_ context.Context, cm *corev1.ConfigMap) error {
	cm.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}
	return s.put("ConfigMap", cm, &cm.ObjectMeta)
}

func (s manifestStore) deleteConfigMap(_ context.Context, name string) error {
	return os.Remove(s.path("ConfigMap", name))
}

func (s manifestStore) setSecret(_ context.Context, secret *corev1.Secret) error {
	secret.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}
	return s.put("Secret", secret, &secret.ObjectMeta)
}

func (manifestStore) addPod(context.Context, string, string) (types.UID, error) {
	return uuid.NewUUID(), nil
}

// events looks into the driver's log.
func (manifestStore) events(_ context.Context, n *node.Node, pod *corev1.Pod, reason string) ([]string, error) {
	log, err := os.ReadFile(n.LogFile())
	var found []string
	for line := range strings.Lines(string(log)) {
		if strings.Contains(line, "msg=Event pod="+pod.Namespace+"/"+pod.Name+" reason="+reason+" ") {
			found = append(found, strings.ReplaceAll(line, `\"`, `"`))
		}
	}
	return found, err
}

// clusterStore is an API server.
type clusterStore struct{ b *Bench }

func (s clusterStore) createConfigMap(ctx context.Context, cm *corev1.ConfigMap) (*corev1.ConfigMap, error) {
	return s.b.ConfigMaps().Create(ctx, cm, metav1.CreateOptions{})
}

func (s clusterStore) updateConfigMap(ctx context.Context, cm *corev1.ConfigMap) error {
	_, err := s.b.ConfigMaps().Update(ctx, cm, metav1.UpdateOptions{})
	return err
}

func (s clusterStore) deleteConfigMap(ctx context.Context, name string) error {
	return s.b.ConfigMaps().Delete(ctx, name, metav1.DeleteOptions{})
}

func (s clusterStore) setSecret(ctx context.Context, secret *corev1.Secret) error {
	secrets := s.b.Cluster.Client().CoreV1().Secrets(s.b.Namespace)
	_, err := secrets.Update(ctx, secret, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = secrets.Create(ctx, secret, metav1.CreateOptions{})
	}
	return err
}

// addPod makes a pod that tokens can be bound to.
func (s clusterStore) addPod(ctx context.Context, name, account string) (types.UID, error) {
	pods := s.b.Cluster.Client().CoreV1().Pods(s.b.Namespace)
	next := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{ServiceAccountName: account, Containers: []corev1.Container{{Name: "app", Image: "app"}}},
	}
	known, err := pods.Create(ctx, next, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		if err := pods.Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
			return "", err
		}
		known, err = pods.Create(ctx, next, metav1.CreateOptions{})
	}
	if err != nil {
		return "", err
	}
	return known.UID, nil
}

func (s clusterStore) events(ctx context.Context, _ *node.Node, pod *corev1.Pod, reason string) ([]string, error) {
	events, err := s.b.Cluster.Client().CoreV1().Events(s.b.Namespace).List(ctx,
		metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(pod.UID) + ",reason=" + reason})
	if err != nil {
		return nil, err
	}
	var messages []string
	for _, e := range events.Items {
		messages = append(messages, e.Message)
	}
	return messages, nil
}
