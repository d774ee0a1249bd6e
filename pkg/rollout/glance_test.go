package rollout

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/workload"
)

// TestRevisionsInDoubt: a revision is plain, and may be removed, if its attributes name a source. A word that only looks like the
// name is not enough, and all copies that attributes name are used.
func TestRevisionsInDoubt(t *testing.T) {
	t.Parallel()
	const copied = "app-0123456789"
	for name, tt := range map[string]struct {
		attributes map[string]string
		want       bool
	}{
		"the short form names the source":      {map[string]string{"configMap": "app"}, true},
		"the long form names the source":       {map[string]string{"sources": `[{"configMap": {"name": "app"}}]`}, true},
		"the source's name is also a key":      {map[string]string{"configMap": copied, "items": "[{key: app, path: app}]"}, false},
		"the source's name is also a Secret's": {map[string]string{"sources": "[{secret: {name: app}}, {configMap: {name: " + copied + "}}]"}, false},
		"what cannot be read names nothing":    {map[string]string{"sources": "[{configMap: {name: app}"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := idleController(t)
			set := replicaSetOf("uid", "default", "web-1", "1", `{"configmap/app":"`+copied+`"}`)
			set.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "x", VolumeSource: corev1.VolumeSource{
				CSI: &corev1.CSIVolumeSource{Driver: c.cfg.DriverName, VolumeAttributes: tt.attributes},
			}}}
			r := cached[*cachedRevision](t, c, set)
			if r.Doubt == nil || r.Plain {
				t.Fatalf("the revision is %+v, want one in doubt", r)
			}
			if plain, wait := c.isPlain(workload.Ref{Kind: workload.Deployment, Namespace: "default", Name: "web"}, r); plain != tt.want || wait != 0 {
				t.Errorf("isPlain = %t after %s, want %t at once", plain, wait, tt.want)
			}
			used := map[api.Ref]bool{}
			for _, o := range r.Uses {
				used[o] = true
			}
			if !used[api.Ref{Kind: "ConfigMap", Name: copied}] {
				t.Errorf("it uses %v, want its copy", r.Uses)
			}
		})
	}
}
