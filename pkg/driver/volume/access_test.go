package volume_test

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/source"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/volume"
)

// shared is an object of a namespace that is not the pod's.
var shared = api.Ref{Kind: api.Secret, Namespace: "certs", Name: "tls"}

// app is the pod of [node.request].
var app = api.Pod{Namespace: "default", Name: "app", UID: "uid-app", ServiceAccount: "default"}

// secret is the attributes of a volume of one Secret.
func secret(ref api.Ref, more ...string) map[string]string {
	attributes := configMap("", more...)
	delete(attributes, api.KeyConfigMap)
	attributes[api.KeySecret], attributes[api.KeyNamespace] = ref.Name, ref.Namespace
	return attributes
}

// sources is the attributes of a volume of several sources.
func sources(list string, more ...string) map[string]string {
	attributes := configMap("", more...)
	delete(attributes, api.KeyConfigMap)
	attributes[api.KeySources] = "[" + list + "]"
	return attributes
}

// TestWhoReadsASource: a source of another namespace is read by, or on behalf of, the pod's service account, also after a
// restart of the driver.
func TestWhoReadsASource(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		secrets access.Reader
		ref     api.Ref
		want    access.Identity
	}{
		"a Secret of the pod's namespace by the pod":            {access.ByPod, tls, access.Of(app)},
		"a Secret of the pod's namespace by the driver":         {access.ByDriver, tls, access.Driver()},
		"a Secret of another namespace by the pod":              {access.ByPod, shared, access.Of(app)},
		"a Secret of another namespace, which the driver reads": {access.ByDriver, shared, access.OnBehalf(app)},
	}
	for name, tt := range tests {
		bubbleCase(t, name, func(n *node) {
			n.secrets = tt.secrets
			n.cluster.set(tt.ref, "key", "k1")
			d, r := n.live(secret(tt.ref))
			for _, value := range []string{"k1", "k2"} {
				n.set(tt.ref, "key", value)
				n.wantFiles(r, map[string]string{"key": value})
				want := map[source.Key]bool{{Identity: tt.want, Ref: tt.ref}: true}
				wantSame(n, "watched", want, n.cluster.keys())
				d = d.restart()
			}
		})
	}
}

// TestWhatIsNoDenialTakesNoFiles away, even from who asked for it: the token of a pod's account that the API server does not
// take, and an account that it cannot be asked about. After a restart the driver knows no more than that, and says so.
func TestWhatIsNoDenialTakesNoFiles(t *testing.T) {
	t.Parallel()
	unauthorized := apierrors.NewUnauthorized("Unauthorized")
	review := &access.ReviewError{Identity: access.OnBehalf(app), Ref: shared, Cause: forbidden(shared)}
	tests := map[string]struct {
		secrets access.Reader
		err     error
		want    string
	}{
		"the pod's token is not valid": {
			access.ByPod, unauthorized, "Unauthorized: the token of serviceaccount default/default is not valid, because the pod that it is " +
				"bound to or the service account is gone; the kubelet brings another one while both exist",
		},
		"no token is held":                  {access.ByPod, access.ErrNoToken, "there is no valid token"},
		"the driver's token is not valid":   {access.ByDriver, unauthorized, "Unauthorized"},
		"the driver may not ask for access": {access.ByDriver, review, review.Error()},
		"the driver may not read for a pod": {access.ByDriver, errors.New("the pod may get it, but the driver may not"), "the pod may get it, but the driver may not"},
	}
	for name, tt := range tests {
		bubbleCase(t, name, func(n *node) {
			n.secrets = tt.secrets
			n.cluster.set(shared, "key", "k1")
			n.cluster.fail(shared, tt.err)
			d := n.start()
			r := n.request("config", secret(shared, api.KeyOnDelete, string(api.OnDeleteRemove)))
			want := "secret certs/tls cannot be read: " + tt.want
			d.wantRefused(r, volume.NotReady, want)
			n.wantNothing(d)

			n.cluster.fail(shared, nil)
			d.publish(r)
			n.cluster.fail(shared, tt.err)
			files := map[string]string{"key": "k1"}
			for range 2 {
				pass(2 * resyncInterval)
				d.publish(r)
				n.wantShown(r, files, want)
				n.seen.forget()
				d = d.restart()
			}
			n.wantFiles(r, files)
			n.wantTold(`ProjectionFailed: volume "config": the files stay as they are: ` + want)
			n.cluster.fail(shared, forbidden(shared)) // Which is a denial.
			pass(settling)
			n.wantFiles(r, map[string]string{})
		})
	}
}
