package fakekubelet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Kubelet calls one driver for the pods of a node.
type Kubelet struct {
	dir    string
	driver string
	conn   *grpc.ClientConn

	mu      sync.Mutex // Guards the fields below.
	request TokenRequest
	tokens  map[types.UID]token // By pod.
}

// token is one that is held.
type token struct {
	status  authenticationv1.TokenRequestStatus
	refresh time.Time // When another one is asked for.
}

// TokenRequest asks the API server for a token of a pod's service account that is bound to the pod.
type TokenRequest func(ctx context.Context, pod *corev1.Pod) (authenticationv1.TokenRequestStatus, error)

// UseTokens makes the kubelet send the tokens of pods' service accounts, as kubelets do when the CSIDriver object has
// tokenRequests and serviceAccountTokenInSecrets.
func (k *Kubelet) UseTokens(request TokenRequest) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.request, k.tokens = request, map[types.UID]token{}
}

// New returns a kubelet with the root directory dir that reaches the driver of that name through a unix socket. It
// connects with the first call, and again after the driver was restarted. Close it.
func New(dir, driver, socket string) (*Kubelet, error) {
	// A kubelet dials again for each call. This one keeps its connection, so it must not hesitate to dial again.
	// A try gets as long as gRPC's own default: one without time of its own is cut off when the machine is busy, at worst
	// at the moment it becomes a connection, and the call with it.
	reconnect := grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: 5 * time.Millisecond, Multiplier: 1.5, MaxDelay: 100 * time.Millisecond},
		MinConnectTimeout: 20 * time.Second,
	}
	conn, err := grpc.NewClient("unix://"+socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithConnectParams(reconnect))
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", socket, err)
	}
	return &Kubelet{dir: dir, driver: driver, conn: conn}, nil
}

// Close hangs up.
func (k *Kubelet) Close() error { return k.conn.Close() }

// Node returns a client of the driver's Node service.
func (k *Kubelet) Node() csi.NodeClient { return csi.NewNodeClient(k.conn) }

// Identity returns a client of the driver's Identity service.
func (k *Kubelet) Identity() csi.IdentityClient { return csi.NewIdentityClient(k.conn) }

// Volumes returns the pod's inline volumes that belong to the driver.
func (k *Kubelet) Volumes(pod *corev1.Pod) []corev1.Volume {
	var volumes []corev1.Volume
	for _, v := range pod.Spec.Volumes {
		if v.CSI != nil && v.CSI.Driver == k.driver {
			volumes = append(volumes, v)
		}
	}
	return volumes
}

// Target returns where a volume of the pod is published.
func (k *Kubelet) Target(pod *corev1.Pod, volume string) string {
	return TargetPath(k.dir, pod, volume)
}

// Publish publishes one volume of the pod. Like a kubelet it makes the target's parent directory, and waits for a driver
// that is being started.
func (k *Kubelet) Publish(ctx context.Context, pod *corev1.Pod, volume corev1.Volume) error {
	req := PublishRequest(k.dir, pod, volume)
	if err := os.MkdirAll(filepath.Dir(req.GetTargetPath()), 0o750); err != nil {
		return fmt.Errorf("make the directory of volume %s: %w", volume.Name, err)
	}
	if err := k.addTokens(ctx, pod, req); err != nil {
		return err
	}
	_, err := k.Node().NodePublishVolume(ctx, req, grpc.WaitForReady(true))
	return err
}

func (k *Kubelet) addTokens(ctx context.Context, pod *corev1.Pod, req *csi.NodePublishVolumeRequest) error {
	status, err := k.token(ctx, pod)
	if err != nil || status.Token == "" {
		return err
	}
	text, err := json.Marshal(map[string]authenticationv1.TokenRequestStatus{"": status})
	if err != nil {
		return fmt.Errorf("encode the tokens: %w", err)
	}
	req.Secrets = map[string]string{"csi.storage.k8s.io/serviceAccount.tokens": string(text)}
	return nil
}

// token returns the pod's token. Like a kubelet it keeps one until four fifths of its life are over.
func (k *Kubelet) token(ctx context.Context, pod *corev1.Pod) (authenticationv1.TokenRequestStatus, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	if k.request == nil {
		return authenticationv1.TokenRequestStatus{}, nil
	}
	if held := k.tokens[pod.UID]; now.Before(held.refresh) {
		return held.status, nil
	}
	status, err := k.request(ctx, pod)
	if err != nil {
		return authenticationv1.TokenRequestStatus{}, err
	}
	life := status.ExpirationTimestamp.Sub(now)
	k.tokens[pod.UID] = token{status: status, refresh: now.Add(life / 5 * 4)}
	return status, nil
}

// PublishAll publishes every volume of the pod that belongs to the driver.
func (k *Kubelet) PublishAll(ctx context.Context, pod *corev1.Pod) error {
	for _, v := range k.Volumes(pod) {
		if err := k.Publish(ctx, pod, v); err != nil {
			return fmt.Errorf("publish volume %s of pod %s: %w", v.Name, pod.Name, err)
		}
	}
	return nil
}

// Unpublish takes one volume of the pod away. Like a kubelet it then removes the directories around the target, which
// fails when the driver left something behind.
func (k *Kubelet) Unpublish(ctx context.Context, pod *corev1.Pod, volume string) error {
	target := k.Target(pod, volume)
	_, err := k.Node().NodeUnpublishVolume(ctx, &csi.NodeUnpublishVolumeRequest{
		VolumeId: VolumeID(pod, volume), TargetPath: target,
	}, grpc.WaitForReady(true))
	if err != nil {
		return err
	}
	if err := Gone(target); err != nil {
		return err
	}
	return os.Remove(filepath.Dir(target))
}

// Gone returns an error when there is something at path.
func Gone(path string) error {
	switch _, err := os.Lstat(path); {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("%s is still there", path)
}

// UnpublishAll takes every volume of the pod away, and its directory.
func (k *Kubelet) UnpublishAll(ctx context.Context, pod *corev1.Pod) error {
	for _, v := range k.Volumes(pod) {
		if err := k.Unpublish(ctx, pod, v.Name); err != nil {
			return fmt.Errorf("unpublish volume %s of pod %s: %w", v.Name, pod.Name, err)
		}
	}
	return os.RemoveAll(filepath.Join(k.dir, "pods", string(pod.UID)))
}
