package main

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/liveconfig-csi/liveconfig/docs"
)

// inPod is the environment of a controller's container.
func inPod(name string) string {
	return map[string]string{"POD_NAME": "controller-0", "POD_NAMESPACE": "liveconfig-system"}[name]
}

// nowhere is the environment of a process that nobody has prepared.
func nowhere(string) string { return "" }

// defaults is what no flags say.
func defaults() config {
	return config{
		driverName:       "csi.liveconfig.internal",
		secrets:          true,
		secretIdentity:   "pod",
		quietPeriod:      2 * time.Second,
		rolloutRate:      10,
		holdFailing:      true,
		releases:         true,
		progressDeadline: 10 * time.Minute,
		driverNamespace:  "liveconfig-system",
		driverSelector:   "app.kubernetes.io/name=liveconfig,app.kubernetes.io/component=driver",
		leaderElect:      true,
		leaseNamespace:   "liveconfig-system",
		leaseName:        "liveconfig-controller",
		identity:         "controller-0",
		verbosity:        2,
		logFormat:        "text",
	}
}

// TestPageOfFlags compares names, meanings and defaults of the flags with docs/flags.md.
func TestPageOfFlags(t *testing.T) {
	namespace := func(name string) string { return map[string]string{"POD_NAMESPACE": "$POD_NAMESPACE"}[name] }
	docs.Table{
		Page: "flags.md", Name: "liveconfig-controller", Columns: []string{"flag", "meaning", "default"},
		Rows: docs.Flags(new(config).flags(namespace)),
	}.Compare(t)
}

func TestParseFlags(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		args []string
		want func(*config)
	}{
		"nothing but the environment":  {nil, func(*config) {}},
		"kubeconfig":                   {[]string{"--kubeconfig=/etc/kube"}, func(c *config) { c.kubeconfig = "/etc/kube" }},
		"namespaces":                   {[]string{"--namespaces=b,a,b"}, func(c *config) { c.namespaces = "b,a,b" }},
		"no Secrets":                   {[]string{"--secrets=false"}, func(c *config) { c.secrets = false }},
		"driver name":                  {[]string{"--driver-name=csi.example.test"}, func(c *config) { c.driverName = "csi.example.test" }},
		"annotations of Reloader":      {[]string{"--compat-reloader"}, func(c *config) { c.compatReloader = true }},
		"Secrets by the driver":        {[]string{"--secret-identity=driver"}, func(c *config) { c.secretIdentity = "driver" }},
		"quiet period":                 {[]string{"--quiet-period=1m30s"}, func(c *config) { c.quietPeriod = 90 * time.Second }},
		"no quiet period":              {[]string{"--quiet-period=0"}, func(c *config) { c.quietPeriod = 0 }},
		"less than a rollout a second": {[]string{"--rollout-rate=0.1"}, func(c *config) { c.rolloutRate = 0.1 }},
		"nothing held":                 {[]string{"--hold-failing=false"}, func(c *config) { c.holdFailing = false }},
		"progress deadline":            {[]string{"--progress-deadline=1ns"}, func(c *config) { c.progressDeadline = 1 }},
		"dry run":                      {[]string{"--dry-run"}, func(c *config) { c.dryRun = true }},
		"no releases":                  {[]string{"--releases=false"}, func(c *config) { c.releases = false }},
		"taints of nodes": {
			[]string{"--node-taint", "--driver-namespace=csi", "--driver-selector=app=x"},
			func(c *config) { c.nodeTaint, c.driverNamespace, c.driverSelector = true, "csi", "app=x" },
		},
		"another lease": {
			[]string{"--lease-namespace=other", "--lease-name", "mine"}, func(c *config) { c.leaseNamespace, c.leaseName = "other", "mine" },
		},
		"no lease, which needs no namespace": {
			[]string{"--leader-elect=false", "--lease-namespace="}, func(c *config) { c.leaderElect, c.leaseNamespace = false, "" },
		},
		"HTTP on every address": {[]string{"--http-endpoint=:9809"}, func(c *config) { c.httpEndpoint = ":9809" }},
		"HTTP on IPv6":          {[]string{"--http-endpoint=[::1]:0"}, func(c *config) { c.httpEndpoint = "[::1]:0" }},
		"verbosity":             {[]string{"-v", "5"}, func(c *config) { c.verbosity = 5 }},
		"log format":            {[]string{"--log-format=json"}, func(c *config) { c.logFormat = "json" }},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			got, err := parseFlags(tc.args, inPod, &out)
			if err != nil {
				t.Fatal(err)
			}
			want := defaults()
			tc.want(&want)
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(config{})); diff != "" {
				t.Errorf("config (-want +got):\n%s", diff)
			}
			if out.Len() > 0 {
				t.Errorf("output = %q, want none", out.String())
			}
		})
	}
}

func TestParseFlagsRefuses(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ arg, want string }{
		"a namespace in capitals":       {"--namespaces=a,B", `--namespaces: "B": a lowercase RFC 1123 label`},
		"a comma too many":              {"--namespaces=a,", `--namespaces: "": a lowercase RFC 1123 label`},
		"a space behind the comma":      {"--namespaces=a, b", `--namespaces: " b": a lowercase RFC 1123 label`},
		"Secrets that are neither":      {"--secrets=some", `invalid boolean value "some" for -secrets`},
		"a driver name in capitals":     {"--driver-name=CSI", `--driver-name "CSI": a lowercase RFC 1123 subdomain`},
		"an identity that nobody knows": {"--secret-identity=root", `--secret-identity "root" is not driver or pod`},
		"a negative quiet period":       {"--quiet-period=-1s", "--quiet-period -1s is negative"},
		"a quiet period without a unit": {"--quiet-period=2", `invalid value "2" for flag -quiet-period`},
		"no rollout at all":             {"--rollout-rate=0", "--rollout-rate 0 is not positive"},
		"a rate below none":             {"--rollout-rate=-1", "--rollout-rate -1 is not positive"},
		"a rate that is no number":      {"--rollout-rate=NaN", "--rollout-rate NaN is not positive"},
		"no progress deadline":          {"--progress-deadline=0", "--progress-deadline 0s is not positive"},
		"no namespace for the lease":    {"--lease-namespace=", "--lease-namespace is missing: give one, set $POD_NAMESPACE, or set --leader-elect=false"},
		"a lease without a name":        {"--lease-name=", `--lease-name "": a lowercase RFC 1123 subdomain`},
		"an endpoint without a port":    {"--http-endpoint=localhost", `--http-endpoint "localhost" is not host:port, such as 127.0.0.1:9809 or :9809`},
		"a verbosity that is a word":    {"-v=high", `invalid value "high" for flag -v`},
		"a format that nobody knows":    {"--log-format=xml", `--log-format "xml" is not text or json`},
		"an argument that is no flag":   {"all", `unexpected argument "all": the program takes flags only`},
		"a flag that nobody knows":      {"--namespace=x", "flag provided but not defined: -namespace"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := parseFlags([]string{tc.arg}, inPod, &bytes.Buffer{})
			if err == nil || !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("error = %v, want it to begin with %s", err, tc.want)
			}
			if err != nil && strings.Contains(err.Error(), "\n") {
				t.Errorf("error = %q, want one mistake", err)
			}
		})
	}
}

func TestEveryMistakeIsSaidAtOnce(t *testing.T) {
	t.Parallel()
	args := []string{
		"--namespaces=X", "--driver-name=", "--secret-identity=root", "--quiet-period=-1s", "--rollout-rate=0", "--progress-deadline=0",
		"--lease-name=", "--log-format=x", "--http-endpoint=x",
	}
	want := []string{
		"--namespaces", "--driver-name", "--secret-identity", "--quiet-period", "--rollout-rate", "--progress-deadline",
		"--lease-namespace", "--lease-name", "--http-endpoint", "--log-format",
	}
	_, err := parseFlags(args, nowhere, &bytes.Buffer{})
	if err == nil {
		t.Fatal("error = nil")
	}
	var got []string
	for line := range strings.Lines(err.Error()) {
		got = append(got, strings.TrimSuffix(strings.Fields(line)[0], ":"))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("flags with mistakes (-want +got):\n%s", diff)
	}
}

func TestNamespaceList(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{"": nil, "a": {"a"}, "b,a,b": {"a", "b"}} {
		if diff := cmp.Diff(want, config{namespaces: text}.namespaceList()); diff != "" {
			t.Errorf("namespaces of %q (-want +got):\n%s", text, diff)
		}
	}
}

// TestIdentityOutsideOfAPod is another for each process: two of one host must not take themselves for one.
func TestIdentityOutsideOfAPod(t *testing.T) {
	t.Parallel()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	c, err := parseFlags([]string{"--leader-elect=false"}, nowhere, &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	if want := host + "_" + strconv.Itoa(os.Getpid()); c.identity != want {
		t.Errorf("identity = %q, want %q", c.identity, want)
	}
}

// TestHelp has every flag and its default, in the order of the alphabet.
func TestHelp(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if _, err := parseFlags([]string{"--help"}, inPod, &out); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("error = %v, want %v", err, flag.ErrHelp)
	}
	var got []string
	for _, found := range regexp.MustCompile(`(?m)^  -(\S+).*\n\s+.*?( \(default .*\))?$`).FindAllStringSubmatch(out.String(), -1) {
		got = append(got, found[1]+found[2])
	}
	want := []string{
		"compat-reloader",
		`driver-name (default "csi.liveconfig.internal")`, `driver-namespace (default "liveconfig-system")`,
		`driver-selector (default "app.kubernetes.io/name=liveconfig,app.kubernetes.io/component=driver")`, "dry-run", "hold-failing (default true)", "http-endpoint", "kubeconfig",
		"leader-elect (default true)", `lease-name (default "liveconfig-controller")`, `lease-namespace (default "liveconfig-system")`,
		`log-format (default "text")`, "namespaces", "node-taint", "progress-deadline (default 10m0s)", "quiet-period (default 2s)", "releases (default true)", "roles",
		"rollout-rate (default 10)", `secret-identity (default "pod")`, "secrets (default true)", "v (default 2)",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("flags of the usage (-want +got):\n%s\n%s", diff, out.String())
	}
}
