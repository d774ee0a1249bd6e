// Package observe finds out what is known of pods at one time: where they show ConfigMaps and
// Secrets, what the drivers of their nodes report, which versions the API server has, and what
// Events and rollouts explain. Commands print it.
//
// It does not know what commands print. The drivers of nodes are asked by pkg/nodes, and
// pkg/cli/versions decides what a pod has.
package observe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/content"
	"github.com/liveconfig-csi/liveconfig/pkg/api/statusz"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/selection"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/session"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/versions"
	"github.com/liveconfig-csi/liveconfig/pkg/nodes"
	"github.com/liveconfig-csi/liveconfig/pkg/rollout/copies"
)

// Flags name the driver that commands ask.
type Flags struct{ Driver, DriverNamespace string }

// AddFlags adds the flags.
func (f *Flags) AddFlags(c *cobra.Command) {
	selection.AddDriverFlag(c, &f.Driver)
	c.Flags().StringVar(&f.DriverNamespace, "driver-namespace", nodes.DefaultNamespace,
		"namespace of the driver's pods, which report what nodes have")
}

// Cluster is what commands ask that look at pods: the API server, and the drivers of nodes.
type Cluster struct {
	Client  kubernetes.Interface
	meta    metadata.Interface
	Drivers *nodes.Drivers
	// Driver is the name that the driver is installed under.
	Driver string
}

// New returns how to ask the cluster.
func New(s *session.Session, flags Flags) (*Cluster, error) {
	config, err := s.Config()
	if err != nil {
		return nil, err
	}
	config.QPS = -1 // No limit: the commands send a few requests at a time.
	binary := rest.CopyConfig(config)
	binary.ContentType = runtime.ContentTypeProtobuf // Pages of pods take less time and memory than as JSON.
	client, errOfClient := kubernetes.NewForConfig(binary)
	meta, errOfMeta := metadata.NewForConfig(config)
	if err := errors.Join(errOfClient, errOfMeta); err != nil {
		return nil, fmt.Errorf("prepare to ask the API server: %w", err)
	}
	drivers := nodes.New(config, client, flags.DriverNamespace)
	return &Cluster{Client: client, meta: meta, Drivers: drivers, Driver: flags.Driver}, nil
}

const atOnce = 8

// Found is which version of an object there is, or why that is not known. The version is the newest
// that a node knows then.
type Found struct {
	versions.Now

	Err error
	// IsCopied means that some pods have copies of it.
	IsCopied bool
}

// Observation is what is known of the pods of workloads at one time.
type Observation struct {
	// Answers are those of the drivers, by node.
	Answers map[string]nodes.Answer
	// Objects are those that templates and pods show.
	Objects map[api.Ref]Found
}

// Observe asks the nodes of pods and then the API server, in this order: what a node has cannot be
// newer than what is asked for later. Nodes whose answers are known are not asked again.
func (c *Cluster) Observe(ctx context.Context, workloads []*Workload, known map[string]nodes.Answer) Observation {
	answers := c.Ask(ctx, workloads, known)
	var places []versions.Place
	for _, w := range workloads {
		places = append(places, w.All()...)
	}
	reports := slices.AppendSeq(slices.Collect(maps.Values(known)), maps.Values(answers))
	return Observation{Answers: answers, Objects: c.versions(ctx, places, reports)}
}

// Ask asks the nodes of pods that have volumes, and returns the answers of these nodes.
func (c *Cluster) Ask(
	ctx context.Context, workloads []*Workload, known map[string]nodes.Answer,
) map[string]nodes.Answer {
	answers := map[string]nodes.Answer{}
	var unknown []string
	for _, node := range nodesOf(workloads) {
		answer, isKnown := known[node]
		if answers[node] = answer; !isKnown {
			unknown = append(unknown, node)
		}
	}
	maps.Copy(answers, c.Drivers.Reports(ctx, unknown))
	return answers
}

// Judge returns what a pod of a workload has in a place.
func (o Observation) Judge(w *Workload, pod *Pod, place versions.Place) versions.Verdict {
	return pod.On(o.Answers[pod.Spec.NodeName]).Judge(place, o.Wish(w, place))
}

// Wish is what the pods of a workload should have in a place. Where it is not known which copy that
// is, it is the one of the template.
func (o Observation) Wish(w *Workload, place versions.Place) versions.Now {
	now := o.Objects[place.Object].Now
	isIt := func(p versions.Place) bool { return p.IsCopy() && p.Volume == place.Volume && p.Object == place.Object }
	switch at := slices.IndexFunc(w.Newest, isIt); {
	case !place.IsCopy():
		now.Copies = nil
	case len(now.Copies) == 0 && at >= 0 && !w.isPod():
		now.Copies = []string{w.Newest[at].Names.Name}
	}
	return now
}

// isPod reports whether the workload is one pod, which no other template decides about. Pods of a
// scope have no workload.
func (t *Workload) isPod() bool { return t.Selector != nil && t.Pod != nil }

// versions reads the objects of places, each once and a few at a time. Only of objects of which
// pods have copies it reads the content.
func (c *Cluster) versions(
	ctx context.Context, places []versions.Place, answers []nodes.Answer,
) map[api.Ref]Found {
	found := map[api.Ref]Found{}
	var reports []statusz.Report
	for _, answer := range answers {
		reports = append(reports, answer.Report) // An error comes with an empty one.
	}
	var mu sync.Mutex // Guards found.
	var reads errgroup.Group
	reads.SetLimit(atOnce)
	for object, isCopied := range Copied(places) {
		reads.Go(func() error {
			read := c.Version
			if isCopied {
				read = c.Content
			}
			now, err := read(ctx, object)
			if err != nil {
				now.Version = versions.Newest(reports, object)
			}
			mu.Lock()
			defer mu.Unlock()
			found[object] = Found{Now: now, Err: err, IsCopied: isCopied}
			return nil
		})
	}
	_ = reads.Wait() // Each object has its error.
	return found
}

// Version returns which version of an object there is. The content of the object does not leave the
// API server.
func (c *Cluster) Version(ctx context.Context, of api.Ref) (versions.Now, error) {
	if selector, selects := of.Selector(); selects {
		return c.versionOfAll(ctx, of, selector)
	}
	object, err := c.metadata(ctx, of)
	return now(object, err, of)
}

func (c *Cluster) metadata(ctx context.Context, of api.Ref) (*metav1.PartialObjectMetadata, error) {
	objects := c.meta.Resource(corev1.SchemeGroupVersion.WithResource(of.Kind.Resource() + "s")).Namespace(of.Namespace)
	return objects.Get(ctx, of.Name, metav1.GetOptions{})
}

// Metadata returns the version of an object with its metadata, which are zero for an object that
// does not exist.
func (c *Cluster) Metadata(ctx context.Context, of api.Ref) (versions.Now, metav1.ObjectMeta, error) {
	object, err := c.metadata(ctx, of)
	found, err := now(object, err, of)
	if err != nil || found.Version == nil {
		return found, metav1.ObjectMeta{}, err
	}
	return found, object.ObjectMeta, nil
}

// Edit is who changed an object last, as far as the API server has recorded it.
type Edit struct {
	// By is the program that wrote the fields, such as kubectl-edit.
	By string
	At time.Time
	// Member is the object, of several with the labels of a selection; zero otherwise.
	Member api.Ref
}

// LastEdit returns who changed an object last; zero if the object does not exist, or nothing is
// recorded. Of a selection it is the last edit of an object with its labels. The content of objects
// does not leave the API server.
func (c *Cluster) LastEdit(ctx context.Context, of api.Ref) (Edit, error) {
	if selector, selects := of.Selector(); selects {
		return c.lastEditOfAll(ctx, of, selector)
	}
	object, err := c.metadata(ctx, of)
	if err != nil {
		_, err := now(nil, err, of) // Absence is no error.
		return Edit{}, err
	}
	return lastEdit(object), nil
}

func lastEdit(object metav1.Object) Edit {
	last := Edit{At: object.GetCreationTimestamp().Time}
	for _, field := range object.GetManagedFields() {
		switch {
		case field.Time == nil || field.Time.Time.Before(last.At):
		case field.Time.Time.Equal(last.At) && last.By != "" && last.By != field.Manager:
			last.By += " or " + field.Manager // Times are whole seconds.
		default:
			last = Edit{By: field.Manager, At: field.Time.Time}
		}
	}
	return last
}

// Content returns which version of an object there is, and the name that a copy of it has. It takes
// the whole object to know that name.
func (c *Cluster) Content(ctx context.Context, of api.Ref) (versions.Now, error) {
	object := Get(ctx, c.Client, of)
	if object.Err == nil && !object.Exists() {
		return versions.Now{}, nil
	}
	found, err := now(object, object.Err, of)
	if err == nil {
		found.Copies = []string{object.CopyName}
	}
	return found, err
}

// now returns the version of an object that was read. It is not an error if the object does not
// exist.
func now(object metav1.Object, err error, of api.Ref) (versions.Now, error) {
	switch {
	case apierrors.IsNotFound(err):
		return versions.Now{}, nil
	case apierrors.IsForbidden(err):
		return versions.Now{}, fmt.Errorf("you may not get %s", of)
	case err != nil:
		return versions.Now{}, fmt.Errorf("get %s: %w", of, err)
	}
	version := &statusz.Version{UID: string(object.GetUID()), ResourceVersion: object.GetResourceVersion()}
	return versions.Now{Version: version, ChangedAt: changedAt(object)}, nil
}

func changedAt(o metav1.Object) time.Time {
	return cmp.Or(content.ChangedAt(o), o.GetCreationTimestamp().Time)
}

func refOf(kind api.Kind, o metav1.Object) api.Ref {
	return api.Ref{Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName()}
}

// withSelections returns the objects that pods may show, with those of their selections that match
// them by their labels in place of objects that no volume names.
func (c *Cluster) withSelections(ctx context.Context, objects []api.Ref, pods []*corev1.Pod) []api.Ref {
	var all []api.Ref
	for _, object := range objects {
		names, selections := c.showing(ctx, object, pods)
		if names || len(selections) == 0 {
			all = append(all, object)
		}
		all = append(all, selections...)
	}
	return all
}

// showing returns whether volumes of pods name an object of their namespace, and which of their
// selections match its labels. An object that cannot be read has none.
func (c *Cluster) showing(ctx context.Context, object api.Ref, pods []*corev1.Pod) (names bool, selections []api.Ref) {
	labels := map[string]map[string]string{} // By namespace.
	for _, pod := range pods {
		places, _ := versions.Places(pod.Annotations, &pod.Spec, pod.Namespace, c.Driver) // Others report mistakes.
		for _, place := range places {
			names = names || edited(place) == object
			if _, selects := place.Object.Selector(); !selects {
				continue
			}
			has, isKnown := labels[pod.Namespace]
			if !isKnown {
				if found, err := c.metadata(ctx, object.In(pod.Namespace)); err == nil {
					has = found.Labels
				}
				labels[pod.Namespace] = has
			}
			isNew := !slices.Contains(selections, edited(place))
			if isNew && len(has) > 0 && place.Object.Selects(object.In(pod.Namespace), has) {
				selections = append(selections, edited(place))
			}
		}
	}
	return names, selections
}

// Objects reads ConfigMaps and Secrets, each once.
type Objects struct {
	client kubernetes.Interface
	read   map[api.Ref]Object
}

// NewObjects returns a reader that has read nothing.
func NewObjects(client kubernetes.Interface) *Objects {
	return &Objects{client: client, read: map[api.Ref]Object{}}
}

// Object is a ConfigMap or Secret as the API server has it.
type Object struct {
	metav1.Object // Nil if it does not exist, or cannot be read.

	Content api.Content
	// CopyName is the name that a copy of the object has. Verified is nil if the object is an
	// intact copy itself.
	CopyName string
	Verified error
	// Err is why the object cannot be read. An object that does not exist has none.
	Err error
}

// Exists reports whether the object was read.
func (o Object) Exists() bool { return o.Object != nil }

// Of reads an object.
func (o *Objects) Of(ctx context.Context, ref api.Ref) Object {
	if _, found := o.read[ref]; !found {
		o.read[ref] = Get(ctx, o.client, ref)
	}
	return o.read[ref]
}

// Get reads an object.
func Get(ctx context.Context, client kubernetes.Interface, ref api.Ref) Object {
	if ref.Kind == api.Secret {
		secret, err := client.CoreV1().Secrets(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		return objectOf(secret, err, content.OfSecret)
	}
	configMap, err := client.CoreV1().ConfigMaps(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	return objectOf(configMap, err, content.OfConfigMap)
}

func objectOf[O interface {
	copies.Object
	metav1.Object
}](object O, err error, contentOf func(O) api.Content,
) Object {
	switch {
	case apierrors.IsNotFound(err):
		return Object{}
	case err != nil:
		return Object{Err: err}
	}
	digest := copies.DigestOf(object)
	return Object{
		Object: object, Content: contentOf(object),
		CopyName: copies.Name(object.GetName(), digest), Verified: copies.Verify(object, digest),
	}
}
