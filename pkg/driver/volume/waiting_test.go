package volume_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/identity"
	"github.com/liveconfig-csi/liveconfig/pkg/api/statusz"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/volume"
)

func forbidden(ref api.Ref) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: ref.Kind.Resource() + "s"}, ref.Name, errors.New("no"))
}

// TestPublishGivesUpWaiting has everything that a publish waits for in vain: the caller, the pod and the status have one text,
// whichever source comes first, and nothing is left. These are rules 7, 9, 11 and 58, and traps 1 and 4.
func TestPublishGivesUpWaiting(t *testing.T) {
	t.Parallel()
	const (
		noWeb    = `configmap "web" not found`
		noTLS    = `secret "tls" not found`
		noGone   = `configmap "gone" not found`
		noKey    = "configmap references non-existent config key: b (configmap default/web, items[0])"
		read     = " cannot be read: "
		awayWeb  = "configmap default/web" + read + "connection refused"
		lunchTLS = "secret default/tls" + read + "out to lunch"
	)
	deniedWeb := "configmap default/web" + read + `configmaps "web" is forbidden: no` + driversRights("default")
	deniedTLS := "secret default/tls" + read + `secrets "tls" is forbidden: no` + driversRights("default")
	plain, webFirst := configMap("web"), sources("{configMap: {name: web}}, {secret: {name: tls}}")
	tlsFirst := sources("{secret: {name: tls}}, {configMap: {name: web}}")
	several := sources("{configMap: {name: web}}, {secret: {name: tls}}, {configMap: {name: gone}}, " +
		"{configMap: {name: gone, items: [{key: k, path: p}]}}")
	tests := map[string]struct {
		attributes map[string]string
		isThere    bool // The ConfigMap.
		web, tls   error
		kind       volume.Kind
		text       string
	}{
		"a ConfigMap does not exist": {attributes: plain, kind: volume.Missing, text: noWeb},
		"one that may go later does not exist": {
			attributes: configMap("web", api.KeyOnDelete, string(api.OnDeleteRemove)), kind: volume.Missing, text: noWeb,
		},
		"a Secret does not exist": {attributes: map[string]string{api.KeySecret: "tls"}, kind: volume.Missing, text: noTLS},
		"a key does not exist": {
			attributes: configMap("web", api.KeyItems, `[{key: b, path: b}]`), isThere: true, kind: volume.Missing, text: noKey,
		},
		"all are missing":  {attributes: several, kind: volume.Missing, text: "[" + noWeb + ", " + noTLS + ", " + noGone + "]"},
		"access is denied": {attributes: plain, web: forbidden(web), kind: volume.Denied, text: deniedWeb},
		"access is denied to an optional source": {
			attributes: configMap("web", api.KeyOptional, "true"), web: forbidden(web), kind: volume.Denied, text: deniedWeb,
		},
		"the API server is away": {attributes: plain, web: errAway, kind: volume.NotReady, text: awayWeb},
		"one denied, one missing": {
			attributes: several, isThere: true, tls: forbidden(tls), kind: volume.Denied, text: "[" + deniedTLS + ", " + noGone + "]",
		},
		"two denied, one missing": {
			attributes: several, web: forbidden(web), tls: forbidden(tls), kind: volume.Denied,
			text: "[" + deniedWeb + ", " + deniedTLS + ", " + noGone + "]",
		},
		"one not answered, one missing": {
			attributes: several, isThere: true, tls: errSilent, kind: volume.NotReady,
			text: "[secret default/tls has not been read yet, " + noGone + "]",
		},
		"the denied one last": {
			attributes: webFirst, web: errAway, tls: forbidden(tls), kind: volume.Denied, text: "[" + awayWeb + ", " + deniedTLS + "]",
		},
		"the denied one first": {
			attributes: tlsFirst, web: errAway, tls: forbidden(tls), kind: volume.Denied, text: "[" + deniedTLS + ", " + awayWeb + "]",
		},
		"none is denied": {
			attributes: webFirst, web: errAway, tls: apierrors.NewServiceUnavailable("out to lunch"), kind: volume.NotReady,
			text: "[" + awayWeb + ", " + lunchTLS + "]",
		},
		"one denied, one there": {attributes: webFirst, isThere: true, tls: forbidden(tls), kind: volume.Denied, text: deniedTLS},
	}
	for name, tt := range tests {
		bubbleCase(t, name, func(n *node) {
			if tt.isThere {
				n.cluster.set(web, "a", "1")
			}
			n.cluster.fail(web, tt.web)
			n.cluster.fail(tls, tt.tls)
			n.wantToWaitInVain(tt.attributes, tt.kind, tt.text)
		})
	}
}

// wantToWaitInVain checks a publish that waits for its sources until it gives up.
func (n *node) wantToWaitInVain(attributes map[string]string, kind volume.Kind, text string) {
	n.Helper()
	d := n.start()
	began, longest := time.Now(), publishTimeout+latency // From the first answer on.
	told := []event{{
		Pod: "default/app", Volume: "config", Reason: volume.ReasonWaiting, Note: `volume "config": waiting for a source: ` + text,
	}}
	if errors.Is(n.cluster.errs[tls], errSilent) {
		longest, told = 2*publishTimeout, nil
	}
	published := d.publishing(n.request("config", attributes))
	pass(settling)
	got := d.only()
	if got.State != statusz.Publishing || got.Problem == nil || got.Problem.Kind != string(kind) || got.Problem.Message != text {
		n.Errorf("volume = %+v with the problem %+v, want that it waits: %s", got, got.Problem, text)
	}
	if s := d.Summary(); s.NotCurrent[kind] != 0 || s.Staleness != 0 {
		n.Errorf("Summary() = %+v, want nothing: nobody has its files", s)
	}
	wantSame(n, "Publish() says", text, n.wantKind(<-published, kind))
	wantSame(n, "Publish() took", longest, time.Since(began))
	wantSame(n, "Events", told, n.seen.all())
	wantSame(n, "side effects", []string{"mounted"}, n.faults.order())
	synctest.Wait()
}

func TestPublishWaitsForEachThingInTurn(t *testing.T) {
	bubble(t, func(n *node) {
		n.cluster.fail(web, forbidden(web))
		d, r := n.startFor(configMap("web", api.KeyItems, `[{key: b, path: b}]`))
		done := make(chan error, 1)
		began := time.Now()
		go func() { done <- d.Publish(n.ctx, r, access.Token{}) }()
		steps := []func(){
			func() { n.cluster.remove(web) },
			func() { n.cluster.fail(web, nil) },
			func() { n.cluster.set(web, "a", "1") },
			func() { n.cluster.set(web, "a", "2") }, // No news for the pod.
			func() { n.cluster.set(web, "b", "1") },
		}
		const rest = publishTimeout / 10
		for _, step := range steps {
			pass(rest)
			step()
		}
		n.must(<-done)
		wantSame(n, "Publish() took, want that it ends with what it waits for", time.Duration(len(steps))*rest, time.Since(began))
		n.wantFiles(r, map[string]string{"b": "1"})
		const waiting = `WaitingForSource: volume "config": waiting for a source: `
		want := []string{
			waiting + `configmap default/web cannot be read: configmaps "web" is forbidden: no` + driversRights("default"),
			waiting + `configmap "web" not found`,
			waiting + `configmap references non-existent config key: b (configmap default/web, items[0])`,
		}
		n.wantReported(want...)
	})
}

// TestSourceGoesBetweenWaitingAndWriting: what was there when the wait ended is gone when the files are written.
func TestSourceGoesBetweenWaitingAndWriting(t *testing.T) {
	bubble(t, func(n *node) {
		d, r := n.ready()
		n.faults.on("put", func() { n.cluster.remove(web) })
		wantSame(n, "Publish() says", `configmap "web" not found`, n.wantKind(d.Publish(n.ctx, r, access.Token{}), volume.Missing))
	})
}

// TestAChangeDuringTheFirstWriteIsNotLost: it comes when the sources were read and the volume is not live yet.
func TestAChangeDuringTheFirstWriteIsNotLost(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"create", "publish"} {
		for _, pause := range []time.Duration{0, settling} { // By then the driver has looked whether there is something to do.
			bubbleCase(t, fmt.Sprintf("%s and %s", op, pause), func(n *node) {
				d, r := n.ready()
				n.faults.on(op, func() {
					n.cluster.set(web, "a", "2")
					<-time.After(pause)
				})
				d.publish(r)
				pass(settling)
				n.wantFiles(r, map[string]string{"a": "2"})
			})
		}
	}
}

// many returns that many Secrets, and the attributes of a volume of all of them.
func many(count int) (refs []api.Ref, attributes map[string]string) {
	var list []string
	for i := range count {
		ref := api.Ref{Kind: api.Secret, Namespace: "default", Name: fmt.Sprintf("s%04d", i)}
		refs = append(refs, ref)
		list = append(list, fmt.Sprintf("{secret: {name: %s}}", ref.Name))
	}
	return refs, sources(strings.Join(list, ", "))
}

// TestARefusalOfManySourcesIsShort: it is sent to the kubelet, on the pod and in the log, each time.
func TestARefusalOfManySourcesIsShort(t *testing.T) {
	bubble(t, func(n *node) {
		n.secrets = identity.ByPod
		refs, attributes := many(500)
		for _, ref := range refs {
			n.cluster.errs[ref] = forbidden(ref)
		}
		d := n.start()
		text := n.wantKind(d.Publish(n.ctx, n.request("config", attributes), access.Token{}), volume.Denied)
		if len(text) > 32<<10 {
			n.Errorf("Publish() says %d bytes, want some KiB", len(text))
		}
		for _, want := range []string{deniedTo(identity.Of(app), refs[0]), "490 more cannot be read"} {
			if !strings.Contains(text, want) {
				n.Errorf("Publish() = %q, want it to say %q", text, want)
			}
		}
	})
}

// TestAnAnswerIsReportedBeforeThoseThatAreAwaited: an error names first the source whose read failed, then the sources that have
// not been read yet.
func TestAnAnswerIsReportedBeforeThoseThatAreAwaited(t *testing.T) {
	bubble(t, func(n *node) {
		refs, attributes := many(20)
		last := refs[len(refs)-1]
		for _, ref := range refs {
			n.cluster.errs[ref] = errSilent
		}
		n.cluster.errs[last] = errAway
		d := n.start()
		text := n.wantKind(d.Publish(n.ctx, n.request("config", attributes), access.Token{}), volume.NotReady)
		want := "[secret default/s0019 cannot be read: connection refused, secret default/s0000 has not been read yet, "
		if !strings.HasPrefix(text, want) {
			n.Errorf("Publish() = %q, want it to begin with %q", text, want)
		}
	})
}

// TestASamePodAgain (fault 17): a StatefulSet makes a pod of the same name while the volumes of the one before are still there,
// with other contents. Each has its own files, and neither the end of the old one nor a restart of the driver touches the new
// one's.
func TestASamePodAgain(t *testing.T) {
	bubble(t, func(n *node) {
		n.cluster.set(web, "a", "1")
		n.cluster.set(tls, "key", "k1")
		d := n.start()
		before, after := n.replica("first", configMap("web")), n.replica("second", secret(tls))
		after.Pod.Name = before.Pod.Name
		d.publish(before)
		d.publish(after)
		n.wantFiles(before, map[string]string{"a": "1"})
		n.wantFiles(after, map[string]string{"key": "k1"})
		d.stop()
		n.cluster.set(tls, "key", "k2")
		d = n.start()
		pass(settling)
		d.unpublish(before)
		n.wantFiles(before, nil)
		n.wantFiles(after, map[string]string{"key": "k2"})
		wantSame(n, "users of sources", map[api.Ref]int{tls: 1}, n.cluster.users())
		n.set(tls, "key", "k3")
		n.wantFiles(after, map[string]string{"key": "k3"})
	})
}

// TestAStaticPodAgain (fault 17): a static pod has the same UID each time, and so the same volume ID and the same target,
// whatever its volumes are now. What the last one had is not seen again.
func TestAStaticPodAgain(t *testing.T) {
	bubble(t, func(n *node) {
		n.cluster.set(web, "a", "1")
		n.cluster.set(tls, "key", "k1")
		d, r := n.startFor(nil)
		kinds := map[api.Ref]map[string]string{web: configMap("web"), tls: secret(tls)}
		files := map[api.Ref]map[string]string{web: {"a": "1"}, tls: {"key": "k1"}}
		for range 3 {
			for ref, attributes := range kinds {
				r.Attributes = attributes
				d.publish(r)
				n.wantFiles(r, files[ref])
				wantSame(n, "users of sources", map[api.Ref]int{ref: 1}, n.cluster.users())
				d.unpublish(r)
				n.wantNothing(d)
			}
		}
	})
}

// TestPathsAsUsersWriteThem shows rules 24 to 26 in a mounted volume: the longest path and element, characters of every kind,
// two dots where they are legal, and paths that are cleaned.
func TestPathsAsUsersWriteThem(t *testing.T) {
	bubble(t, func(n *node) {
		deep := strings.Repeat(strings.Repeat("x", 255)+"/", 15) + strings.Repeat("y", 127) + "/" + strings.Repeat("z", 128)
		if len(deep) != 4096 {
			n.Fatalf("the long path has %d bytes, want 4096", len(deep))
		}
		clean := map[string]string{"foo//bar": "foo/bar", "./x": "x", "y/": "y", "z/.": "z"}
		for _, p := range []string{deep, strings.Repeat("é", 127), "a/..b", "b/...", "p..", "c/..data", `q"uo'te\ d`, "ü/日本"} {
			clean[p] = p
		}
		var items []string
		for p := range clean {
			items = append(items, fmt.Sprintf(`{"key": "a", "path": %q}`, p))
		}
		n.cluster.set(web, "a", "1")
		_, r := n.live(configMap("web", api.KeyItems, "["+strings.Join(items, ", ")+"]"))
		for _, value := range []string{"1", "2"} {
			n.set(web, "a", value)
			root, err := os.OpenRoot(r.TargetPath)
			n.must(err)
			for written, p := range clean {
				if got, err := root.ReadFile(p); string(got) != value || err != nil {
					n.Errorf("%q is %q, %v, want %q", written, got, err, value)
				}
			}
			n.must(root.Close())
		}
	})
}
