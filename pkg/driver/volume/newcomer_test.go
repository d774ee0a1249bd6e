package volume_test

import (
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/volume"
)

// errAway is what the network says when the API server is away.
var errAway = errors.New("connection refused")

// TestANewcomerIsNotServedWhatNobodyCouldAskFor: the right to what others still hold is gone, or may have gone while nobody
// could ask. The newcomer waits, and is served once that is over; the others keep their files.
func TestANewcomerIsNotServedWhatNobodyCouldAskFor(t *testing.T) {
	t.Parallel()
	causes := map[string]error{
		"the access is denied":                     forbidden(shared),
		"the API server is away":                   errAway,
		"the API server is out to lunch":           apierrors.NewServiceUnavailable("out to lunch"),
		"the token is not taken":                   apierrors.NewUnauthorized("Unauthorized"),
		"there is no token":                        access.ErrNoToken,
		"the right of the account cannot be asked": &access.ReviewError{Identity: access.OnBehalf(app), Ref: shared, Cause: errAway},
	}
	for name, cause := range causes {
		for _, reader := range []access.Reader{access.ByPod, access.ByDriver} {
			bubbleCase(t, fmt.Sprintf("%s, read by %s", name, reader), func(n *node) {
				n.secrets = reader
				n.cluster.set(shared, "key", "k1")
				d := n.start()
				r, late := n.request("config", secret(shared)), n.request("late", secret(shared))
				d.publish(r)
				n.cluster.fail(shared, cause)
				kind := volume.NotReady
				if apierrors.IsForbidden(cause) {
					kind = volume.Denied
				}
				d.wantRefused(late, kind)
				n.wantFiles(late, nil)
				n.wantFiles(r, map[string]string{"key": "k1"})
				n.wantRecords(r)

				published := d.publishing(late)
				pass(settling)
				n.wantFiles(late, nil)
				n.cluster.fail(shared, nil)
				pass(latency)
				n.wantFiles(late, map[string]string{"key": "k1"})
				n.must(<-published)
			})
		}
	}
}

// TestANewcomerIsServedWhatTheDriverHolds for itself although the API server is away: every pod of the namespace may have it.
func TestANewcomerIsServedWhatTheDriverHolds(t *testing.T) {
	t.Parallel()
	for _, ref := range []api.Ref{web, tls} {
		bubbleCase(t, ref.String(), func(n *node) {
			n.cluster.set(ref, "key", "k1")
			d := n.start()
			attributes := secret(ref)
			if ref.Kind == api.ConfigMap {
				attributes = configMap(ref.Name)
			}
			d.publish(n.request("config", attributes))
			n.cluster.fail(ref, errAway)
			late := n.request("late", attributes)
			d.publish(late)
			n.wantFiles(late, map[string]string{"key": "k1"})
		})
	}
}
