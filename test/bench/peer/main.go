// Command peer holds objects as others do, so that their memory can be compared with the driver's: with a reflector for each
// object, as the kubelet does, or with an informer for the whole namespace.
//
// A number on a line of its input is how many objects shall be held. When they are, it answers with a line: how large its
// heap and its stacks are, and how many goroutines it has.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "peer:", err)
		os.Exit(1)
	}
}

// lookInterval is short because somebody waits, and long enough to be no work.
const lookInterval = 20 * time.Millisecond

func run(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	fs := flag.NewFlagSet("peer", flag.ContinueOnError)
	kubeconfig := fs.String("kubeconfig", "", "how to reach the API server")
	namespace := fs.String("namespace", "", "where the objects are")
	prefix := fs.String("prefix", "", "what the names of objects begin with; a number from 0 on follows")
	kind := fs.String("kind", "", "reflectors or informer")
	if err := fs.Parse(args); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	config.QPS, config.ContentType = -1, "application/vnd.kubernetes.protobuf"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	h := &holder{client: client, namespace: *namespace, prefix: *prefix}
	hold := h.reflect
	if *kind == "informer" {
		hold = h.inform
	}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		n, err := strconv.Atoi(lines.Text())
		if err != nil {
			return err
		}
		hold(ctx, n)
		for h.held() < n {
			<-time.After(lookInterval)
		}
		var memory runtime.MemStats
		runtime.ReadMemStats(&memory)
		if _, err := fmt.Fprintln(out, memory.HeapAlloc, memory.StackInuse, runtime.NumGoroutine()); err != nil {
			return err
		}
	}
	return lines.Err()
}

// holder holds objects in stores.
type holder struct {
	client            kubernetes.Interface
	namespace, prefix string
	stores            []cache.Store
}

func (h *holder) held() int {
	n := 0
	for _, s := range h.stores {
		n += len(s.ListKeys())
	}
	return n
}

func (h *holder) reflect(ctx context.Context, n int) {
	for i := len(h.stores); i < n; i++ {
		name := h.prefix + strconv.Itoa(i)
		store := cache.NewStore(cache.MetaNamespaceKeyFunc)
		byName := fields.OneTermEqualSelector(metav1.ObjectNameField, name)
		lists := cache.NewListWatchFromClient(h.client.CoreV1().RESTClient(), "configmaps", h.namespace, byName)
		go cache.NewReflectorWithOptions(lists, &corev1.ConfigMap{}, store, cache.ReflectorOptions{Name: name}).RunWithContext(ctx)
		h.stores = append(h.stores, store)
	}
}

// inform runs one informer, which holds all there are.
func (h *holder) inform(ctx context.Context, _ int) {
	if len(h.stores) > 0 {
		return
	}
	lists := cache.NewListWatchFromClient(h.client.CoreV1().RESTClient(), "configmaps", h.namespace, fields.Everything())
	informer := cache.NewSharedIndexInformer(lists, &corev1.ConfigMap{}, 0, cache.Indexers{})
	go informer.RunWithContext(ctx)
	h.stores = append(h.stores, informer.GetStore())
}
