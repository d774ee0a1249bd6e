package deploy

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	securityv1 "github.com/openshift/api/security/v1"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
)

// installation is a way to install: flags of helm, lines that are then in the objects, and parts of lines that are not.
type installation struct {
	args       []string
	has, lacks []string
}

func set(values ...string) []string {
	var args []string
	for _, v := range values {
		args = append(args, "--set", v)
	}
	return args
}

// digest is that of some image.
const digest = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// installations has every switch of the chart, alone and with others that it could get in the way of.
func installations() map[string]installation {
	all := ownInstallations()
	for _, more := range []map[string]installation{accessInstallations(), podInstallations(), watchedInstallations(), controllerInstallations()} {
		maps.Copy(all, more)
	}
	return all
}

func ownInstallations() map[string]installation {
	return map[string]installation{
		"nothing said": {
			nil,
			[]string{
				"image: \"liveconfig:dev\"", "- --http-endpoint=:9809", "- --registration-dir=/var/lib/kubelet/plugins_registry",
				"kind: NetworkPolicy", "policyTypes: [Ingress]", "serviceAccountTokenInSecrets: true", "resources: [configmaps]",
			},
			[]string{
				"kind: Namespace", "kind: Service\n", "kind: PodMonitor", "Egress", "secrets]", "subjectaccessreviews", "registrar", "-v=",
				"automountServiceAccountToken", "controller",
			},
		},
		"an image by its version":    {set("image.tag="), []string{`image: "liveconfig:0.1.0"`}, nil},
		"an image by its digest":     {set("image.digest=" + digest), []string{`image: "liveconfig@` + digest + `"`}, []string{":dev"}},
		"an image that is protected": {set("image.pullPolicy=Always", "imagePullSecrets[0].name=registry"), []string{"imagePullPolicy: Always", "- name: registry"}, nil},
		"another driver's name": {
			set("driverName=csi.example.org"),
			[]string{
				`name: "csi.example.org"`, `resourceNames: ["csi.example.org"]`, "- --state-dir=/run/csi.example.org",
				"- --endpoint=unix:///var/lib/kubelet/plugins/csi.example.org/csi.sock", `- "--driver-name=csi.example.org"`,
				"path: /var/lib/kubelet/plugins/csi.example.org", "path: /run/csi.example.org", "mountPath: /run/csi.example.org",
			},
			[]string{"csi.liveconfig.internal"},
		},
		"another directory of the kubelet": {
			set("kubeletDir=/opt/kubelet"),
			[]string{
				`- "--kubelet-dir=/opt/kubelet"`, "path: /opt/kubelet", "mountPath: /opt/kubelet", "- --registration-dir=/opt/kubelet/plugins_registry",
				"- --endpoint=unix:///opt/kubelet/plugins/csi.liveconfig.internal/csi.sock",
			},
			[]string{"/var/lib/kubelet"},
		},
		"durations": {
			set("publishTimeout=1m30s", "resyncInterval=5m", "recheckInterval=30s"),
			[]string{`- "--publish-timeout=1m30s"`, `- "--resync-interval=5m"`, `- "--recheck-interval=30s"`},
			nil,
		},
		"a size for volumes":      {set("volumeMemory=128Mi"), []string{`- "--volume-memory=128Mi"`}, nil},
		"SELinux left alone":      {set("selinuxContext="), []string{`- "--selinux-context="`}, nil},
		"a context with a range":  {set(`selinuxContext=system_u:object_r:container_file_t:s0:c1\,c2`), []string{`- "--selinux-context=system_u:object_r:container_file_t:s0:c1,c2"`}, nil},
		"a log for machines":      {set("log.verbosity=4", "log.format=json"), []string{`- "-v=4"`, `- "--log-format=json"`}, nil},
		"a log of nothing":        {set("log.verbosity=0"), []string{`- "-v=0"`}, nil},
		"a flag without a value":  {set("extraArgs={--kubeconfig=/etc/driver}"), []string{`- "--kubeconfig=/etc/driver"`}, nil},
		"another port":            {set("http.port=19809"), []string{"- --http-endpoint=:19809", "containerPort: 19809", "port: 19809"}, []string{":9809"}},
		"no port":                 {set("http.port=null"), []string{"policyTypes: [Ingress]"}, []string{"http-endpoint", "Probe:", "ports:", "ingress:"}},
		"no port but a sidecar":   {set("http.port=null", "livenessProbe.enabled=true"), []string{"livenessProbe:", "containerPort: 9808"}, []string{"readinessProbe:", "http-endpoint"}},
		"the namespace":           {set("namespace.create=true"), []string{"kind: Namespace", "pod-security.kubernetes.io/enforce: privileged"}, nil},
		"a cluster of long ago":   {[]string{"--kube-version", "1.26.0"}, []string{"tokenRequests:"}, []string{"serviceAccountTokenInSecrets"}},
		"a vendor's version 1.35": {[]string{"--kube-version", "v1.35.0-gke.1"}, []string{"serviceAccountTokenInSecrets: true"}, nil},
		"tokens beside secrets":   {set("csiDriver.serviceAccountTokenInSecrets=false"), []string{"tokenRequests:"}, []string{"serviceAccountTokenInSecrets"}},
		"tokens among secrets in any cluster": {
			append(set("csiDriver.serviceAccountTokenInSecrets=true"), "--kube-version", "1.30.0"), []string{"serviceAccountTokenInSecrets: true"}, nil,
		},
	}
}

func accessInstallations() map[string]installation {
	return map[string]installation{
		"the driver reads Secrets": {
			set("identity.secrets=driver"),
			[]string{`- "--secret-identity=driver"`, "resources: [configmaps, secrets]", "resources: [subjectaccessreviews]"},
			[]string{"tokenRequests", "serviceAccountTokenInSecrets", "no rule on Secrets"},
		},
		"pods read all": {
			set("identity.configMaps=pod"),
			[]string{`- "--configmap-identity=pod"`, "tokenRequests:", "resources: [events]"},
			[]string{"configmaps", "[secrets]", "subjectaccessreviews"},
		},
		"pods read ConfigMaps and the driver Secrets": {
			set("identity.configMaps=pod", "identity.secrets=driver"),
			[]string{`- "--configmap-identity=pod"`, `- "--secret-identity=driver"`, "tokenRequests:", "resources: [secrets]", "resources: [subjectaccessreviews]"},
			[]string{"configmaps"},
		},
		"some namespaces": {
			set("rbac.namespaces={default,kube-system}"),
			[]string{"kind: RoleBinding", `namespace: "default"`, `namespace: "kube-system"`},
			nil,
		},
	}
}

func podInstallations() map[string]installation {
	return map[string]installation{
		"another size":   {set("resources.limits.memory=2Gi", "resources.requests.cpu=100m"), []string{"memory: 2Gi", "cpu: 100m"}, nil},
		"no limit":       {set("resources.limits=null"), []string{"requests:"}, []string{"512Mi"}},
		"no priority":    {set("priorityClassName="), nil, []string{"priorityClassName"}},
		"some nodes":     {append(set("nodeSelector.pool=web"), "--set-json", `tolerations=[{"key":"a","operator":"Equal","value":"b","effect":"NoSchedule"}]`), []string{"pool: web", "- effect: NoSchedule"}, []string{"operator: Exists"}},
		"no tolerations": {[]string{"--set-json", "tolerations=[]"}, nil, []string{"tolerations"}},
		"null for what can be empty": {
			set("podLabels=null", "podAnnotations=null", "podMonitor.labels=null", "tolerations=null", "nodeSelector=null", "affinity=null",
				"extraArgs=null", "imagePullSecrets=null", "resources=null", "priorityClassName=null", "rbac.namespaces=null"),
			nil,
			[]string{"tolerations", "nodeSelector", "resources:\n", "null"},
		},
		"another name": {set("nameOverride=lc"), []string{"name: liveconfig-lc-driver", "app.kubernetes.io/name: liveconfig"}, []string{"name: liveconfig-driver"}},
		"a whole name": {
			set("fullnameOverride=config", "nameOverride=lc", "controller.enabled=true"),
			[]string{"name: config-driver", "name: config-controller", `- "--lease-name=config-controller"`},
			[]string{"name: liveconfig-"},
		},
		"labels of everything": {
			set("commonLabels.team=a", "controller.enabled=true", "service.enabled=true"),
			[]string{"app.kubernetes.io/instance: \"liveconfig\"\n    team: a"},
			[]string{"      team: a\n      app.kubernetes.io/component"},
		},
		"accounts of somebody": {
			set("serviceAccount.create=false", "serviceAccount.name=mine", "controller.enabled=true",
				"controller.serviceAccount.annotations.role=b", "controller.nodeTaint=true"),
			[]string{"serviceAccountName: mine", "name: mine", "role: b", `- "--driver-selector=app.kubernetes.io/instance=liveconfig,app.kubernetes.io/component=driver"`},
			nil,
		},
		"more in the pods": {
			[]string{
				"--set-json", `extraEnv=[{"name":"HTTPS_PROXY","value":"http://proxy"}]`, "--set-json", `extraVolumes=[{"name":"ca","configMap":{"name":"ca"}}]`,
				"--set-json", `extraVolumeMounts=[{"name":"ca","mountPath":"/ca"}]`, "--set-json", `podSecurityContext={"fsGroup":7}`,
				"--set", "securityContext.runAsUser=0", "--set", "controller.enabled=true", "--set", "controller.securityContext.runAsUser=7",
				"--set-json", `controller.extraEnv=[{"name":"NO_PROXY","value":"*"}]`, "--set-json", `controller.extraVolumes=[{"name":"own","emptyDir":{}}]`,
				"--set-json", `controller.extraVolumeMounts=[{"name":"own","mountPath":"/own"}]`,
			},
			[]string{"- name: HTTPS_PROXY", "- mountPath: /ca", "fsGroup: 7", "runAsUser: 0", "- name: NO_PROXY", "- mountPath: /own", "runAsUser: 7", "runAsUser: 65532"},
			nil,
		},
		"labels":             {set("podLabels.team=a", "podAnnotations.note=b"), []string{"team: a", "note: b"}, nil},
		"a slow end":         {set("terminationGracePeriodSeconds=90"), []string{"terminationGracePeriodSeconds: 90"}, nil},
		"one node at a time": {set("updateStrategy.maxUnavailable=1"), []string{"maxUnavailable: 1"}, nil},
		"updates by hand":    {set("updateStrategy.type=OnDelete"), []string{"type: OnDelete"}, []string{"maxUnavailable"}},
		"the sidecar registrar": {
			set("registrar.enabled=true"),
			[]string{"- --kubelet-registration-path=/var/lib/kubelet/plugins/csi.liveconfig.internal/csi.sock", "mountPath: /registration", "path: /var/lib/kubelet/plugins_registry", "automountServiceAccountToken: false", "- serviceAccountToken: {path: token, expirationSeconds: 3607}"},
			[]string{"registration-dir"},
		},
		"the sidecar livenessprobe": {
			set("livenessProbe.enabled=true", "livenessProbe.port=19808"),
			[]string{"- --health-port=19808", "containerPort: 19808", "httpGet: {path: /healthz, port: healthz}", "readinessProbe:"},
			nil,
		},
		"both sidecars of another registry": {
			set("registrar.enabled=true", "livenessProbe.enabled=true", "registrar.image.repository=r.example.org/r", "registrar.image.tag=1.0",
				"livenessProbe.image.repository=r.example.org/l", "registrar.resources=null", "driverName=csi.example.org"),
			[]string{`image: "r.example.org/r:1.0"`, `image: "r.example.org/l:v2.17.0"`, "- --kubelet-registration-path=/var/lib/kubelet/plugins/csi.example.org/csi.sock"},
			nil,
		},
		"nodes by affinity": {
			[]string{"--set-json", `affinity={"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"pool","operator":"Exists"}]}]}}}`},
			[]string{"nodeAffinity:"},
			nil,
		},
	}
}

func watchedInstallations() map[string]installation {
	return map[string]installation{
		"no policy": {set("networkPolicy.enabled=false"), nil, []string{"NetworkPolicy"}},
		"a policy for one scraper": {
			[]string{"--set-json", `networkPolicy.from=[{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"monitoring"}}},{"ipBlock":{"cidr":"10.0.0.0/8"}}]`},
			[]string{"kubernetes.io/metadata.name: monitoring", "cidr: 10.0.0.0/8"},
			nil,
		},
		"a policy that names the API server": {
			set("networkPolicy.apiServerCIDRs={10.0.0.0/28,fd00::/64}"),
			[]string{"policyTypes: [Ingress, Egress]", `cidr: "10.0.0.0/28"`, `cidr: "fd00::/64"`, "port: 53"},
			nil,
		},
		"a Service": {set("service.enabled=true"), []string{"clusterIP: None", "publishNotReadyAddresses: true"}, nil},
		"OpenShift": {
			set("openshift.enabled=true"),
			[]string{
				"security.openshift.io/csi-ephemeral-volume-profile: restricted", "kind: SecurityContextConstraints",
				`users: ["system:serviceaccount:liveconfig-system:liveconfig-driver"]`,
			},
			nil,
		},
		"policies of admission": {
			append([]string{"--kube-version", "1.36.0"}, set("admission.volumes=true", "admission.validation=true", "driverName=csi.example.org")...),
			[]string{"kind: MutatingAdmissionPolicy", "kind: ValidatingAdmissionPolicy", `driver: "csi.example.org",`},
			[]string{"csi.liveconfig.internal"},
		},
		"alerts and a dashboard": {
			set("prometheusRule.enabled=true", "prometheusRule.labels.release=prometheus", "dashboard.enabled=true", "dashboard.labels.folder=storage"),
			[]string{"kind: PrometheusRule", "release: prometheus", "liveconfig.json: |", `grafana_dashboard: "1"`, "folder: storage"},
			nil,
		},
		"a PodMonitor": {
			set("podMonitor.enabled=true", "podMonitor.interval=15s", "podMonitor.labels.release=prometheus"),
			[]string{"interval: 15s", "release: prometheus"},
			nil,
		},
	}
}

// TestEverySwitch renders the chart in every way, and has the API server and the driver look at the result.
func TestEverySwitch(t *testing.T) {
	t.Parallel()
	c := cluster.ForTest(t)
	driver, controller := environment.AsShipped(t, "liveconfig-driver"), environment.AsShipped(t, "liveconfig-controller")
	for name, in := range installations() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := template(t, in.args...)
			in.wantText(t, text)
			wantTaken(t, c, text)
			wantFlagsTaken(t, driver, "--resync-interval=0", "--resync-interval 0s is not positive", flagsIn(t, text, "DaemonSet", "driver"))
			if strings.Contains(text, "kind: Deployment") {
				wantFlagsTaken(t, controller, "--progress-deadline=0", "--progress-deadline 0s is not positive", flagsIn(t, text, "Deployment", "controller"))
			}
		})
	}
}

func (in installation) wantText(t *testing.T, text string) {
	t.Helper()
	for _, line := range in.has {
		if !strings.Contains(text, " "+line+"\n") && !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("there is no line %s in:\n%s", line, text)
		}
	}
	for _, part := range in.lacks {
		if strings.Contains(text, part) {
			t.Errorf("%s is in:\n%s", part, text)
		}
	}
}

// wantTaken applies the objects as a dry run on the server, in a namespace that is there. Types that
// Kubernetes does not have are checked by their Go types.
func wantTaken(t *testing.T, c *cluster.Cluster, text string) {
	t.Helper()
	var taken []string
	for _, object := range objects(t, strings.ReplaceAll(text, namespace, cluster.NewNamespace(t, c))) {
		document, err := yaml.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		switch object["kind"] {
		case monitoringv1.PodMonitorsKind:
			wantPodMonitor(t, document)
		case "SecurityContextConstraints":
			wantConstraints(t, document)
		case monitoringv1.PrometheusRuleKind:
			wantRules(t, document)
		case "ConfigMap":
			wantDashboard(t, document)
			taken = append(taken, string(document))
		default:
			taken = append(taken, string(document))
		}
	}
	path := filepath.Join(t.TempDir(), "objects.yaml")
	if err := os.WriteFile(path, []byte(strings.Join(taken, "---\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	// Another test may have installed the driver.
	out, err := c.Kubectl(t.Context(), "apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict", "--filename", path)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(out, "serverside-applied (server dry run)\n"); got != len(taken) {
		t.Errorf("the API server has taken %d objects, want %d:\n%s", got, len(taken), out)
	}
}

// wantConstraints checks that a SecurityContextConstraints, of which there is no API server here, has the fields of its type
// and allows no more than it must.
func wantConstraints(t *testing.T, document []byte) {
	t.Helper()
	var c securityv1.SecurityContextConstraints
	if err := yaml.UnmarshalStrict(document, &c); err != nil {
		t.Error(err)
	}
	if !c.AllowPrivilegedContainer || !c.AllowHostDirVolumePlugin || c.AllowHostNetwork || c.AllowHostPID || c.AllowHostIPC || len(c.Users) != 1 {
		t.Errorf("the constraints allow too much or too little:\n%s", document)
	}
}

func wantRules(t *testing.T, document []byte) {
	t.Helper()
	var got, want monitoringv1.PrometheusRule
	err := yaml.UnmarshalStrict(document, &got)
	if err == nil {
		rules := strings.ReplaceAll(read(t, inRepo(t, "deploy", "monitoring", "prometheusrule.yaml")), namespace, got.Namespace)
		err = yaml.UnmarshalStrict([]byte(rules), &want)
	}
	if err != nil || cmp.Diff(want.Spec, got.Spec) != "" {
		t.Errorf("the rules, %v, differ from deploy/monitoring (-want +got):\n%s", err, cmp.Diff(want.Spec, got.Spec))
	}
}

func wantDashboard(t *testing.T, document []byte) {
	t.Helper()
	var m corev1.ConfigMap
	var got, want any
	err := yaml.UnmarshalStrict(document, &m)
	if err == nil {
		err = errors.Join(json.Unmarshal([]byte(m.Data["liveconfig.json"]), &got),
			json.Unmarshal([]byte(read(t, inRepo(t, "deploy", "monitoring", "dashboard.json"))), &want))
	}
	if err != nil || cmp.Diff(want, got) != "" {
		t.Errorf("the dashboard, %v, differs from deploy/monitoring, run: make monitoring (-want +got):\n%s", err, cmp.Diff(want, got))
	}
}

func wantPodMonitor(t *testing.T, document []byte) {
	t.Helper()
	var m monitoringv1.PodMonitor
	if err := yaml.UnmarshalStrict(document, &m); err != nil {
		t.Error(err)
	}
	if len(m.Spec.PodMetricsEndpoints) != 1 {
		t.Errorf("endpoints = %v, want one", m.Spec.PodMetricsEndpoints)
	}
}
