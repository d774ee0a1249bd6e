package deploy

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// TestMistakesAreReported: what is wrong with a value is reported with its name, and nothing is rendered.
func TestMistakesAreReported(t *testing.T) {
	t.Parallel()
	const long = "kubeletDir=/a/directory/that/is/so/long/that/the/path/of/a/socket/in/it/would/not/fit/into/what/the/kernel/takes"
	tests := map[string]struct{ set, want string }{
		"a value that nobody knows":                   {"typo=1", "at '': additional properties 'typo' not allowed"},
		"a port with a typo":                          {"http.prot=9809", "at '/http': additional properties 'prot' not allowed"},
		"a port that is root's":                       {"http.port=80", "at '/http/port': minimum: got 80"},
		"a port that is a name":                       {"http.port=http", "at '/http/port': got string"},
		"a verbosity beyond":                          {"log.verbosity=6", "at '/log/verbosity': maximum: got 6"},
		"a format that nobody knows":                  {"log.format=xml", "at '/log/format': value must be one of 'text', 'json'"},
		"an identity that nobody knows":               {"identity.secrets=root", "at '/identity/secrets': value must be one of 'driver', 'pod'"},
		"an identity with a typo":                     {"identity.configmaps=pod", "at '/identity': additional properties 'configmaps' not allowed"},
		"a surge":                                     {"updateStrategy.maxSurge=1", "at '/updateStrategy': additional properties 'maxSurge' not allowed"},
		"no node at a time":                           {"updateStrategy.maxUnavailable=0", "at '/updateStrategy/maxUnavailable'"},
		"a driver's name in capitals":                 {"driverName=CSI", "at '/driverName': 'CSI' does not match pattern"},
		"a driver's name that is too long":            {"driverName=" + strings.Repeat("n", 64), "at '/driverName': maxLength: got 64"},
		"a driver's name without a dot":               {"driverName=systemd", "at '/driverName': 'systemd' does not match pattern"},
		"a directory of the container":                {"kubeletDir=/csi", "kubeletDir must not be /csi or below it"},
		"a directory below another":                   {"kubeletDir=/run/kubelet", "kubeletDir must not be /run or below it"},
		"a directory with a slash":                    {"kubeletDir=/var/lib/kubelet/", "at '/kubeletDir'"},
		"a directory with dots":                       {"kubeletDir=/var/../lib", "at '/kubeletDir'"},
		"a socket that is too long":                   {long, "kubeletDir and driverName are too long together: the path of a unix socket has at most 107 bytes"},
		"limits with a typo":                          {"resources.limts.memory=1Gi", "at '/resources': additional properties 'limts' not allowed"},
		"a size with a typo":                          {"resources.limits.memory=1Gib", "at '/resources/limits/memory': '1Gib' does not match pattern"},
		"a size for volumes that is invalid":          {"volumeMemory=lots", "at '/volumeMemory': 'lots' does not match pattern"},
		"a duration without a unit":                   {"publishTimeout=10", "at '/publishTimeout': got number, want string"},
		"a duration that is a word":                   {"resyncInterval=never", "at '/resyncInterval': 'never' does not match pattern"},
		"a context that is invalid":                   {"selinuxContext=container_file_t", "at '/selinuxContext'"},
		"tokens perhaps":                              {"csiDriver.serviceAccountTokenInSecrets=perhaps", "at '/csiDriver/serviceAccountTokenInSecrets': value must be one of 'auto'"},
		"a flag that follows a value":                 {"extraArgs={--driver-name=x}", "extraArgs must not have --driver-name: it follows driverName"},
		"the flag of the log":                         {"extraArgs={-v=5}", "extraArgs must not have --v: it follows log.verbosity"},
		"an argument that is not a flag":              {"extraArgs={kubeconfig}", "at '/extraArgs/0': 'kubeconfig' does not match pattern"},
		"a label of the chart's":                      {`podLabels.app\.kubernetes\.io/name=x`, "podLabels must not have app.kubernetes.io/name"},
		"a label that is a number":                    {"podLabels.team=1", "at '/podLabels/team': got number, want string"},
		"a PodMonitor of nothing":                     {"podMonitor.enabled=true,http.port=null", "podMonitor.enabled needs http.port"},
		"a Service of nothing":                        {"service.enabled=true,http.port=null", "service.enabled needs http.port"},
		"one port for two":                            {"livenessProbe.enabled=true,livenessProbe.port=9809", "livenessProbe.port and http.port are the same"},
		"a peer with a typo":                          {"networkPolicy.from[0].podSelecter.a=b", "at '/networkPolicy/from/0': additional properties 'podSelecter' not allowed"},
		"an address for a range":                      {"networkPolicy.apiServerCIDRs={10.0.0.1}", "at '/networkPolicy/apiServerCIDRs/0': '10.0.0.1' does not match pattern"},
		"a toleration with a typo":                    {"tolerations[0].efect=NoSchedule", "at '/tolerations/0': additional properties 'efect' not allowed"},
		"a namespace that is invalid":                 {"rbac.namespaces={Team_A}", "at '/rbac/namespaces/0': 'Team_A' does not match pattern"},
		"an image in one":                             {"image=liveconfig:dev", "at '/image': got string, want object"},
		"a repository with a tag":                     {"image.tag=dev:1", "at '/image/tag': 'dev:1' does not match pattern"},
		"no image":                                    {"image.repository=", "image.repository is missing: no image is published"},
		"nothing about the port":                      {"http=null", "missing property 'http'"},
		"no identity":                                 {"identity.secrets=null", "at '/identity': missing property 'secrets'"},
		"no controllers in all":                       {"controller.replicas=-1", "at '/controller/replicas': minimum: got -1"},
		"a controller's value that nobody knows":      {"controller.replica=1", "at '/controller': additional properties 'replica' not allowed"},
		"a controller's namespace that is invalid":    {"controller.namespaces={Team_A}", "at '/controller/namespaces/0': 'Team_A' does not match pattern"},
		"a rate of nothing":                           {"controller.rolloutRate=0", "at '/controller/rolloutRate': 'oneOf' failed"},
		"a quiet period without a unit":               {"controller.quietPeriod=2", "at '/controller/quietPeriod': got number, want string"},
		"a spread with a selector":                    {"controller.topologySpreadConstraints[0].labelSelector.a=b", "at '/controller/topologySpreadConstraints/0'"},
		"a controller's flag that follows a value":    {"controller.extraArgs={--secrets=false}", "controller.extraArgs must not have --secrets: it follows controller.secrets"},
		"a lease of another name":                     {"controller.extraArgs={--lease-name=x}", "controller.extraArgs must not have --lease-name: it follows the name of the release"},
		"a controller without a lease":                {"controller.extraArgs={-leader-elect=false}", "controller.extraArgs must not have --leader-elect"},
		"a label of the chart's on the controller":    {`controller.podLabels.app\.kubernetes\.io/component=x`, "controller.podLabels must not have app.kubernetes.io/component"},
		"a PodMonitor of a controller without a port": {"controller.enabled=true,controller.http.port=null,controller.podMonitor.enabled=true", "controller.podMonitor.enabled needs controller.http.port"},
		"a driver without privileges":                 {"securityContext.privileged=false", "securityContext.privileged must be true"},
		"a label that objects are found by":           {"commonLabels.app\\.kubernetes\\.io/name=a", "commonLabels must not have app.kubernetes.io/name"},
		"a Service of a controller without a port":    {"controller.enabled=true,controller.http.port=null,service.enabled=true", "service.enabled needs controller.http.port"},
		"a switch that is a word":                     {"registrar.enabled=maybe", "at '/registrar/enabled': got string, want boolean"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := slices.Concat([]string{"template", release, "deploy/chart", "--kube-version", "1.35.0"}, image(), set(tc.set))
			out, err := helm(t, args...)
			if err == nil || !strings.Contains(out, tc.want) || strings.Contains(out, "apiVersion:") {
				t.Errorf("helm ends with %v, want an error with %q and no object:\n%s", err, tc.want, out)
			}
		})
	}
}

// schema is what this package reads of a JSON schema.
type schema struct {
	Ref                  string            `json:"$ref"`
	Properties           map[string]schema `json:"properties"`
	AdditionalProperties json.RawMessage   `json:"additionalProperties"`
	Items                *schema           `json:"items"`
	Definitions          map[string]schema `json:"definitions"`
}

// TestSchemaHasEveryValue, and no other, and is strict wherever it lists names.
func TestSchemaHasEveryValue(t *testing.T) {
	t.Parallel()
	var root schema
	if err := json.Unmarshal([]byte(read(t, inRepo(t, "deploy", "chart", "values.schema.json"))), &root); err != nil {
		t.Fatal(err)
	}
	delete(root.Properties, "global") // Helm gives it to charts within charts.
	compared := root.compare(t, root.Definitions, "", values(t))
	if want := 68; compared < want {
		t.Errorf("%d values have been compared, want at least %d", compared, want)
	}
}

func values(t *testing.T) map[string]any {
	t.Helper()
	var v map[string]any
	if err := yaml.UnmarshalStrict([]byte(read(t, inRepo(t, "deploy", "chart", "values.yaml"))), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// compare returns how many values it has seen.
func (s schema) compare(t *testing.T, definitions map[string]schema, at string, value any) int {
	t.Helper()
	if name, ok := strings.CutPrefix(s.Ref, "#/definitions/"); ok {
		s = definitions[name]
	}
	if s.Items != nil {
		s.Items.compare(t, definitions, at+"[]", nil)
	}
	if s.Properties == nil {
		return 1
	}
	if string(s.AdditionalProperties) != "false" {
		t.Errorf("the schema of %q takes whatever there is", at)
	}
	object, ok := value.(map[string]any)
	if !ok { // An entry of a list.
		return 1
	}
	compared := 0
	for name, next := range object {
		below, known := s.Properties[name]
		if !known {
			t.Errorf("the schema does not know %s.%s", at, name)
		}
		compared += below.compare(t, definitions, at+"."+name, next)
	}
	for name := range s.Properties {
		if _, known := object[name]; !known && !slices.Contains(unset(), strings.TrimPrefix(at, ".controller")+"."+name) {
			t.Errorf("values.yaml does not have %s.%s, which the schema knows", at, name)
		}
	}
	return compared
}

// unset are names that the schema knows for what it is that they stand in, and for which values.yaml has no value. They are
// the driver's, and the controller's.
func unset() []string {
	return []string{".affinity.nodeAffinity", ".affinity.podAffinity", ".affinity.podAntiAffinity"}
}

// TestDefaultsAreTheProgramsOwn, because a flag is passed only for what is not.
func TestDefaultsAreTheProgramsOwn(t *testing.T) {
	t.Parallel()
	tests := map[string]map[string]string{
		"liveconfig-driver": {
			"driver-name": "driverName", "kubelet-dir": "kubeletDir", "selinux-context": "selinuxContext",
			"configmap-identity": "identity.configMaps", "secret-identity": "identity.secrets", "v": "log.verbosity", "log-format": "log.format",
		},
		"liveconfig-controller": {
			"driver-name": "driverName", "secret-identity": "identity.secrets", "secrets": "controller.secrets",
			"rollout-rate": "controller.rolloutRate", "hold-failing": "controller.holdFailing",
			"v": "controller.log.verbosity", "log-format": "controller.log.format",
		},
	}
	for program, flags := range tests {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			usage := usage(t, program)
			got, want := map[string]string{}, map[string]string{}
			for flag, path := range flags {
				var value any = values(t)
				for name := range strings.SplitSeq(path, ".") {
					value = value.(map[string]any)[name]
				}
				got[flag] = fmt.Sprint(value)
				found := regexp.MustCompile(`(?m)^  -` + flag + `\b.*\n.*\(default "?([^")]*)"?\)$`).FindSubmatch(usage)
				if found == nil {
					t.Fatalf("the program does not say what --%s is without the flag:\n%s", flag, usage)
				}
				want[flag] = string(found[1])
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("values.yaml (-program +values):\n%s", diff)
			}
		})
	}
}

// TestEveryFlagHasAValue, but for those for the place of the objects, which a pod of the chart finds by itself: a new flag of
// a program must not be given by extraArgs and by nothing that is checked.
func TestEveryFlagHasAValue(t *testing.T) {
	t.Parallel()
	checks := read(t, inRepo(t, "deploy", "chart", "templates", "_checks.tpl"))
	for program, tt := range map[string]struct {
		define string
		want   []string
	}{
		"liveconfig-driver":     {"liveconfig.checkArgs", []string{"kubeconfig", "manifests"}},
		"liveconfig-controller": {"liveconfig.checkControllerArgs", []string{"kubeconfig"}},
	} {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			_, checked, found := strings.Cut(checks, `{{- define "`+tt.define+`"`)
			if !found {
				t.Fatalf("there is no %s", tt.define)
			}
			checked, _, _ = strings.Cut(checked, "{{- define")
			var got []string
			for _, found := range regexp.MustCompile(`(?m)^  -([a-z-]+)`).FindAllSubmatch(usage(t, program), -1) {
				if flag := string(found[1]); !strings.Contains(checked, `"`+flag+`" "`) {
					got = append(got, flag)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("flags that no value stands for (-want +got):\n%s", diff)
			}
		})
	}
}

// TestReadmeKnowsTheValues that it speaks of. Alerts, which have a table too, begin with a capital.
func TestReadmeKnowsTheValues(t *testing.T) {
	t.Parallel()
	known := values(t)
	table := regexp.MustCompile("(?m)^\\| (`[^|]*`) \\|").FindAllStringSubmatch(read(t, inRepo(t, "deploy", "README.md")), -1)
	spoken := map[string]bool{}
	for _, row := range table {
		for _, found := range regexp.MustCompile("`([a-z][a-zA-Z.]*)`").FindAllStringSubmatch(row[1], -1) {
			var value any = known
			for name := range strings.SplitSeq(found[1], ".") {
				below, ok := value.(map[string]any)
				if _, has := below[name]; !ok || !has {
					t.Fatalf("there is no value %s", found[1])
				}
				value = below[name]
			}
			spoken[strings.Split(found[1], ".")[0]] = true
		}
	}
	for name := range known {
		if !spoken[name] {
			t.Errorf("deploy/README.md does not speak of %s", name)
		}
	}
}
