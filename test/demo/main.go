// Command demo shows the driver's main job on this machine, for real and in seconds: the driver as a separate process, a
// real socket, a real mount, and manifests in a directory in place of an API server. It leaves nothing behind.
package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/liveconfig-csi/liveconfig/test/demo/narrator"
	"github.com/liveconfig-csi/liveconfig/test/kit/node"
	"github.com/liveconfig-csi/liveconfig/test/kit/workdir"
)

func main() { os.Exit(narrator.Run(context.Background(), run)) }

// examples is the folder whose manifests the demo uses.
const examples = "examples/redis"

// demo is what the story needs.
type demo struct {
	narrator.Narrator

	repo      string // The checkout.
	manifests string // The directory that stands for an API server.
	node      *node.Node
	pod       *corev1.Pod
	volume    string // Where the pod's volume is published.
	status    string // The address of the driver's HTTP endpoint.
	took      []narrator.Took
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	fs := flag.NewFlagSet("demo", flag.ContinueOnError)
	repo := fs.String("repo", ".", "the checkout, with bin/liveconfig-driver built")
	if err := fs.Parse(args); err != nil {
		return err
	}
	dir, err := workdir.New("lc-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Remove()) }()
	d := &demo{Narrator: narrator.Narrator{Out: out, Colors: narrator.HasColors(out)}, repo: *repo, manifests: filepath.Join(dir.Path(), "manifests")}
	if err := d.start(ctx, filepath.Join(dir.Path(), "node")); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.node.Stop()) }()
	if err := d.story(ctx); err != nil {
		return err
	}
	return d.end()
}

// start copies the manifests of the example and starts the driver.
func (d *demo) start(ctx context.Context, dir string) error {
	d.Say("Copying the ConfigMap and the Secret of %s into a directory, which stands for an API server", examples)
	if err := os.Mkdir(d.manifests, 0o700); err != nil {
		return err
	}
	for _, name := range []string{"configmap.yaml", "secret.yaml"} {
		text, err := d.example(name)
		if err == nil {
			err = d.put(name, text)
		}
		if err != nil {
			return err
		}
	}
	address, err := freeAddress(ctx)
	if err != nil {
		return err
	}
	d.status = address
	d.Say("Starting liveconfig-driver --manifests=%s", d.manifests)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	d.node, err = node.Start(ctx, node.Config{
		Binary: filepath.Join(d.repo, "bin", "liveconfig-driver"), Manifests: d.manifests, Dir: dir,
		Args: []string{"--http-endpoint=" + address},
	})
	return err
}

// story is what happens to the pod's volume.
func (d *demo) story(ctx context.Context) error {
	for _, step := range []func(context.Context) error{
		d.publish, d.edit, d.createOptional, d.mistake, d.mend, d.killAndRestart, d.unpublish,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// example returns a file of the example.
func (d *demo) example(name string) (string, error) {
	text, err := os.ReadFile(filepath.Join(d.repo, examples, name))
	return string(text), err
}

// put makes a manifest what the text is, in one step, as editors and tools that deploy do.
func (d *demo) put(name, text string) error {
	path := filepath.Join(d.manifests, name)
	if err := os.WriteFile(path+".tmp", []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".tmp", path)
}

// readPod returns the pod of the example, as the API server would return it.
func (d *demo) readPod() (*corev1.Pod, error) {
	text, err := d.example("pod.yaml")
	if err != nil {
		return nil, err
	}
	pod := &corev1.Pod{}
	if err := yaml.UnmarshalStrict([]byte(text), pod); err != nil {
		return nil, err
	}
	pod.Namespace, pod.UID = "default", "6c1f0bd2-5d0a-4b34-9f0d-2f6c3a1d7e55"
	return pod, nil
}

// end checks that nothing is left, and says what to type next.
func (d *demo) end() error {
	if err := narrator.WantGone(d.volume, d.node.KubeletDir()); err != nil {
		return err
	}
	d.Say("From the moment before the write to the new files, beside a configMap volume of the kubelet (60 to 90 s)")
	d.Compare(d.took, narrator.Took{Name: "the kubelet's next sync", Time: time.Minute})
	d.Say("No mount and no directory is left. What next:")
	d.Print("make sandbox        a cluster of one node on this machine, with a shell in it; needs root")
	d.Print("make demo/cluster   this demo with a real API server in place of a directory")
	d.Print("README.md           how to install it in your cluster, under Install")
	return nil
}
