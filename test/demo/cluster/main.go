// Command cluster is the demo with a real API server: what an administrator installs, what a user creates, and a kubelet's
// calls. It leaves nothing behind.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/liveconfig-csi/liveconfig/test/demo/narrator"
	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
	"github.com/liveconfig-csi/liveconfig/test/kit/node"
)

func main() { os.Exit(narrator.Run(context.Background(), run)) }

// demo is what the story needs.
type demo struct {
	narrator.Narrator

	repo    string // The checkout.
	cluster *cluster.Cluster
	node    *node.Node
	pod     *corev1.Pod
	volume  string // Where the pod's volume is published.
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	fs := flag.NewFlagSet("demo", flag.ContinueOnError)
	repo := fs.String("repo", "..", "the checkout, with bin/ built")
	if err := fs.Parse(args); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "liveconfig-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	d := &demo{Narrator: narrator.Narrator{Out: out, Colors: narrator.HasColors(out)}, repo: *repo}
	d.Say("Starting etcd and kube-apiserver on loopback")
	if d.cluster, err = cluster.Start(ctx, cluster.Config{BinDir: filepath.Join(*repo, "bin", "k8s"), Output: out}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.cluster.Stop()) }()
	if err := d.install(ctx, dir); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.node.Stop()) }()
	if err := d.story(ctx); err != nil {
		return err
	}
	return d.leaveNothing()
}

// install applies what an administrator applies, and starts the driver with the credentials that this gives it.
func (d *demo) install(ctx context.Context, dir string) error {
	d.Say("Installing the driver: kubectl apply -k deploy/base")
	if err := d.apply(ctx, "deploy/base"); err != nil {
		return err
	}
	kubeconfig := filepath.Join(dir, "driver.kubeconfig")
	if err := d.cluster.WriteServiceAccountKubeconfig(ctx, kubeconfig, "liveconfig-system", "liveconfig-driver"); err != nil {
		return err
	}
	d.Say("Starting liveconfig-driver, as the node's DaemonSet would")
	var err error
	d.node, err = node.Start(ctx, node.Config{
		Binary: filepath.Join(d.repo, "bin", "liveconfig-driver"), Kubeconfig: kubeconfig, Dir: dir,
	})
	if err != nil {
		return err
	}
	d.node.UseTokens(d.cluster.PodToken)
	return nil
}

// story is what happens to the pod's volume.
func (d *demo) story(ctx context.Context) error {
	if err := d.publish(ctx); err != nil {
		return err
	}
	if err := d.edit(ctx); err != nil {
		return err
	}
	if err := d.createOptional(ctx); err != nil {
		return err
	}
	d.Say("Taking the volume away, as the kubelet does when the pod is gone")
	return d.node.UnpublishAll(ctx, d.pod)
}

// publish creates the example's objects and publishes the pod's volume.
func (d *demo) publish(ctx context.Context) error {
	d.Say("Creating the ConfigMap, the Secret, the right to read it, and the pod of examples/redis")
	for _, file := range []string{"configmap.yaml", "secret.yaml", "rbac.yaml", "pod.yaml"} {
		if err := d.apply(ctx, filepath.Join("examples/redis", file)); err != nil {
			return err
		}
	}
	var err error
	pods := d.cluster.Client().CoreV1().Pods(metav1.NamespaceDefault)
	if d.pod, err = pods.Get(ctx, "redis", metav1.GetOptions{}); err != nil {
		return err
	}
	volumes := d.node.Volumes(d.pod)
	if len(volumes) != 1 {
		return fmt.Errorf("pod %s has %d volumes of the driver, not 1", d.pod.Name, len(volumes))
	}
	d.volume = d.node.Target(d.pod, volumes[0].Name)
	if err := d.awaitGrant(ctx); err != nil {
		return err
	}
	d.Say("Publishing volume %q of pod default/redis, as the kubelet does", volumes[0].Name)
	start := time.Now()
	if err := d.node.PublishAll(ctx, d.pod); err != nil {
		return err
	}
	d.Print("published in %s; its sources:", narrator.Milliseconds(time.Since(start)))
	d.Print("%s", narrator.Indent(volumes[0].CSI.VolumeAttributes["sources"]))
	return d.Show(d.volume)
}

// awaitGrant returns when the pod's service account may watch its Secret: the API server learns of a new Role a moment after
// it has answered its creation.
func (d *demo) awaitGrant(ctx context.Context) error {
	user := cluster.ServiceAccountUser(d.pod.Namespace, d.pod.Spec.ServiceAccountName)
	return d.cluster.AwaitAccess(ctx, user, authorizationv1.ResourceAttributes{
		Verb: "watch", Version: "v1", Resource: "secrets", Namespace: d.pod.Namespace, Name: "redis-auth",
	})
}

// edit changes a key of the ConfigMap and waits for the file.
func (d *demo) edit(ctx context.Context) error {
	d.Say("Editing ConfigMap redis-volume-config: port 6379 becomes 6380")
	maps := d.cluster.Client().CoreV1().ConfigMaps(metav1.NamespaceDefault)
	cm, err := maps.Get(ctx, "redis-volume-config", metav1.GetOptions{})
	if err != nil {
		return err
	}
	cm.Data["redis.conf"] = strings.Replace(cm.Data["redis.conf"], "port 6379", "port 6380", 1)
	return d.change(ctx, func() error {
		_, err := maps.Update(ctx, cm, metav1.UpdateOptions{})
		return err
	})
}

// createOptional creates the source that did not exist yet and waits for its file.
func (d *demo) createOptional(ctx context.Context) error {
	d.Say("Creating the optional ConfigMap redis-overrides, which did not exist yet")
	maps := d.cluster.Client().CoreV1().ConfigMaps(metav1.NamespaceDefault)
	cm, err := d.read("examples/redis/override.yaml")
	if err != nil {
		return err
	}
	return d.change(ctx, func() error {
		_, err := maps.Create(ctx, cm, metav1.CreateOptions{})
		return err
	})
}

// change makes a change at the API server, waits until the volume shows it, and prints what changed and how fast.
func (d *demo) change(ctx context.Context, request func() error) error {
	_, err := d.Change(ctx, d.volume, request, "the request was sent to the API server")
	return err
}

func (d *demo) apply(ctx context.Context, path string) error {
	_, err := d.cluster.Apply(ctx, filepath.Join(d.repo, path))
	return err
}

// read returns the ConfigMap in a file of the checkout.
func (d *demo) read(path string) (*corev1.ConfigMap, error) {
	data, err := os.ReadFile(filepath.Join(d.repo, path))
	if err != nil {
		return nil, err
	}
	cm := &corev1.ConfigMap{}
	return cm, yaml.UnmarshalStrict(data, cm)
}

// leaveNothing checks that the volume is gone from the mount table and the disk.
func (d *demo) leaveNothing() error {
	if err := narrator.WantGone(d.volume, node.DriverName); err != nil {
		return err
	}
	d.Say("No mount, no directory left; stopping the driver, kube-apiserver and etcd")
	return nil
}
