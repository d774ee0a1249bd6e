package driver

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
	"github.com/liveconfig-csi/liveconfig/test/kit/network"
)

// TestA404ThatIsNotAboutTheObject is a part of fault 25: a Secret that is polled, because the pod may get it and nothing else, is
// answered with a proxy's page, whose status is 404. Its files stay, although they are to go with the
// Secret, and the status says what was answered. A real API server's word that the Secret is deleted takes them away.
func TestA404ThatIsNotAboutTheObject(t *testing.T) {
	t.Parallel()
	b, front := behindFront(t, "--recheck-interval=2s")
	b.AllowFor("secrets", "default", "get")
	b.SetSecret("cert", map[string]string{"n": "one"})
	pod := b.Pod("web", map[string]string{"secret": "cert", "onDelete": "Remove"})
	b.Publish(pod)
	b.WantEvent(pod, "Polling", "may get it but not watch it")
	about := network.About("secrets", b.Namespace, "cert")
	gets := func(r network.Request) bool { return r.Verb == "get" && about(r) }
	front.Set(network.Fault{Of: gets, Status: http.StatusNotFound, Page: "<html><body><h1>404 Not Found</h1><hr>nginx</body></html>"})
	before := len(front.Asked(gets))
	environment.Eventually(t, 3*fixture.Soon, func() error { // The pause after a failure grows to ten seconds.
		must(t, b.Holds(pod, "n", "one"))
		if got := len(front.Asked(gets)) - before; got < 3 { // Of which two were answered.
			return fmt.Errorf("%d gets since they are answered with a page, want 3", got)
		}
		return nil
	})
	if text := b.Get("/statusz"); !strings.Contains(text, "does not report that secret "+b.Namespace+"/cert is not found") {
		t.Errorf("the status is %s, want it to report what was answered", text)
	}
	front.Set()
	if err := b.Cluster.Client().CoreV1().Secrets(b.Namespace).Delete(t.Context(), "cert", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	b.WantNoFile(pod, "n")
}
