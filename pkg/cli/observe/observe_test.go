package observe_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/statusz"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/observe"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/selection"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/versions"
	"github.com/liveconfig-csi/liveconfig/pkg/nodes"
)

var (
	app    = api.Ref{Kind: api.ConfigMap, Namespace: "shop", Name: "app"}
	copied = versions.Place{Volume: "config", Object: app, Names: api.Ref{Kind: api.ConfigMap, Namespace: "shop", Name: "app-0123456789"}}
	itself = versions.Place{Volume: "config", Object: app, Names: app}
)

// TestAskOnce: a node whose answer is known is not asked again, and one without volumes is not asked at all. Without a request the
// driver's pods are not looked for.
func TestAskOnce(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset()
	c := &observe.Cluster{Client: client, Drivers: nodes.New(&rest.Config{}, client, "liveconfig-system")}
	on := func(node string) *corev1.Pod { return &corev1.Pod{Spec: corev1.PodSpec{NodeName: node}} }
	w := &observe.Workload{Running: []*observe.Pod{{Pod: on("one"), AsksNode: true}, {Pod: on("other")}}}
	known := map[string]nodes.Answer{"one": {Report: statusz.Report{Version: "v1"}}, "far": {Report: statusz.Report{Version: "v2"}}}
	got := c.Ask(t.Context(), []*observe.Workload{w}, known)
	if len(got) != 1 || got["one"].Report.Version != "v1" || len(client.Actions()) > 0 {
		t.Errorf("Ask = %v after %v, want the known answer of one node, and no request", got, client.Actions())
	}
	if got := c.Ask(t.Context(), []*observe.Workload{w}, nil); got["one"].Err == nil || len(client.Actions()) == 0 {
		t.Errorf("Ask = %v after %v, want a node without a driver, after a request", got, client.Actions())
	}
}

// TestWish: pods should have the copy of the template if the newest one is not known. A pod has no template, and copies do not
// count where pods have the object itself.
func TestWish(t *testing.T) {
	t.Parallel()
	ofTemplate := &observe.Workload{Selector: &observe.Selector{}, Newest: []versions.Place{copied}}
	ofPod := &observe.Workload{Selector: &observe.Selector{Workload: selection.Workload{Pod: &corev1.Pod{}}}, Newest: []versions.Place{copied}}
	for name, test := range map[string]struct {
		of     *observe.Workload
		place  versions.Place
		copies []string
		want   []string
	}{
		"the newest copy is known":            {ofTemplate, copied, []string{"app-newest"}, []string{"app-newest"}},
		"the newest copy is not known":        {ofTemplate, copied, nil, []string{"app-0123456789"}},
		"the newest copy for a pod":           {ofPod, copied, nil, nil},
		"pods have the object itself":         {ofTemplate, itself, []string{"app-newest"}, nil},
		"a template that has no copy in it":   {&observe.Workload{Selector: &observe.Selector{}}, copied, nil, nil},
		"pods of no workload":                 {&observe.Workload{}, copied, nil, nil},
		"a template with it in other volumes": {ofTemplate, versions.Place{Volume: "other", Object: app, Names: copied.Names}, nil, nil},
	} {
		o := observe.Observation{Objects: map[api.Ref]observe.Found{app: {Now: versions.Now{Copies: test.copies}}}}
		if diff := cmp.Diff(test.want, o.Wish(test.of, test.place).Copies); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
