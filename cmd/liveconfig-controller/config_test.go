package main

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/liveconfig-csi/liveconfig/docs"
	"github.com/liveconfig-csi/liveconfig/pkg/expect"
)

// inPod is the environment of a controller's container.
func inPod(name string) string {
	return map[string]string{"POD_NAME": "controller-0", "POD_NAMESPACE": "liveconfig-system"}[name]
}

// nowhere is the environment of a process that nobody has prepared.
func nowhere(string) string { return "" }

// defaults are the settings without flags.
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
		"nothing but the environment": {nil, func(*config) {}},
		"every flag": {
			[]string{
				"--kubeconfig=/etc/kube", "--namespaces=b,a,b", "--secrets=false", "--driver-name=csi.example.test", "--compat-reloader",
				"--secret-identity=driver", "--quiet-period=1m30s", "--rollout-rate=0.1", "--hold-failing=false", "--progress-deadline=1ns",
				"--dry-run", "--releases=false", "--evidence", "--node-taint", "--driver-namespace=csi", "--driver-selector=app=x",
				"--lease-namespace=other", "--lease-name", "mine", "--http-endpoint=:9809", "-v", "5", "--log-format=json",
			},
			func(c *config) {
				c.kubeconfig, c.namespaces, c.secrets, c.driverName, c.compatReloader = "/etc/kube", "b,a,b", false, "csi.example.test", true
				c.secretIdentity, c.quietPeriod, c.rolloutRate, c.holdFailing, c.progressDeadline = "driver", 90*time.Second, 0.1, false, 1
				c.dryRun, c.releases, c.evidence, c.nodeTaint, c.driverNamespace, c.driverSelector = true, false, true, true, "csi", "app=x"
				c.leaseNamespace, c.leaseName, c.httpEndpoint, c.verbosity, c.logFormat = "other", "mine", ":9809", 5, "json"
			},
		},
		"no quiet period": {[]string{"--quiet-period=0"}, func(c *config) { c.quietPeriod = 0 }},
		"no lease, which needs no namespace": {
			[]string{"--leader-elect=false", "--lease-namespace="}, func(c *config) { c.leaderElect, c.leaseNamespace = false, "" },
		},
		"HTTP on IPv6": {[]string{"--http-endpoint=[::1]:0"}, func(c *config) { c.httpEndpoint = "[::1]:0" }},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			got, err := parseFlags(tc.args, inPod, &out)
			expect.NoError(t, err)
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
		"no rollout at all":             {"--rollout-rate=0", "--rollout-rate 0 is not positive"},
		"a rate below none":             {"--rollout-rate=-1", "--rollout-rate -1 is not positive"},
		"a rate that is no number":      {"--rollout-rate=NaN", "--rollout-rate NaN is not positive"},
		"no progress deadline":          {"--progress-deadline=0", "--progress-deadline 0s is not positive"},
		"no namespace for the lease":    {"--lease-namespace=", "--lease-namespace is missing: give one, set $POD_NAMESPACE, or set --leader-elect=false"},
		"a lease without a name":        {"--lease-name=", `--lease-name "": a lowercase RFC 1123 subdomain`},
		"a verbosity that is a word":    {"-v=high", `invalid value "high" for flag -v`},
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

func TestEveryMistakeIsReportedAtOnce(t *testing.T) {
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
	expect.NoError(t, err)
	c, err := parseFlags([]string{"--leader-elect=false"}, nowhere, &bytes.Buffer{})
	expect.NoError(t, err)
	if want := host + "_" + strconv.Itoa(os.Getpid()); c.identity != want {
		t.Errorf("identity = %q, want %q", c.identity, want)
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if _, err := parseFlags([]string{"--help"}, inPod, &out); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("error = %v, want %v", err, flag.ErrHelp)
	}
	for _, want := range []string{"-compat-reloader", "-quiet-period duration", "(default 2s)", `(default "liveconfig-system")`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("usage does not say %s:\n%s", want, out.String())
		}
	}
}
