// Command lister writes the keys of all ConfigMaps with a label into a directory, as a container does that charts put
// beside a program.
//
// It is a stand-in for k8s-sidecar, in Go, with an informer of client-go.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "lister:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("lister", flag.ContinueOnError)
	kubeconfig := fs.String("kubeconfig", "", "how to reach the API server")
	namespace := fs.String("namespace", "", "where the ConfigMaps are")
	label := fs.String("label", "", "list ConfigMaps with this selector")
	dir := fs.String("dir", "", "the directory of the files")
	if err := fs.Parse(args); err != nil {
		return err
	}
	return list(ctx, *kubeconfig, *namespace, *label, files{dir: *dir})
}

// list runs an informer until the context ends.
func list(ctx context.Context, kubeconfig, namespace, label string, to files) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.ContentType = "application/vnd.kubernetes.protobuf"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = label }))
	informer := factory.Core().V1().ConfigMaps().Informer()
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: to.write, UpdateFunc: func(_, now any) { to.write(now) }, DeleteFunc: to.remove,
	}); err != nil {
		return err
	}
	informer.RunWithContext(ctx)
	return nil
}

// files are those of a directory that the program reads.
type files struct{ dir string }

func (f files) write(object any) {
	cm, ok := object.(*corev1.ConfigMap)
	if !ok {
		return
	}
	for key, text := range cm.Data {
		complain(os.WriteFile(filepath.Join(f.dir, key), []byte(text), 0o600))
	}
}

func (f files) remove(object any) {
	if late, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = late.Obj
	}
	cm, ok := object.(*corev1.ConfigMap)
	if !ok {
		return
	}
	for key := range cm.Data {
		complain(os.Remove(filepath.Join(f.dir, key)))
	}
}

// complain logs an error. The next change is a new attempt, as in the real programs.
func complain(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "lister:", err)
	}
}
