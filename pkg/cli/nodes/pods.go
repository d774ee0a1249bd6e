package nodes

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/session"
)

// driverLabels are on the pods of the driver, whatever the release of the chart is called.
const driverLabels = "app.kubernetes.io/name=liveconfig,app.kubernetes.io/component=driver"

// pod is where a driver can be asked.
type pod struct {
	name, container string
	port            int
}

// pod returns the pod of a node's driver, which may not be there any more.
func (d *Drivers) pod(ctx context.Context, node string) (pod, error) {
	d.mu.Lock()
	p, known := d.pods[node]
	d.mu.Unlock()
	if known {
		return p, nil
	}
	p, err := d.find(ctx, node)
	if err != nil {
		return pod{}, err
	}
	d.store(node, p)
	return p, nil
}

func (d *Drivers) forget(node string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.pods, node)
}

// learn looks for the pods of the drivers of many nodes in the list of all, instead of one by one.
// It leaves out those that are not ready: find returns what is wrong.
func (d *Drivers) learn(ctx context.Context, nodes []string) {
	wanted := map[string]bool{}
	d.mu.Lock()
	for _, node := range nodes {
		if _, known := d.pods[node]; !known {
			wanted[node] = true
		}
	}
	d.mu.Unlock()
	if len(wanted) <= fewNodes {
		return
	}
	options := metav1.ListOptions{LabelSelector: driverLabels, Limit: session.PageSize}
	_ = resource.FollowContinue(&options, func(options metav1.ListOptions) (runtime.Object, error) {
		page, err := d.client.CoreV1().Pods(d.namespace).List(ctx, options)
		for i := range page.Items {
			p := &page.Items[i]
			if container, port := served(p); wanted[p.Spec.NodeName] && fitness(p) == ready && port > 0 {
				d.store(p.Spec.NodeName, pod{name: p.Name, container: container, port: port})
			}
		}
		return page, err
	}) // After an error find returns the same.
}

func (d *Drivers) store(node string, p pod) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pods[node] = p
}

// find looks for the pod of a node's driver.
func (d *Drivers) find(ctx context.Context, node string) (pod, error) {
	u := &Unavailable{Node: node, Type: d.listing(node)}
	list, err := d.client.CoreV1().Pods(d.namespace).List(ctx, metav1.ListOptions{
		LabelSelector: driverLabels, FieldSelector: "spec.nodeName=" + node,
	})
	switch {
	case apierrors.IsForbidden(err):
		u.Why = fmt.Sprintf("you may not look for its pod, which takes the verb list on pods in namespace %s", d.namespace)
		u.Type, u.forbidden = fmt.Sprintf("kubectl -n %s auth can-i list pods", d.namespace), true
		return pod{}, u
	case err != nil:
		u.Why, u.Err = "its pod cannot be looked for", err
		return pod{}, u
	}
	p := slices.MaxFunc(append(list.Items, corev1.Pod{}), compareFitness)
	u.pod = p.Name
	switch {
	case p.Name == "":
		u.Why = fmt.Sprintf("no pod of it runs on the node in namespace %s; use --driver-namespace if it is in another", d.namespace)
		return pod{}, u
	case fitness(&p) == going:
		u.Why = fmt.Sprintf("its pod %s is being deleted", p.Name)
		return pod{}, u
	case fitness(&p) == starting:
		u.Why, u.Type = fmt.Sprintf("its pod %s does not run", p.Name), fmt.Sprintf("kubectl -n %s describe pod %s", d.namespace, p.Name)
		return pod{}, u
	}
	container, port := served(&p)
	if port == 0 {
		u.Why = fmt.Sprintf("its pod %s serves no HTTP: it is run without --http-endpoint", p.Name)
		u.Type = fmt.Sprintf("kubectl -n %s get pod %s -o yaml", d.namespace, p.Name)
		return pod{}, u
	}
	return pod{name: p.Name, container: container, port: port}, nil
}

// How far a pod of a driver is.
const (
	none = iota
	going
	starting
	running // Not ready, or marked so because its node was silent: it may answer all the same.
	ready
)

func fitness(p *corev1.Pod) int {
	isReady := slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
	switch {
	case p.Name == "":
		return none
	case p.DeletionTimestamp != nil:
		return going
	case !isReady && p.Status.Phase == corev1.PodRunning:
		return running
	case !isReady:
		return starting
	default:
		return ready
	}
}

func compareFitness(a, b corev1.Pod) int {
	return cmp.Or(cmp.Compare(fitness(&a), fitness(&b)), a.CreationTimestamp.Compare(b.CreationTimestamp.Time))
}

// served returns which container of a driver's pod serves HTTP, and on which port; 0 if none does.
// The flag is what counts, and the port's name where the flag cannot be read.
func served(p *corev1.Pod) (container string, port int) {
	for _, c := range p.Spec.Containers {
		if endpoint, found := flag(slices.Concat(c.Command, c.Args), "http-endpoint"); found {
			if _, text, err := net.SplitHostPort(endpoint); err == nil {
				port, _ = strconv.Atoi(text) // Zero if it is not a number.
				return c.Name, port
			}
		}
	}
	for _, c := range p.Spec.Containers {
		for _, p := range c.Ports {
			if p.Name == "http" {
				return c.Name, int(p.ContainerPort)
			}
		}
	}
	return "", 0
}

// flag returns the value of a flag of a command line, of which the last counts.
func flag(words []string, name string) (value string, found bool) {
	for i, word := range words {
		bare := strings.TrimPrefix(strings.TrimPrefix(word, "-"), "-")
		switch text, given := strings.CutPrefix(bare, name+"="); {
		case bare == word:
		case given:
			value, found = text, true
		case bare == name && i+1 < len(words):
			value, found = words[i+1], true
		}
	}
	return value, found
}
