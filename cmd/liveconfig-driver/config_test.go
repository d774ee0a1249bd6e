package main

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/liveconfig-csi/liveconfig/docs"
)

// onNode is the environment of a driver's container.
func onNode(name string) string {
	if name == "NODE_NAME" {
		return "node-1"
	}
	return ""
}

// defaults are the settings without flags.
func defaults() config {
	return config{
		endpoint:          "unix:///var/lib/kubelet/plugins/csi.liveconfig.internal/csi.sock",
		nodeID:            "node-1",
		driverName:        "csi.liveconfig.internal",
		stateDir:          "/run/csi.liveconfig.internal",
		kubeletDir:        "/var/lib/kubelet",
		configMapIdentity: "driver",
		secretIdentity:    "pod",
		shareVolumes:      true,
		publishTimeout:    10 * time.Second,
		resyncInterval:    10 * time.Minute,
		recheckInterval:   2 * time.Minute,
		selinuxContext:    "system_u:object_r:container_file_t:s0",
		verbosity:         2,
		logFormat:         "text",
	}
}

// TestThePagesSayWhenADenialIsBelieved: they state the default of the flag, and two and a half times that. That the files
// follow a revocation within that time is a test of package source.
func TestThePagesSayWhenADenialIsBelieved(t *testing.T) {
	t.Parallel()
	cfg, err := parseFlags(nil, onNode, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	words := map[time.Duration]string{2 * time.Minute: "two minutes", 5 * time.Minute: "five minutes"}
	interval, atMost := words[cfg.recheckInterval], words[cfg.recheckInterval*5/2]
	if interval == "" || atMost == "" {
		t.Fatalf("--recheck-interval is %s by default: say so in the pages, and here", cfg.recheckInterval)
	}
	for page, sentences := range map[string][]string{
		"docs/access.md": {
			"the driver asks the API server again about every " + interval + " (`--recheck-interval`)",
			"denied access for " + strings.Replace(interval, " ", " more ", 1), "within " + atMost,
		},
		"docs/limits.md": {"within two and a half times `--recheck-interval`"},
		"docs/security/driver.md": {
			"asked again about every `--recheck-interval` (2 minutes)", "nothing but denials for another `--recheck-interval`",
			"at most two and a half times `--recheck-interval`, which is " + atMost + " by default",
		},
		"examples/README.md": {"within " + atMost + " the pod gets the Event `AccessLost`"},
	} {
		text, err := os.ReadFile(filepath.Join("..", "..", page))
		if err != nil {
			t.Fatal(err)
		}
		for _, sentence := range sentences {
			if !strings.Contains(strings.Join(strings.Fields(string(text)), " "), sentence) {
				t.Errorf("%s does not say: %s", page, sentence)
			}
		}
	}
}

// TestPageOfFlags compares names, meanings and defaults of the flags with docs/flags.md.
func TestPageOfFlags(t *testing.T) {
	node := func(name string) string { return map[string]string{"NODE_NAME": "$NODE_NAME"}[name] }
	docs.Table{
		Page: "flags.md", Name: "liveconfig-driver", Columns: []string{"flag", "meaning", "default"}, Rows: docs.Flags(new(config).flags(node)),
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
				"--endpoint=/run/csi.sock", "--node-id", "other", "--driver-name=csi.example.test", "--kubeconfig=/etc/kube",
				"--state-dir=/run/x", "--registration-dir=/registration", "--kubelet-dir=/k", "--publish-timeout=1m30s",
				"--recheck-interval=3s", "--secret-identity=driver", "--configmap-identity=pod", "--resync-interval=1ns",
				"--share-volumes=false", "--http-endpoint=:9809", "--selinux-context=", "-v", "5", "--log-format=json",
			},
			func(c *config) {
				c.endpoint, c.nodeID, c.driverName, c.kubeconfig = "/run/csi.sock", "other", "csi.example.test", "/etc/kube"
				c.stateDir, c.registrationDir, c.kubeletDir, c.publishTimeout = "/run/x", "/registration", "/k", 90*time.Second
				c.recheckInterval, c.secretIdentity, c.configMapIdentity, c.resyncInterval = 3*time.Second, "driver", "pod", 1
				c.shareVolumes, c.httpEndpoint, c.selinuxContext, c.verbosity, c.logFormat = false, ":9809", "", 5, "json"
			},
		},
		"a driver name of 63": {
			[]string{"--driver-name=" + strings.Repeat("n", 63)}, func(c *config) { c.driverName = strings.Repeat("n", 63) },
		},
		"manifests":                  {[]string{"--manifests=m"}, func(c *config) { c.manifests = "m" }},
		"a publish that never waits": {[]string{"--publish-timeout=0"}, func(c *config) { c.publishTimeout = 0 }},
		"HTTP on IPv6":               {[]string{"--http-endpoint=[::1]:0"}, func(c *config) { c.httpEndpoint = "[::1]:0" }},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			got, err := parseFlags(tc.args, onNode, &out)
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
	long := "/" + strings.Repeat("p", 107)
	tests := map[string]struct{ arg, want string }{
		"an endpoint that is no URL": {
			"--endpoint=csi.sock", `--endpoint: endpoint "csi.sock" is not a unix socket URL; write it as unix:///run/example/csi.sock`,
		},
		"no node ID": {"--node-id=", "--node-id is missing: give the node's name, or set $NODE_NAME"},
		"a driver name in capitals": {
			"--driver-name=CSI", `--driver-name "CSI": a lowercase RFC 1123 subdomain must consist of`,
		},
		"a driver name that is too long": {
			"--driver-name=" + strings.Repeat("n", 64), `--driver-name "` + strings.Repeat("n", 64) + `": must be no more than 63 characters`,
		},
		"no driver name":                        {"--driver-name=", `--driver-name "": a lowercase RFC 1123 subdomain`},
		"a relative state directory":            {"--state-dir=state", `--state-dir "state" is not a clean absolute path`},
		"no state directory":                    {"--state-dir=", `--state-dir "" is not a clean absolute path`},
		"a kubelet's directory with a slash":    {"--kubelet-dir=/var/lib/kubelet/", `--kubelet-dir "/var/lib/kubelet/" is not a clean absolute path`},
		"the whole node":                        {"--kubelet-dir=/", `--kubelet-dir "/" is not a clean absolute path`},
		"a relative registration directory":     {"--registration-dir=x", `--registration-dir "x" is not a clean absolute path`},
		"a registration directory that is long": {"--registration-dir=" + long[:80], "--registration-dir: the path of a unix socket has at most 107 bytes"},
		"an identity that nobody knows":         {"--secret-identity=root", `--secret-identity "root" is not driver or pod`},
		"a negative timeout":                    {"--publish-timeout=-1s", "--publish-timeout -1s is negative"},
		"a recheck all the time":                {"--recheck-interval=1s", "--recheck-interval 1s is less than 2s"},
		"no resync":                             {"--resync-interval=0", "--resync-interval 0s is not positive"},
		"a verbosity that is a word":            {"-v=high", `invalid value "high" for flag -v`},
		"an argument that is no flag":           {"endpoint", `unexpected argument "endpoint": the program takes flags only`},
		"a flag that nobody knows":              {"--endpont=x", "flag provided but not defined: -endpont"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			_, err := parseFlags([]string{tc.arg}, onNode, &out)
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
		"--endpoint=x", "--driver-name=", "--state-dir=x", "--registration-dir=x", "--kubelet-dir=x", "--configmap-identity=x",
		"--secret-identity=root", "--publish-timeout=-1s", "--resync-interval=0", "--volume-memory=x",
		"--http-endpoint=x", "--log-format=x",
	}
	want := []string{
		"--endpoint", "--node-id", "--driver-name", "--state-dir", "--registration-dir", "--kubelet-dir", "--configmap-identity",
		"--secret-identity", "--publish-timeout", "--resync-interval", "--volume-memory", "--http-endpoint", "--log-format",
	}
	for range 20 { // In the same order every time.
		_, err := parseFlags(args, func(string) string { return "" }, &bytes.Buffer{})
		if err == nil {
			t.Fatal("error = nil")
		}
		var got []string
		for line := range strings.Lines(err.Error()) {
			got = append(got, strings.TrimSuffix(strings.Fields(line)[0], ":"))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("flags with mistakes (-want +got):\n%s", diff)
		}
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if _, err := parseFlags([]string{"--help"}, onNode, &out); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("error = %v, want %v", err, flag.ErrHelp)
	}
	for _, want := range []string{"-endpoint", "-node-id", "-publish-timeout duration", "(default 10s)", "$NODE_NAME"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("usage does not say %s:\n%s", want, out.String())
		}
	}
}

// TestManifestsExclude what only an API server could do.
func TestManifestsExclude(t *testing.T) {
	t.Parallel()
	for arg, want := range map[string]string{
		"--kubeconfig=/etc/kube":   "--manifests and --kubeconfig exclude each other",
		"--configmap-identity=pod": "--configmap-identity=pod needs an API server",
	} {
		_, err := parseFlags([]string{"--manifests=/m", arg}, onNode, &bytes.Buffer{})
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("with %s the error is %v, want it to begin with %q", arg, err, want)
		}
	}
}
