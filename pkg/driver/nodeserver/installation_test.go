package nodeserver_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/csidriver"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/nodeserver"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/state"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/volume"
)

// checkLogged checks that one line of the log holds every part.
func (b *bench) checkLogged(parts ...string) {
	b.t.Helper()
	for line := range strings.Lines(b.log.String()) {
		if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) }) {
			return
		}
	}
	b.t.Errorf("no line of the log holds all of %q:\n%s", parts, b.log.String())
}

// unnamed is a request whose data of the pod cannot be believed, and how it is refused.
type unnamed struct {
	change func(about map[string]string)
	want   string
}

// unnamedPods are what a kubelet sends without podInfoOnMount, when the pod's author has written nothing, a part, or all of what the
// kubelet would have written (trap 14), and for a PersistentVolume.
func unnamedPods() map[string]unnamed {
	const noPod = "the request does not name a pod: set podInfoOnMount: true in the CSIDriver object csi.example.test"
	const notInline = "only inline volumes are served: put the csi section into the pod's volumes, not into a PersistentVolume"
	without := func(key string) func(map[string]string) {
		return func(about map[string]string) { delete(about, "csi.storage.k8s.io/"+key) }
	}
	with := func(key, value string) func(map[string]string) {
		return func(about map[string]string) { about["csi.storage.k8s.io/"+key] = value }
	}
	tests := map[string]unnamed{
		"no context":                  {func(about map[string]string) { clear(about) }, noPod},
		"no pod name":                 {without("pod.name"), noPod},
		"no namespace":                {without("pod.namespace"), noPod},
		"no pod UID":                  {without("pod.uid"), noPod},
		"an empty pod UID":            {with("pod.uid", ""), noPod},
		"not inline":                  {without("ephemeral"), notInline},
		"said not to be inline":       {with("ephemeral", "false"), notInline},
		"inline, as the user sees it": {with("ephemeral", "True"), notInline},
		"attributes and nothing else": {
			func(about map[string]string) {
				maps.DeleteFunc(about, func(key, _ string) bool { return strings.HasPrefix(key, "csi.storage.k8s.io/") })
			},
			noPod,
		},
	}
	for name, uid := range map[string]string{
		"the UID of another pod":  "99999999-2222-3333-4444-555555555555",
		"the beginning of a UID":  "11111111",
		"dots":                    "..",
		"a UID that goes on":      podUID + "/volumes",
		"a way around":            "../pods/" + podUID,
		"the directory before it": ".",
	} {
		tests[name] = unnamed{
			func(about map[string]string) {
				about["csi.storage.k8s.io/pod.uid"] = uid
				about["csi.storage.k8s.io/pod.namespace"] = "kube-system"
			},
			`target_path "` + target + `" is not one of pod UID "` + uid + `": set podInfoOnMount: true in the CSIDriver object csi.example.test`,
		}
	}
	return tests
}

// TestPodsThatAreNotNamedAreRefused is trap 14: a request's data of its pod are believed only if the target path, which
// is always the kubelet's, is one of that pod.
func TestPodsThatAreNotNamedAreRefused(t *testing.T) {
	t.Parallel()
	for name, tt := range unnamedPods() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, nil)
			request := publishRequest()
			tt.change(request.GetVolumeContext())
			_, err := b.NodePublishVolume(t.Context(), request)
			checkStatus(t, err, codes.InvalidArgument, tt.want)
			b.checkNothingGotThrough()
			checkNoToken(t, err.Error()+b.log.String())
		})
	}
}

// TestALongForgedUIDIsNotRepeatedWhole: it is the user's, and ends up in an Event and in the log.
func TestALongForgedUIDIsNotRepeatedWhole(t *testing.T) {
	t.Parallel()
	request := publishRequest()
	request.VolumeContext["csi.storage.k8s.io/pod.uid"] = strings.Repeat("\n", 1<<20)
	_, err := newBench(t, nil).NodePublishVolume(t.Context(), request)
	checkStatus(t, err, codes.InvalidArgument, `target_path "`+target+`" is not one of pod UID "`+strings.Repeat(`\n`, 64)+
		`": set podInfoOnMount: true in the CSIDriver object csi.example.test`)
}

// TestTheInstallationComesFirst: where the kubelet does not vouch for pods, no data of a request about its pod are so much as
// looked at, right or wrong, and the message shows what to do.
func TestTheInstallationComesFirst(t *testing.T) {
	t.Parallel()
	of := func(kind csidriver.Kind, err error) *csidriver.Error {
		return &csidriver.Error{Name: driverName, Kind: kind, Err: err}
	}
	away := errors.New("the API server is away")
	tests := map[string]struct {
		err  error
		code codes.Code
		want string
	}{
		"there is no object":             {of(csidriver.Missing, nil), codes.FailedPrecondition, of(csidriver.Missing, nil).Error()},
		"there was none":                 {of(csidriver.Missing, away), codes.FailedPrecondition, of(csidriver.Missing, away).Error()},
		"it does not say what it has to": {of(csidriver.Unvouched, nil), codes.FailedPrecondition, of(csidriver.Unvouched, nil).Error()},
		"it has not been read":           {of(csidriver.Unread, nil), codes.Unavailable, of(csidriver.Unread, nil).Error()},
		"it cannot be read":              {of(csidriver.Unread, away), codes.Unavailable, of(csidriver.Unread, away).Error()},
		"a wrapped one": {
			fmt.Errorf("at work: %w", of(csidriver.Unvouched, nil)), codes.FailedPrecondition, of(csidriver.Unvouched, nil).Error(),
		},
		"no kind at all": {errors.New("plain"), codes.Internal, "plain"},
	}
	requests := unnamedPods()
	requests["as it should be"] = unnamed{change: func(map[string]string) {}}
	for name, tt := range tests {
		for request, says := range requests {
			t.Run(name+", "+request, func(t *testing.T) {
				t.Parallel()
				b := newBench(t, tt.err)
				b.volumes.live = [2]string{volumeID, target + "-of-another"} // Which is none of this one's.
				request := publishRequest()
				says.change(request.GetVolumeContext())
				_, err := b.NodePublishVolume(t.Context(), request)
				checkStatus(t, err, tt.code, tt.want)
				b.checkNothingGotThrough()
				b.checkAsked(1)
				checkNoToken(t, err.Error()+b.log.String())
			})
		}
	}
}

// TestTheInstallationIsWaitedForAsLongAsTheCall: a call that its caller gave up holds nothing.
func TestTheInstallationIsWaitedForAsLongAsTheCall(t *testing.T) {
	t.Parallel()
	b := newBench(t, &csidriver.Error{Name: driverName, Kind: csidriver.Unread})
	b.installation.wait = true
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := b.NodePublishVolume(ctx, publishRequest())
		ended <- err
	}()
	<-b.installation.asked
	cancel()
	if got := status.Code(<-ended); got != codes.Canceled {
		t.Errorf("code = %s, want %s", got, codes.Canceled)
	}
	b.checkNothingGotThrough() // The server's Stop, at the end of the test, waits for the call.
}

// TestTheInstallationIsWaitedForWhileTheKubeletListens: it gives a call two minutes, and shows nobody why one ran out of them.
func TestTheInstallationIsWaitedForWhileTheKubeletListens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		unread := &csidriver.Error{Name: driverName, Kind: csidriver.Unread}
		installation, volumes := newFakeInstallation(unread), &fakeVolumes{}
		installation.wait = true
		d := nodeserver.New(nodeserver.Config{
			Name: driverName, KubeletDir: kubeletDir, Installation: installation, Volumes: volumes,
		})
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		began := time.Now()
		_, err := d.NodePublishVolume(ctx, publishRequest())
		checkStatus(t, err, codes.Unavailable, unread.Error())
		if got, want := time.Since(began), 10*time.Second; got != want {
			t.Errorf("it took %s, want %s", got, want)
		}
		if volumes.touched() {
			t.Error("a request got through that should not")
		}
	})
}

func installations() map[string]error {
	return map[string]error{
		"installed":    nil,
		"deleted":      &csidriver.Error{Name: driverName, Kind: csidriver.Missing},
		"switched off": &csidriver.Error{Name: driverName, Kind: csidriver.Unvouched},
		"unknown":      &csidriver.Error{Name: driverName, Kind: csidriver.Unread, Err: errors.New("away")},
	}
}

// TestALiveVolumeIsRepeated: whatever has become of the installation, the volume hears of the repeat, and gets the token with it.
// This is fault 11.
func TestALiveVolumeIsRepeated(t *testing.T) {
	t.Parallel()
	for name, installed := range installations() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, installed)
			b.volumes.live = [2]string{volumeID, target}
			for range 2 {
				b.publish(publishRequest())
			}
			b.checkAsked(0)
			wantSame(t, "published", []state.Record{wantRecord(), wantRecord()}, b.volumes.published)
			want, err := access.ParseTokens(publishRequest().GetSecrets()[tokensKey], pod)
			if err != nil || want.IsZero() {
				t.Fatalf("ParseTokens = %v, %v, want a token", want, err)
			}
			if got := b.volumes.tokens; len(got) != 2 || got[0] != want || got[1] != want {
				t.Errorf("tokens = %v, want that of the request, twice", got)
			}
		})
	}
}

// TestALiveVolumeRefusesAnother: a request that names its pod and is no repeat is refused by the volumes, which know.
func TestALiveVolumeRefusesAnother(t *testing.T) {
	t.Parallel()
	b := newBench(t, &csidriver.Error{Name: driverName, Kind: csidriver.Unvouched})
	b.volumes.live = [2]string{volumeID, target}
	b.volumes.err = &volume.Error{Op: "publish", VolumeID: volumeID, Kind: volume.Different, Err: errors.New("other parameters")}
	_, err := b.NodePublishVolume(t.Context(), publishRequest())
	checkStatus(t, err, codes.AlreadyExists, "other parameters")
}

// TestALiveVolumeOutlivesItsPodInfo: podInfoOnMount is switched off while pods run. The kubelet, which would destroy the volume of a
// running pod, gets no error, and nothing in the request is used: not even a token.
func TestALiveVolumeOutlivesItsPodInfo(t *testing.T) {
	t.Parallel()
	for name, tt := range unnamedPods() {
		for installation, installed := range installations() {
			t.Run(name+", "+installation, func(t *testing.T) {
				t.Parallel()
				b := newBench(t, installed)
				b.volumes.live = [2]string{volumeID, target}
				b.volumes.err = &volume.Error{Op: "publish", VolumeID: volumeID, Kind: volume.Different, Err: errors.New("no repeat")}
				request := publishRequest()
				tt.change(request.GetVolumeContext())
				response, err := b.NodePublishVolume(t.Context(), request)
				checkMessage(t, response, &csi.NodePublishVolumeResponse{}, err)
				b.checkNothingGotThrough()
				b.checkAsked(0)
				checkNoToken(t, b.log.String())
			})
		}
	}
}
