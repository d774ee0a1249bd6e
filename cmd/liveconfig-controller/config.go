package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/telemetry"
	"github.com/liveconfig-csi/liveconfig/pkg/nodetaint"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/copies"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/reloader"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/trigger"
)

// config has the values of the flags.
type config struct {
	kubeconfig, namespaces, driverName string
	secrets                            bool
	compatReloader                     bool
	secretIdentity                     string // driver or pod.
	roles                              bool
	quietPeriod                        time.Duration
	rolloutRate                        float64
	holdFailing                        bool
	progressDeadline                   time.Duration
	dryRun                             bool
	releases                           bool
	evidence                           bool
	nodeTaint                          bool
	driverNamespace, driverSelector    string
	leaderElect                        bool
	leaseNamespace, leaseName          string
	identity                           string // Of the holder of the lease.
	httpEndpoint                       string
	verbosity                          int
	logFormat                          string
}

// parseFlags reads and checks the flags. It writes the usage to out when asked for help or given a
// flag it does not know.
func parseFlags(args []string, getenv func(string) string, out io.Writer) (config, error) {
	var c config
	fs := c.flags(getenv)
	fs.SetOutput(out)
	if err := fs.Parse(args); err != nil {
		return config{}, err
	}
	if fs.NArg() > 0 {
		return config{}, fmt.Errorf("unexpected argument %q: the program takes flags only", fs.Arg(0))
	}
	return c, errors.Join(c.validate(), c.identify(getenv))
}

// flags returns the flags with their defaults. Parsing them fills c. docs/flags.md shows them.
func (c *config) flags(getenv func(string) string) *flag.FlagSet {
	fs := flag.NewFlagSet(api.ControllerName, flag.ContinueOnError)
	fs.StringVar(&c.kubeconfig, "kubeconfig", "", "kubeconfig file for the API server; empty: the pod's own account")
	fs.StringVar(&c.namespaces, "namespaces", "",
		"comma-separated namespaces in which the controller works; it reads nothing of other namespaces; empty: all")
	fs.StringVar(&c.driverName, "driver-name", api.DriverName, "name of the CSI driver, as in the CSIDriver object")
	fs.BoolVar(&c.secrets, "secrets", true,
		"whether Secrets can trigger rollouts; if false, the controller needs no right on Secrets")
	fs.BoolVar(&c.compatReloader, "compat-reloader", false,
		"whether annotations of Reloader, such as "+reloader.Auto+", trigger rollouts; the annotation "+trigger.TriggeredBy+
			" of a workload comes first")
	fs.StringVar(&c.secretIdentity, "secret-identity", "pod",
		"whose credentials the driver reads Secrets with: pod or driver; with pod, the controller checks access to a copy "+
			"before a rollout")
	fs.BoolVar(&c.roles, "roles", false,
		"whether the controller writes the names of copies into Roles with the annotation "+copies.OfAnnotation)
	fs.DurationVar(&c.quietPeriod, "quiet-period", 2*time.Second,
		"how long the sources of a workload must be unchanged before the controller rolls a change out")
	fs.Float64Var(&c.rolloutRate, "rollout-rate", 10,
		"how many changes the controller rolls out per second, over all workloads")
	fs.BoolVar(&c.holdFailing, "hold-failing", true,
		"whether a change waits while the previous rollout fails; the annotation "+trigger.WhileFailing+
			" of a workload comes first")
	fs.DurationVar(&c.progressDeadline, "progress-deadline", 10*time.Minute,
		"time without progress after which the rollout of a StatefulSet or DaemonSet counts as failing; Deployments have "+
			"their own deadlines")
	fs.BoolVar(&c.dryRun, "dry-run", false, "only log what the controller would do")
	fs.BoolVar(&c.releases, "releases", true,
		"whether the controller releases edits of objects with the annotation "+release.Annotation+
			"; if false, it reads no pods")
	fs.BoolVar(&c.evidence, "evidence", false,
		"whether a step of a release ends only when drivers, asked through port-forwards to their pods, report the edit in "+
			"the files of pods")
	fs.BoolVar(&c.nodeTaint, "node-taint", false,
		"whether the controller removes the taint "+nodetaint.Key+" from a node when the driver is ready there")
	fs.StringVar(&c.driverNamespace, "driver-namespace", getenv("POD_NAMESPACE"),
		"namespace of the driver's pods, for --evidence and --node-taint; defaults to $POD_NAMESPACE")
	fs.StringVar(&c.driverSelector, "driver-selector",
		"app.kubernetes.io/name=liveconfig,app.kubernetes.io/component=driver",
		"label selector of the driver's pods, for --node-taint")
	fs.BoolVar(&c.leaderElect, "leader-elect", true,
		"whether the controller works only while it holds a lease, so that several can run")
	fs.StringVar(&c.leaseNamespace, "lease-namespace", getenv("POD_NAMESPACE"),
		"namespace of the lease; defaults to $POD_NAMESPACE")
	fs.StringVar(&c.leaseName, "lease-name", api.ControllerName, "name of the lease")
	fs.StringVar(&c.httpEndpoint, "http-endpoint", "",
		"host:port of /metrics, /healthz and /readyz; empty: no HTTP server")
	fs.IntVar(&c.verbosity, "v", 2, "how much the controller logs, 0 to 5; higher values count as 5")
	fs.StringVar(&c.logFormat, "log-format", telemetry.FormatText, "text or json")
	return fs
}

// identify finds a name that no other process has.
func (c *config) identify(getenv func(string) string) error {
	if c.identity = getenv("POD_NAME"); c.identity != "" {
		return nil
	}
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("find out the name of this host, or set $POD_NAME: %w", err)
	}
	c.identity = host + "_" + strconv.Itoa(os.Getpid())
	return nil
}

// namespaceList returns the namespaces to work in.
func (c config) namespaceList() []string {
	if c.namespaces == "" {
		return nil
	}
	list := strings.Split(c.namespaces, ",")
	slices.Sort(list)
	return slices.Compact(list)
}

// validate returns every mistake at once.
func (c config) validate() error {
	var mistakes []error
	refuse := func(format string, args ...any) { mistakes = append(mistakes, fmt.Errorf(format, args...)) }
	for _, namespace := range c.namespaceList() {
		if problems := validation.IsDNS1123Label(namespace); len(problems) > 0 {
			refuse("--namespaces: %q: %s", namespace, strings.Join(problems, "; "))
		}
	}
	if problems := validation.IsDNS1123Subdomain(c.driverName); len(problems) > 0 {
		refuse("--driver-name %q: %s", c.driverName, strings.Join(problems, "; "))
	}
	if c.secretIdentity != "pod" && c.secretIdentity != "driver" {
		refuse("--secret-identity %q is not driver or pod", c.secretIdentity)
	}
	if c.quietPeriod < 0 {
		refuse("--quiet-period %s is negative", c.quietPeriod)
	}
	if !(c.rolloutRate > 0) {
		refuse("--rollout-rate %g is not positive", c.rolloutRate)
	}
	if c.progressDeadline <= 0 {
		refuse("--progress-deadline %s is not positive", c.progressDeadline)
	}
	if _, err := labels.Parse(c.driverSelector); err != nil {
		refuse("--driver-selector: %v", err)
	}
	if (c.nodeTaint || c.evidence) && c.driverNamespace == "" {
		refuse("--driver-namespace is missing: name the namespace of the driver's pods, or set $POD_NAMESPACE")
	}
	if c.leaderElect && c.leaseNamespace == "" {
		refuse("--lease-namespace is missing: give one, set $POD_NAMESPACE, or set --leader-elect=false if no other " +
			"controller runs")
	}
	if problems := validation.IsDNS1123Subdomain(c.leaseName); len(problems) > 0 {
		refuse("--lease-name %q: %s", c.leaseName, strings.Join(problems, "; "))
	}
	mistakes = append(mistakes, daemon.CheckHTTPEndpoint(c.httpEndpoint), daemon.CheckLogFormat(c.logFormat))
	return errors.Join(mistakes...)
}
