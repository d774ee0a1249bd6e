package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/identity"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/server"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/telemetry"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/budget"
)

// maxDriverName is the longest name that CSI and the CSIDriver object take.
const maxDriverName = 63

// leastRecheck is what a watch's timeout, which is in whole seconds, can be made of.
const leastRecheck = 2 * time.Second

// config has the values of the flags.
type config struct {
	endpoint, nodeID, driverName, kubeconfig string
	podNamespace                             string // Of the driver's own pod; empty if that is not known.
	manifests                                string // A directory; empty for an API server.
	stateDir, registrationDir, kubeletDir    string
	configMapIdentity, secretIdentity        string // An identity.Reader.
	shareVolumes                             bool
	publishTimeout, resyncInterval           time.Duration
	recheckInterval                          time.Duration
	volumeMemory                             string // See budget.ParseSize.
	httpEndpoint, selinuxContext             string
	verbosity                                int
	logFormat                                string
}

// parseFlags reads and checks the flags. It writes the usage to out when asked for help or given a
// flag it does not know.
func parseFlags(args []string, getenv func(string) string, out io.Writer) (config, error) {
	c := config{podNamespace: getenv("POD_NAMESPACE")}
	fs := c.flags(getenv)
	fs.SetOutput(out)
	if err := fs.Parse(args); err != nil {
		return config{}, err
	}
	if fs.NArg() > 0 {
		return config{}, fmt.Errorf("unexpected argument %q: the program takes flags only", fs.Arg(0))
	}
	return c, c.validate()
}

// flags returns the flags with their defaults. Parsing them fills c. docs/flags.md shows them.
func (c *config) flags(getenv func(string) string) *flag.FlagSet {
	fs := flag.NewFlagSet("liveconfig-driver", flag.ContinueOnError)
	fs.StringVar(&c.endpoint, "endpoint", "unix:///var/lib/kubelet/plugins/"+api.DriverName+"/csi.sock",
		"URL of the unix socket on which the driver serves CSI")
	fs.StringVar(&c.nodeID, "node-id", getenv("NODE_NAME"), "name of this node; defaults to $NODE_NAME")
	fs.StringVar(&c.driverName, "driver-name", api.DriverName, "name of the CSI driver, as in the CSIDriver object")
	fs.StringVar(&c.kubeconfig, "kubeconfig", "",
		"kubeconfig file for the API server, without exec, because the driver cannot start a program; empty: the "+
			"pod's own account")
	fs.StringVar(&c.manifests, "manifests", "",
		"directory of manifests that replace the API server: for trying out, for tests and for machines without a cluster; "+
			"excludes --kubeconfig")
	fs.StringVar(&c.stateDir, "state-dir", "/run/"+api.DriverName,
		"directory of the driver's records; best on a tmpfs that outlives the driver's container")
	fs.StringVar(&c.registrationDir, "registration-dir", "",
		"the kubelet's plugin registration directory; empty: a node-driver-registrar sidecar registers the driver")
	fs.StringVar(&c.kubeletDir, "kubelet-dir", "/var/lib/kubelet",
		"the kubelet's root directory; the driver refuses target paths outside of it")
	fs.StringVar(&c.configMapIdentity, "configmap-identity", string(identity.ByDriver),
		"whose credentials read ConfigMaps of the pod's namespace: driver or pod")
	fs.StringVar(&c.secretIdentity, "secret-identity", string(identity.ByPod),
		"whose credentials read Secrets, and all objects of other namespaces: driver or pod")
	fs.BoolVar(&c.shareVolumes, "share-volumes", true,
		"whether equal volumes on the node, which the same identities read, are one file system with many mounts")
	fs.DurationVar(&c.publishTimeout, "publish-timeout", 10*time.Second,
		"how long a publish waits for required sources once the API server has answered")
	fs.DurationVar(&c.resyncInterval, "resync-interval", 10*time.Minute,
		"how often the driver checks every volume without cause; sends no request to the API server")
	fs.DurationVar(&c.recheckInterval, "recheck-interval", 2*time.Minute,
		"about how often the API server decides again whether pods may read what they mount, "+
			"and how long it must deny that before the driver believes it")
	fs.StringVar(&c.volumeMemory, "volume-memory", "",
		"memory for the files of all volumes and for their source objects, such as 128Mi; "+
			"empty: a part of the container's memory limit or, without one, a quarter of the node's memory")
	fs.StringVar(&c.httpEndpoint, "http-endpoint", "",
		"host:port of /metrics, /healthz, /readyz and, for loopback only, /statusz; empty: no HTTP server")
	fs.StringVar(&c.selinuxContext, "selinux-context", "system_u:object_r:container_file_t:s0",
		"SELinux context of the files in volumes; ignored on a node without SELinux; empty: the kernel decides")
	fs.IntVar(&c.verbosity, "v", 2, "how much the driver logs, 0 to 5; higher values count as 5")
	fs.StringVar(&c.logFormat, "log-format", telemetry.FormatText, "text or json")
	return fs
}

// validate returns every mistake at once, in the order of the flags.
func (c config) validate() error {
	_, endpointErr := server.ParseEndpoint(c.endpoint)
	return errors.Join(
		about("endpoint", endpointErr),
		c.checkNames(),
		checkDir("state-dir", c.stateDir),
		c.checkManifests(),
		c.checkRegistration(),
		checkDir("kubelet-dir", c.kubeletDir),
		checkIdentity("configmap-identity", c.configMapIdentity),
		checkIdentity("secret-identity", c.secretIdentity),
		c.checkTimes(),
		checkVolumeMemory(c.volumeMemory),
		daemon.CheckHTTPEndpoint(c.httpEndpoint),
		daemon.CheckLogFormat(c.logFormat),
	)
}

func (c config) checkTimes() error {
	var m mistakes
	if c.publishTimeout < 0 {
		m.add("--publish-timeout %s is negative", c.publishTimeout)
	}
	if c.resyncInterval <= 0 {
		m.add("--resync-interval %s is not positive", c.resyncInterval)
	}
	if c.recheckInterval < leastRecheck {
		m.add("--recheck-interval %s is less than 2s", c.recheckInterval)
	}
	return errors.Join(m...)
}

type mistakes []error

func (m *mistakes) add(format string, args ...any) { *m = append(*m, fmt.Errorf(format, args...)) }

func about(flagName string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("--%s: %w", flagName, err)
}

func (c config) checkNames() error {
	var m mistakes
	if c.nodeID == "" {
		m.add("--node-id is missing: give the node's name, or set $NODE_NAME")
	}
	problems := validation.IsDNS1123Subdomain(c.driverName)
	if len(c.driverName) > maxDriverName {
		problems = append(problems, fmt.Sprintf("must be no more than %d characters", maxDriverName))
	}
	if len(problems) > 0 {
		m.add("--driver-name %q: %s", c.driverName, strings.Join(problems, "; "))
	}
	return errors.Join(m...)
}

// checkManifests refuses what only an API server could do.
func (c config) checkManifests() error {
	if c.manifests == "" {
		return nil
	}
	var m mistakes
	if c.kubeconfig != "" {
		m.add("--manifests and --kubeconfig exclude each other: objects come from a directory or from an API server")
	}
	if c.configMapIdentity == string(identity.ByPod) {
		m.add("--configmap-identity=pod needs an API server, and --manifests has none")
	}
	return errors.Join(m...)
}

// checkRegistration also sees that the socket's path is not too long: the driver's name is a part
// of it.
func (c config) checkRegistration() error {
	if c.registrationDir == "" {
		return nil
	}
	if err := checkDir("registration-dir", c.registrationDir); err != nil {
		return err
	}
	_, err := server.ParseEndpoint(server.RegistrationSocket(c.registrationDir, c.driverName))
	return about("registration-dir", err)
}

func checkDir(flagName, dir string) error {
	if filepath.IsAbs(dir) && filepath.Clean(dir) == dir && dir != "/" {
		return nil
	}
	return fmt.Errorf("--%s %q is not a clean absolute path", flagName, dir)
}

func checkIdentity(flagName, id string) error {
	if id == string(identity.ByPod) || id == string(identity.ByDriver) {
		return nil
	}
	return fmt.Errorf("--%s %q is not driver or pod", flagName, id)
}

func checkVolumeMemory(text string) error {
	_, err := budget.ParseSize(text)
	return about("volume-memory", err)
}
