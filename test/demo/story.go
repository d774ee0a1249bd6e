package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/api/statusz"
	"github.com/liveconfig-csi/liveconfig/test/demo/narrator"
)

// statusTimeout is how long the demo waits for a status before it calls the driver broken.
const statusTimeout = 30 * time.Second

// publish publishes the pod's volume.
func (d *demo) publish(ctx context.Context) error {
	var err error
	if d.pod, err = d.readPod(); err != nil {
		return err
	}
	volumes := d.node.Volumes(d.pod)
	if len(volumes) != 1 {
		return fmt.Errorf("pod %s has %d volumes of the driver, not 1", d.pod.Name, len(volumes))
	}
	d.volume = d.node.Target(d.pod, volumes[0].Name)
	d.Say("Publishing volume %q of pod default/redis, as the kubelet does", volumes[0].Name)
	start := time.Now()
	if err := d.node.PublishAll(ctx, d.pod); err != nil {
		return err
	}
	d.Print("published in %s; its sources:", narrator.Milliseconds(time.Since(start)))
	d.Print("%s", narrator.Indent(volumes[0].CSI.VolumeAttributes["sources"]))
	return d.Show(d.volume)
}

// edited is the manifest of the ConfigMap after the edit of the port.
func (d *demo) edited() (string, error) {
	text, err := d.example("configmap.yaml")
	return strings.Replace(text, "port 6379", "port 6380", 1), err
}

// edit changes a key of the ConfigMap and waits for the file.
func (d *demo) edit(ctx context.Context) error {
	d.Say("Editing the manifest of ConfigMap redis-volume-config: port 6379 becomes 6380")
	text, err := d.edited()
	if err != nil {
		return err
	}
	return d.change(ctx, "an edit", "configmap.yaml", text)
}

// createOptional creates the source that did not exist yet and waits for its file.
func (d *demo) createOptional(ctx context.Context) error {
	d.Say("Adding the optional ConfigMap redis-overrides, which did not exist yet")
	text, err := d.example("override.yaml")
	if err != nil {
		return err
	}
	return d.change(ctx, "a new source", "override.yaml", text)
}

// mistake writes a manifest that is refused, and shows that the files stay.
func (d *demo) mistake(ctx context.Context) error {
	d.Say("Editing the manifest badly: the value of a key is not a string any more")
	before, err := narrator.ReadTree(d.volume)
	if err != nil {
		return err
	}
	if err := d.put("configmap.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: redis-volume-config\ndata:\n  redis.conf: 6381\n"); err != nil {
		return err
	}
	report, err := d.awaitStatus(ctx, func(r statusz.Report) bool { return r.Manifests != nil && len(r.Manifests.Problems) > 0 })
	if err != nil {
		return err
	}
	p := report.Manifests.Problems[0]
	d.Print("/statusz reports: %s, document %d, line %d: %s", p.File, p.Document, p.Line, p.Message)
	after, err := narrator.ReadTree(d.volume)
	if err != nil {
		return err
	}
	if len(before) != len(after) || before["etc/redis.conf"] != after["etc/redis.conf"] {
		return errors.New("the files have changed, although the manifest has a mistake")
	}
	d.Print("the files stay as they were: the last good content")
	return nil
}

// mend corrects the manifest and waits for the file.
func (d *demo) mend(ctx context.Context) error {
	d.Say("Correcting the manifest: databases 1 becomes 2")
	text, err := d.edited()
	if err != nil {
		return err
	}
	return d.change(ctx, "a correction", "configmap.yaml", strings.Replace(text, "databases 1", "databases 2", 1))
}

// killAndRestart ends the driver in the middle of its work. The volume stays, and the next driver serves it.
func (d *demo) killAndRestart(ctx context.Context) error {
	d.Say("Killing the driver with SIGKILL, and removing the optional ConfigMap meanwhile")
	if err := d.node.Kill(); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(d.manifests, "override.yaml")); err != nil {
		return err
	}
	before, err := narrator.ReadTree(d.volume)
	if err != nil {
		return fmt.Errorf("read the volume without a driver: %w", err)
	}
	d.Print("without a driver the volume has %d files still", len(before))
	d.Say("Starting the driver again: it finds the volume and brings it up to date")
	start := time.Now()
	if err := d.node.StartDriver(ctx); err != nil {
		return err
	}
	if _, err := d.awaitStatus(ctx, func(r statusz.Report) bool {
		return len(r.Volumes) == 1 && r.Volumes[0].State == statusz.Live && !r.Volumes[0].CheckedAt.IsZero()
	}); err != nil {
		return err
	}
	d.Print("%s after the start:", narrator.Milliseconds(time.Since(start)))
	after, err := narrator.ReadTree(d.volume)
	if err != nil {
		return err
	}
	return d.PrintChanges(before, after)
}

// unpublish takes the volume away.
func (d *demo) unpublish(ctx context.Context) error {
	d.Say("Taking the volume away, as the kubelet does when the pod is gone")
	return d.node.UnpublishAll(ctx, d.pod)
}

// change writes a manifest, waits until the volume shows it, and prints what changed and how fast.
func (d *demo) change(ctx context.Context, what, name, text string) error {
	took, err := d.Change(ctx, d.volume, func() error { return d.put(name, text) }, "the manifest began to be written")
	d.took = append(d.took, narrator.Took{Name: what, Time: took})
	return err
}

// awaitStatus asks the driver for its status until that is as wanted.
func (d *demo) awaitStatus(ctx context.Context, is func(statusz.Report) bool) (statusz.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	for {
		report, err := d.askStatus(ctx)
		if err == nil && is(report) {
			return report, nil
		}
		select {
		case <-ctx.Done():
			return report, errors.Join(errors.New("the status of the driver is not what it should be"), err)
		case <-time.After(time.Millisecond):
		}
	}
}

func (d *demo) askStatus(ctx context.Context) (statusz.Report, error) {
	var report statusz.Report
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+d.status+"/statusz", http.NoBody)
	if err != nil {
		return report, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return report, err
	}
	defer response.Body.Close()
	return report, json.NewDecoder(response.Body).Decode(&report)
}

// freeAddress returns an address of this host that nobody listens on.
func freeAddress(ctx context.Context) (string, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
