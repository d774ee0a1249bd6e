package volume_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/volume"
)

// many returns that many Secrets, and the attributes of a volume of all of them.
func many(count int) (refs []api.Ref, attributes map[string]string) {
	var sources []string
	for i := range count {
		ref := api.Ref{Kind: api.Secret, Namespace: "default", Name: fmt.Sprintf("s%04d", i)}
		refs = append(refs, ref)
		sources = append(sources, fmt.Sprintf("{secret: {name: %s}}", ref.Name))
	}
	return refs, map[string]string{api.KeySources: "[" + strings.Join(sources, ", ") + "]"}
}

// TestARefusalOfManySourcesIsShort: it is said to the kubelet, on the pod and in the log, each time.
func TestARefusalOfManySourcesIsShort(t *testing.T) {
	bubble(t, func(n *node) {
		n.secrets = access.ByPod
		refs, attributes := many(500)
		for _, ref := range refs {
			n.cluster.errs[ref] = forbidden(ref)
		}
		d := n.start()
		text := n.wantKind(d.Publish(n.ctx, n.request("config", attributes), access.Token{}), volume.Denied)
		if len(text) > 32<<10 {
			n.Errorf("Publish() says %d bytes, want some KiB", len(text))
		}
		for _, want := range []string{deniedTo(access.Of(app), refs[0]), "490 more cannot be read"} {
			if !strings.Contains(text, want) {
				n.Errorf("Publish() = %q, want it to say %q", text, want)
			}
		}
	})
}

// TestAnAnswerIsSaidBeforeThoseThatAreAwaited: who waits in vain for twenty sources reads what is wrong with the last one.
func TestAnAnswerIsSaidBeforeThoseThatAreAwaited(t *testing.T) {
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
