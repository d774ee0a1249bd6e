package driver

import (
	"errors"
	"net/http"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/fakekubelet"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
	"github.com/liveconfig-csi/liveconfig/test/kit/network"
)

// TestDenialsOfAServerThatIsNotSure is fault 28: an API server that starts may deny everything for longer than the driver
// takes to decide again, on all nodes at once, and what stands before it may deny one object by mistake. No file goes, however
// often it denies. When the right to read is really taken away, the files go in the time that SECURITY.md states.
func TestDenialsOfAServerThatIsNotSure(t *testing.T) {
	t.Parallel()
	tests := map[string]func(cert func(network.Request) bool) network.Fault{
		"everything": func(func(network.Request) bool) network.Fault { return network.Fault{Status: http.StatusForbidden} },
		"the object alone": func(cert func(network.Request) bool) network.Fault {
			return network.Fault{Of: cert, Status: http.StatusForbidden}
		},
	}
	for name, denying := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const (
				recheck = 2 * time.Second
				retries = 20 * time.Second // Two, that each come as late as can be.
			)
			b, front := behindFront(t, "--recheck-interval="+recheck.String())
			b.AllowSecrets("default")
			b.SetSecret("cert", map[string]string{"n": "one"})
			pod := b.Pod("cert", map[string]string{"secret": "cert", "onDelete": "Remove"})
			b.Publish(pod)
			cert := network.About("secrets", b.Namespace, "cert")
			awaitWatch(b, front, cert)

			before := len(front.Asked(cert))
			front.Set(denying(cert))
			front.EndWatches(nil)
			b.SetSecret("cert", map[string]string{"n": "two"})
			environment.Eventually(t, time.Minute+fixture.Soon, func() error {
				must(t, b.Holds(pod, "n", "one"))
				denied := front.Asked(cert)[before:]
				if len(denied) == 0 || denied[len(denied)-1].At.Sub(denied[0].At) < 5*recheck {
					return errors.New("it was not denied for long enough to prove anything")
				}
				return nil
			})
			front.Set()
			environment.Eventually(t, healed, func() error { return b.Holds(pod, "n", "two") })

			bindings := b.Cluster.Client().RbacV1().RoleBindings(b.Namespace)
			must(t, bindings.Delete(t.Context(), "default", metav1.DeleteOptions{}))
			began := time.Now()
			environment.Eventually(t, recheck*5/2+retries+fixture.Soon, func() error { return fakekubelet.Gone(b.Path(pod, "n")) })
			t.Logf("the files went %s after the right to read them", time.Since(began).Round(time.Millisecond))
			b.WantEvent(pod, "AccessLost", "the files of the source are removed")
		})
	}
}
