package deploy

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
)

// TestLifeOfAController installs it with the line of deploy/README.md, beside a driver that is there, and removes it.
func TestLifeOfAController(t *testing.T) {
	t.Parallel()
	b := newBench(t, cluster.ForTest(t))
	line := regexp.MustCompile("(?m)^(helm upgrade .*controller.enabled=true)$").FindString(read(t, inRepo(t, "deploy", "README.md")))
	if line == "" {
		t.Fatal("deploy/README.md does not say how to install the controller")
	}
	own := cluster.NewNamespace(t, b.cluster)
	line = strings.NewReplacer("helm upgrade liveconfig", "helm upgrade "+own, namespace, own).Replace(line)
	b.run("helm install " + own + " deploy/chart --namespace " + own + " --set image.repository=registry.example.com/liveconfig,driverName=csi." + own + ".example")
	b.wantController(own, "")
	notes := b.run(line)
	for _, want := range []string{"Deployment " + own + "-controller", "liveconfig.internal/triggered-by=configmap/NAME", "every workload of the cluster"} {
		if !strings.Contains(notes, want) {
			t.Errorf("the notes do not say %s:\n%s", want, notes)
		}
	}
	b.wantController(own, "all")
	b.run(line + ",controller.namespaces={" + own + "}")
	b.wantController(own, "some")
	b.run(line + " --set controller.enabled=false")
	b.wantController(own, "")
	b.run("helm uninstall " + own + " --namespace " + own)
}

// wantController wants that there is a controller for all namespaces, for some, or none, by its objects.
func (b *bench) wantController(release, scope string) {
	b.Helper()
	want := map[string][]string{
		"": nil,
		"all": {
			"clusterrole.rbac.authorization.k8s.io", "clusterrolebinding.rbac.authorization.k8s.io", "deployment.apps",
			"networkpolicy.networking.k8s.io", "poddisruptionbudget.policy", "role.rbac.authorization.k8s.io",
			"rolebinding.rbac.authorization.k8s.io", "serviceaccount",
		},
		"some": {
			"deployment.apps", "networkpolicy.networking.k8s.io", "poddisruptionbudget.policy", "role.rbac.authorization.k8s.io",
			"role.rbac.authorization.k8s.io", "rolebinding.rbac.authorization.k8s.io", "rolebinding.rbac.authorization.k8s.io", "serviceaccount",
		},
	}[scope]
	var got []string
	const kinds = "clusterrole,clusterrolebinding,deployment,networkpolicy,poddisruptionbudget,role,rolebinding,serviceaccount"
	out := b.run("kubectl -n " + release + " get " + kinds + " -l app.kubernetes.io/instance=" + release + " -o name")
	for name := range strings.Lines(out) {
		kind, name, _ := strings.Cut(strings.TrimSpace(name), "/")
		if strings.HasPrefix(name, release+"-controller") {
			got = append(got, kind)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		b.Errorf("objects of the controller (-want +got):\n%s", diff)
	}
}
