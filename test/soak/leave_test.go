package soak

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// leave deletes a pod in the API server. Its volumes are still there.
func (r *run) leave(p *pod) {
	pods := r.bench.Cluster.Client().CoreV1().Pods(r.home)
	r.mu.Lock()
	p.leaving = true
	r.mu.Unlock()
	r.try("delete pod "+p.Name, func(ctx context.Context) error {
		uid := p.UID
		err := pods.Delete(ctx, p.Name, metav1.DeleteOptions{
			GracePeriodSeconds: new(int64), Preconditions: &metav1.Preconditions{UID: &uid},
		})
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return nil
		}
		return err
	})
}

// unpublish takes a volume away.
func (r *run) unpublish(v *vol) {
	if err := r.takeAway(v); err != nil {
		r.failf("unpublish volume %s (%s): %v", v, v.describe(), err)
	}
}

func (r *run) takeAway(v *vol) error {
	v.gate.Lock()
	defer v.gate.Unlock()
	r.mu.Lock()
	if v.state == live {
		v.state = uncertain
	}
	r.mu.Unlock()
	err := r.callUnpublish(v)
	for begin := time.Now(); status.Code(err) == codes.Aborted && time.Since(begin) < patience; {
		pause(r.t.Context(), 20*time.Millisecond) // A call of which nothing was heard any more is being ended.
		err = r.callUnpublish(v)
	}
	r.log.note("  unpublish %s: %v", v, err)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	v.state, v.known = pending, false
	v.pod.volumes = slices.DeleteFunc(v.pod.volumes, func(o *vol) bool { return o == v })
	return r.nothingAt(v.target)
}

func (r *run) callUnpublish(v *vol) error {
	ctx, cancel := context.WithTimeout(r.t.Context(), callTimeout)
	defer cancel()
	err := r.answer(r.bench.Node.Unpublish(ctx, v.pod.Pod, v.name))
	if errors.Is(err, fs.ErrNotExist) { // The kubelet's own directory.
		return nil
	}
	return err
}

// clear takes away what is left of a pod that is leaving.
func (r *run) clear(p *pod) {
	r.mu.Lock()
	volumes := slices.Clone(p.volumes)
	r.mu.Unlock()
	each(volumes, r.unpublish)
	r.forget(p)
}

// forget removes a pod without volumes from the model and its directory.
func (r *run) forget(p *pod) {
	if err := os.RemoveAll(filepath.Join(r.bench.Node.KubeletDir(), "pods", string(p.UID))); err != nil {
		r.failf("remove the directory of pod %s: %v", p.Name, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pods, p.Name+" "+string(p.UID))
}

// unpublishUnknown takes away a volume that never was.
func (r *run) unpublishUnknown() {
	ctx, cancel := context.WithTimeout(r.t.Context(), callTimeout)
	defer cancel()
	n := r.name()
	_, err := r.bench.Node.Node().NodeUnpublishVolume(ctx, &csi.NodeUnpublishVolumeRequest{
		VolumeId:   "csi-" + n,
		TargetPath: filepath.Join(r.bench.Node.KubeletDir(), "pods", n, "volumes", "kubernetes.io~csi", "v", "mount"),
	})
	if err != nil {
		r.failf("unpublish an unknown volume: %v", err)
	}
}
