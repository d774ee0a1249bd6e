package volume_test

import (
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/identity"
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
		secrets identity.Reader
		ref     api.Ref
		want    identity.Identity
	}{
		"a Secret of the pod's namespace by the pod":            {identity.ByPod, tls, identity.Of(app)},
		"a Secret of the pod's namespace by the driver":         {identity.ByDriver, tls, identity.Driver()},
		"a Secret of another namespace by the pod":              {identity.ByPod, shared, identity.Of(app)},
		"a Secret of another namespace, which the driver reads": {identity.ByDriver, shared, identity.OnBehalf(app)},
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
// take, and an account that it cannot be asked about. After a restart the driver knows no more than that, and reports that.
func TestWhatIsNoDenialTakesNoFiles(t *testing.T) {
	t.Parallel()
	unauthorized := apierrors.NewUnauthorized("Unauthorized")
	review := &access.ReviewError{Identity: identity.OnBehalf(app), Ref: shared, Cause: forbidden(shared)}
	tests := map[string]struct {
		secrets identity.Reader
		err     error
		want    string
	}{
		"the pod's token is not valid": {
			identity.ByPod, unauthorized, "Unauthorized: the token of serviceaccount default/default is not valid, because the pod that it is " +
				"bound to or the service account is gone; the kubelet brings another one while both exist",
		},
		"no token is held":                  {identity.ByPod, access.ErrNoToken, "there is no valid token"},
		"the driver's token is not valid":   {identity.ByDriver, unauthorized, "Unauthorized"},
		"the driver may not ask for access": {identity.ByDriver, review, review.Error() + driversRights("certs")},
		"the driver may not read for a pod": {
			identity.ByDriver, access.OfDriver(identity.OnBehalf(app), forbidden(shared)), "the pod may get it, but the driver may not: " +
				forbidden(shared).Error() + driversRights("certs"),
		},
	}
	for name, tt := range tests {
		bubbleCase(t, name, func(n *node) {
			n.secrets = tt.secrets
			n.cluster.set(shared, "key", "k1")
			n.cluster.fail(shared, tt.err)
			d, r := n.startFor(secret(shared, api.KeyOnDelete, string(api.OnDeleteRemove)))
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
			n.wantReported(`ProjectionFailed: volume "config": the files stay as they are: ` + want)
			n.cluster.fail(shared, forbidden(shared)) // Which is a denial.
			pass(settling)
			n.wantFiles(r, map[string]string{})
		})
	}
}

// driversRights is what a problem adds when the driver's own account lacks a right.
func driversRights(namespace string) string {
	return "; the driver's own account lacks the right: kubectl apply -f deploy/base/clusterrole.yaml " +
		"-f deploy/base/clusterrolebinding.yaml, or with Helm: helm upgrade liveconfig deploy/chart --namespace liveconfig-system " +
		"--reset-then-reuse-values (rbac.namespaces, if set, must list " + namespace + ")"
}

// errAway is the network's error when the API server is not reachable.
var errAway = errors.New("connection refused")

// TestANewcomerIsNotServedWhatNobodyCouldAskFor: older volumes have the content of a source, and their reader has lost the right
// to it, or may have lost it while the API server was away. A new volume believes a denial at once: its publish waits until the
// reader may read again. The older volumes keep their files.
func TestANewcomerIsNotServedWhatNobodyCouldAskFor(t *testing.T) {
	t.Parallel()
	causes := map[string]error{
		"the access is denied":                     forbidden(shared),
		"the API server is away":                   errAway,
		"the API server is out to lunch":           apierrors.NewServiceUnavailable("out to lunch"),
		"the token is not taken":                   apierrors.NewUnauthorized("Unauthorized"),
		"there is no token":                        access.ErrNoToken,
		"the right of the account cannot be asked": &access.ReviewError{Identity: identity.OnBehalf(app), Ref: shared, Cause: errAway},
	}
	for name, cause := range causes {
		t.Run(name, func(t *testing.T) {
			eachDenial(t, func(n *node, reader identity.Identity, onDelete api.OnDelete) {
				n.cluster.set(shared, "key", "k1")
				d := n.start()
				r, late := n.request("config", secret(shared)), n.request("late", secret(shared, api.KeyOnDelete, string(onDelete)))
				d.publish(r)
				n.cluster.doubt(shared)
				n.cluster.fail(shared, cause)
				if apierrors.IsForbidden(cause) {
					d.wantRefused(late, volume.Denied, deniedTo(reader, shared))
				} else {
					d.wantRefused(late, volume.NotReady)
				}
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
		})
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

// polling returns the Event about a source of another namespace that the pod's service account may get and not watch.
func polling(ref api.Ref) string {
	return `Polling: volume "config": ` + ref.String() + " is read about twice a minute, because serviceaccount default/default " +
		"may get it but not watch it; to have changes at once, apply:\n" + identity.Grant(identity.Of(app), ref)
}

const projected = `Projected: volume "config": a change of the sources is in the files`

// TestAPolledSourceIsReportedOnce: the files follow a polled source, and the pod gets one Event about the polling. Polls, repeats and
// resyncs add no Event. The next run of the driver writes the Event once more.
func TestAPolledSourceIsReportedOnce(t *testing.T) {
	bubble(t, func(n *node) {
		n.secrets = identity.ByPod
		n.cluster.set(shared, "key", "k1")
		n.cluster.poll(shared)
		d, r := n.live(secret(shared))
		n.wantFiles(r, map[string]string{"key": "k1"})
		n.wantReported(polling(shared))
		n.set(shared, "key", "k2")
		n.wantFiles(r, map[string]string{"key": "k2"})
		n.wantReported(polling(shared), projected)
		for range 3 {
			n.cluster.poll(shared) // It was read again, and is as it was.
			d.publish(r)
			pass(2 * resyncInterval)
		}
		n.wantReported(polling(shared), projected)
		n.wantProblem(r, "") // It is current, as far as anybody knows.
		n.seen.forget()
		d.restart()
		pass(2 * resyncInterval)
		n.wantReported(polling(shared))
	})
}

// TestEachPolledSourceIsReported, but none that is watched: from the start and while the volume is live, each time that one turns
// polled.
func TestEachPolledSourceIsReported(t *testing.T) {
	bubble(t, func(n *node) {
		n.secrets = identity.ByPod
		roots := api.Ref{Kind: api.ConfigMap, Namespace: "certs", Name: "roots"}
		for _, ref := range []api.Ref{web, tls, shared, roots} {
			n.cluster.set(ref, ref.Namespace+"-"+ref.Name+"-"+ref.Kind.Resource(), "1")
		}
		n.cluster.poll(shared)
		n.live(sources("{configMap: {name: web}}, {secret: {name: tls}}, " +
			"{secret: {name: tls, namespace: certs}}, {configMap: {name: roots, namespace: certs}}"))
		n.wantReported(polling(shared))
		for range 2 {
			n.seen.forget()
			n.cluster.poll(roots)
			pass(settling)
			n.wantReported(polling(roots))
			n.cluster.watch(roots)
			pass(settling)
			n.wantReported(polling(roots))
		}
		n.set(roots, "key", "k2")
		n.wantReported(polling(roots), projected)
	})
}

// TestAPolledSourceOfTheDrivers: a grant to the pod's account would not help, so the message names the driver's installation.
func TestAPolledSourceOfTheDrivers(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		ref    api.Ref
		reader string
	}{
		"its own":              {tls, "driver"},
		"on behalf of a pod's": {shared, "driver for serviceaccount default/default"},
	}
	for name, tt := range tests {
		bubbleCase(t, name, func(n *node) {
			n.cluster.set(tt.ref, "key", "k1")
			n.cluster.poll(tt.ref)
			d := n.start()
			d.publish(n.request("config", secret(tt.ref)))
			n.wantReported(`Polling: volume "config": ` + tt.ref.String() + " is read about twice a minute, because " + tt.reader +
				" may get it but not watch it; to have changes at once, add the verbs list and watch to the driver's ClusterRole")
		})
	}
}

// TestAPolledSourceThatIsReadOnceIsNotReported: a volume that never updates does not poll it.
func TestAPolledSourceThatIsReadOnceIsNotReported(t *testing.T) {
	bubble(t, func(n *node) {
		n.secrets = identity.ByPod
		n.cluster.set(shared, "key", "k1")
		n.cluster.poll(shared)
		_, r := n.live(secret(shared, api.KeyUpdatePolicy, string(api.UpdateNever)))
		n.wantFiles(r, map[string]string{"key": "k1"})
		pass(2 * resyncInterval)
		n.wantReported()
	})
}

// TestATokenIsHeldAsLongAsItsVolume: no longer, because its pod is gone then, and no less, because the volume is updated.
func TestATokenIsHeldAsLongAsItsVolume(t *testing.T) {
	bubble(t, func(n *node) {
		n.maps = identity.ByPod
		d, r := n.ready()
		want := func(want access.Token, when string) {
			n.Helper()
			wantSame(n, when+": the token held", want, n.tokens.of(r.VolumeID))
		}
		token := func(value string) access.Token { return access.NewToken(value, time.Now().Add(time.Hour)) }

		first := token("first")
		n.must(d.Publish(n.ctx, r, first))
		want(first, "after a publish")
		other := r
		other.Attributes = configMap("other")
		n.wantKind(d.Publish(n.ctx, other, token("not ours")), volume.Different)
		want(first, "after a request that was no repeat")
		second := token("second")
		n.must(d.Publish(n.ctx, r, second))
		d.publish(r) // Without one.
		want(second, "after repeats")
		d = d.restart()
		want(second, "after a restart")
		d.stop()
		n.must(n.records.Store.Delete(r.VolumeID))
		d = n.start()
		third := token("third")
		n.must(d.Publish(n.ctx, r, third))
		want(third, "after a publish of a volume whose record was lost")
		d.unpublish(r)
		want(access.Token{}, "after an unpublish")

		n.cluster.remove(web)
		n.wantKind(d.Publish(n.ctx, r, third), volume.Missing)
		want(access.Token{}, "after a publish that failed")
		n.must(n.tokens.Store(r.VolumeID, r.Pod, first))
		d.restart()
		want(access.Token{}, "after a restart without the volume")
	})
}

// TestATokenThatIsOfNoUseIsNotHeld: the driver does not need the pod's token if it reads with its own credentials, nor after the
// publish of a volume that never updates. It then stores no token, also not at a repeat or after a restart, and removes a token
// that an earlier version of the driver has stored.
func TestATokenThatIsOfNoUseIsNotHeld(t *testing.T) {
	t.Parallel()
	tests := map[api.UpdatePolicy]struct {
		maps  identity.Reader
		first int // How many tokens are held for the first read.
	}{
		api.UpdateAtomic: {identity.ByDriver, 0},
		api.UpdateNever:  {identity.ByPod, 1},
	}
	for policy, tt := range tests {
		bubbleCase(t, string(policy), func(n *node) {
			n.maps = tt.maps
			held := tt.first
			d, _ := n.ready()
			r := n.request("config", configMap("web", api.KeyUpdatePolicy, string(policy)))
			token := access.NewToken("token", time.Now().Add(time.Hour))
			publish := func(when string) {
				n.Helper()
				n.must(d.Publish(n.ctx, r, token))
				wantSame(n, when+": the token held, want none", access.Token{}, n.tokens.of(r.VolumeID))
				wantSame(n, when+": tokens that were held", held, n.tokens.kept(r.VolumeID))
			}
			publish("after a publish")
			publish("after a repeat")
			if policy == api.UpdateNever {
				n.must(n.tokens.Store(r.VolumeID, r.Pod, token)) // As an earlier version did.
				held++
				d = d.restart()
				wantSame(n, "the token after a restart", access.Token{}, n.tokens.of(r.VolumeID))
			}
			publish("after a repeat for a volume of an earlier run")
			d.stop()
			n.must(n.records.Store.Delete(r.VolumeID))
			d = n.start()
			publish("after a repeat for a volume that nothing is known of")
		})
	}
}
