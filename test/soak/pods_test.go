package soak

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/fakekubelet"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
)

// How long calls may take: where all is well, and where the API server may not answer.
const (
	callTimeout  = 60 * time.Second
	upsetTimeout = 2 * time.Second
	patience     = 20 * time.Second // With a publish that ought to succeed.
)

func sortedPods(pods map[string]*pod) []*pod {
	all := make([]*pod, 0, len(pods))
	for _, p := range pods {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *pod) int { return strings.Compare(a.Name+string(a.UID), b.Name+string(b.UID)) })
	return all
}

// allVolumes returns the volumes of pods for which a condition holds.
func (r *run) allVolumes(is func(*vol) bool) []*vol {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []*vol
	for _, p := range sortedPods(r.pods) {
		for _, v := range p.volumes {
			if is(v) {
				all = append(all, v)
			}
		}
	}
	return all
}

func isLive(v *vol) bool    { return v.state == live && !v.pod.leaving }
func isPending(v *vol) bool { return v.state != live && !v.pod.leaving }
func isMounted(v *vol) bool { return v.state == live }
func isAny(*vol) bool       { return true }

// some returns at most n of the volumes, in any order.
func (r *run) some(all []*vol, n int) []*vol {
	r.rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:min(n, len(all))]
}

// anyPod returns a pod that is not leaving; nil if there is none.
func (r *run) anyPod() *pod {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := slices.DeleteFunc(sortedPods(r.pods), func(p *pod) bool { return p.leaving })
	if len(all) == 0 {
		return nil
	}
	return all[r.rand.IntN(len(all))]
}

// kind is what the replicas of a pod have in common.
type kind struct {
	account string
	fsGroup int // Below zero for none.
	specs   []spec
}

// newKind makes up a pod, or takes one that is there for a model: volumes of replicas share their files.
func (r *run) newKind() kind {
	if like := r.anyPod(); like != nil && r.rand.IntN(3) == 0 {
		k := kind{account: like.account, fsGroup: like.volumes[0].fsGroup}
		for _, v := range like.volumes {
			k.specs = append(k.specs, v.spec)
		}
		return k
	}
	k := kind{account: accounts[r.rand.IntN(len(accounts))], fsGroup: r.someID()}
	for range 1 + r.rand.IntN(1+r.rand.IntN(5)) {
		k.specs = append(k.specs, r.newSpec(k.fsGroup))
	}
	return k
}

// newPod makes a pod with volumes in the API server and the model. Nothing is published.
func (r *run) newPod(name string) *pod {
	k := r.newKind()
	account, fsGroup := k.account, k.fsGroup
	pods := r.bench.Cluster.Client().CoreV1().Pods(r.home)
	var known *corev1.Pod
	r.try("create pod "+name, func(ctx context.Context) (err error) {
		next := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       corev1.PodSpec{ServiceAccountName: account, Containers: []corev1.Container{{Name: "app", Image: "app"}}},
		}
		known, err = pods.Create(ctx, next, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) { // An earlier try did it, and returned an error.
			known, err = pods.Get(ctx, name, metav1.GetOptions{})
		}
		return err
	})
	p := &pod{account: account, Pod: &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.home, Name: name, UID: known.UID},
		Spec:       corev1.PodSpec{ServiceAccountName: account},
	}}
	if fsGroup >= 0 {
		id := int64(fsGroup)
		p.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: &id}
	}
	for i, s := range k.specs {
		v := &vol{spec: s, pod: p, name: fmt.Sprintf("v%d", i), floor: map[ref]int{}, seen: map[seenKey]int{}}
		fixture.AddVolume(p.Pod, v.name, v.attributes(r.home, r.rand.IntN(2) == 0))
		v.id, v.target = fakekubelet.VolumeID(p.Pod, v.name), r.bench.Node.Target(p.Pod, v.name)
		p.volumes = append(p.volumes, v)
		r.log.note("  volume %s (%s)", v, v.describe())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pods[name+" "+string(p.UID)] = p
	return p
}

func (v *vol) describe() string {
	return fmt.Sprintf("policy %s, removes %t, account %s, %s", v.policy, v.removes, v.pod.account,
		strings.ReplaceAll(v.long(v.pod.Namespace), "\n", "; "))
}

func (v *vol) inSpec() corev1.Volume {
	i := slices.IndexFunc(v.pod.Spec.Volumes, func(s corev1.Volume) bool { return s.Name == v.name })
	return v.pod.Spec.Volumes[i]
}

// publish publishes a volume as a kubelet does, which repeats what fails for a while. What comes of it is compared with
// the model.
func (r *run) publish(v *vol) {
	if v.state == live {
		r.republish(v)
		return
	}
	begin := time.Now()
	for {
		isSure, err := r.publishOnce(v)
		if err == nil || !isSure || !r.isWell() {
			return
		}
		r.mu.Lock()
		hope, _ := r.hopesOf(v)
		r.mu.Unlock()
		if hope != current {
			return
		}
		if time.Since(begin) > patience {
			r.failf("volume %s (%s) cannot be published although all is there: %v", v, v.describe(), err)
			return
		}
	}
}

// publishOnce makes one call for a volume that is not live. A failure that the driver has answered has left nothing.
func (r *run) publishOnce(v *vol) (isSure bool, err error) {
	timeout := upsetTimeout
	if r.isWell() {
		timeout = callTimeout
	}
	v.gate.Lock()
	defer v.gate.Unlock()
	r.mu.Lock()
	for _, src := range v.sources {
		by, _ := r.readerOf(v, src.ref)
		v.floor[src.ref] = max(v.floor[src.ref], r.rested[watched{by, src.ref}])
	}
	isDenied := slices.ContainsFunc(v.sources, func(s source) bool {
		a := r.accessOf(v, s.ref)
		return a != nil && a.level == nothing && time.Since(a.changed) > noticeAfter && r.hasLongBeenWell()
	})
	wasSure := v.state == pending
	v.state = uncertain
	r.mu.Unlock()
	isThere := len(environment.Mounts(r.t, v.target)) > 0

	ctx, cancel := context.WithTimeout(r.t.Context(), timeout)
	defer cancel()
	err = r.answer(r.bench.Node.Publish(ctx, v.pod.Pod, v.inSpec()))
	code := status.Code(err)
	isSure = err == nil || code != codes.DeadlineExceeded && code != codes.Canceled && ctx.Err() == nil && !isBroken(err)
	r.log.note("  publish %s: %s", v, code)

	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err == nil && isDenied && wasSure && r.isWell():
		r.failf("volume %s (%s) was published although its pod may not read its sources", v, v.describe())
	case err == nil:
		v.state, v.known, v.record = live, true, whole
	case !isSure:
	case isThere:
		r.failf("a repeat for volume %s (%s), which is mounted: %v", v, v.describe(), err)
	case code != codes.FailedPrecondition && code != codes.PermissionDenied && code != codes.Unavailable && code != codes.Aborted:
		r.failf("publish volume %s (%s): %v", v, v.describe(), err)
	case wasSure && code != codes.Aborted:
		v.state = pending
		if err := r.nothingAt(v.target); err != nil {
			r.failf("volume %s after a publish that failed: %v", v, err)
		}
	}
	return isSure, err
}

// isBroken reports whether the call ended because the driver did.
func isBroken(err error) bool {
	text := err.Error()
	return status.Code(err) == codes.Unavailable &&
		(strings.Contains(text, "error reading from server") || strings.Contains(text, "connection") || strings.Contains(text, "transport"))
}

// answer is what the driver has answered. It contains no secret.
func (r *run) answer(err error) error {
	if leak := environment.Leak([]byte(fmt.Sprint(err))); leak != nil {
		r.failf("the driver's answer: %v", leak)
	}
	return err
}

func (r *run) nothingAt(target string) error {
	if mounts := environment.Mounts(r.t, target); len(mounts) > 0 {
		return fmt.Errorf("mounts at %s: %q", target, mounts)
	}
	return fakekubelet.Gone(target)
}

// republish repeats the publish of a live volume, which must always succeed while a driver runs.
func (r *run) republish(v *vol) {
	if err := r.repeat(v); err != nil {
		r.failf("a repeat for the live volume %s (%s): %v", v, v.describe(), err)
	}
}

func (r *run) repeat(v *vol) error {
	ctx, cancel := context.WithTimeout(r.t.Context(), callTimeout)
	defer cancel()
	err := r.answer(r.bench.Node.Publish(ctx, v.pod.Pod, v.inSpec()))
	r.log.note("  repeat %s: %s", v, status.Code(err))
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !v.known || v.record == lost {
		v.record = whole
	}
	v.known = true
	return nil
}

// each calls for volumes in parallel.
func each(all []*vol, call func(*vol)) {
	const atATime = 8
	slots := make(chan struct{}, atATime)
	var wg sync.WaitGroup
	for _, v := range all {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			call(v)
		})
	}
	wg.Wait()
}

func (r *run) name() string {
	r.names++
	return fmt.Sprintf("n%d", r.names)
}

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
		return unless(apierrors.IsConflict, unless(apierrors.IsNotFound, err))
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
