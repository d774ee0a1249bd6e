// Package nodes asks the drivers of nodes what they project, each through a port-forward to its
// pod.
//
// It does not know what for, nor what is in a report.
package nodes

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/sync/singleflight"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/liveconfig-csi/liveconfig/pkg/api/statusz"
)

// DefaultNamespace is where deploy/base puts the driver's pods.
const DefaultNamespace = "liveconfig-system"

const (
	// askTimeout is for one node, which may be gone.
	askTimeout = 10 * time.Second
	// atOnce is how many nodes are asked at the same time. Several that are gone do not hold up the
	// others.
	atOnce = 16
	// fewNodes is for how many nodes each driver's pod is looked for by itself.
	fewNodes = 8
	// largestHead is far above the size of the head of an answer.
	largestHead = 64 << 10
	// pageSize is how many pods are asked for at once.
	pageSize = 500
	// largestReport is far above the size of a report.
	largestReport = 256 << 20
)

// Drivers are the driver's pods of a cluster. It is for concurrent use.
type Drivers struct {
	config    *rest.Config
	client    kubernetes.Interface
	namespace string
	limits    Limits
	// asking limits how many nodes are asked at the same time.
	asking *semaphore.Weighted
	// reading shares the report of a node among concurrent callers.
	reading singleflight.Group
	// pods are those that are known, by node.
	pods sync.Map
}

// Limits bound the memory that answers take: texts of users are in them.
type Limits struct {
	// Report is how many bytes a report may have.
	Report int64
	// AtOnce is how many nodes are asked at the same time.
	AtOnce int64
}

// New returns the drivers whose pods are in a namespace, for a command that ends.
func New(config *rest.Config, client kubernetes.Interface, namespace string) *Drivers {
	return NewWithin(config, client, namespace, Limits{Report: largestReport, AtOnce: atOnce})
}

// NewWithin is New for a process that must stay within limits.
func NewWithin(config *rest.Config, client kubernetes.Interface, namespace string, limits Limits) *Drivers {
	return &Drivers{
		config: config, client: client, namespace: namespace, limits: limits, asking: semaphore.NewWeighted(limits.AtOnce),
	}
}

// Unavailable is the reason why there is no report of a node.
type Unavailable struct {
	Node string
	// Why is for people, and Type a command that leads on.
	Why, Type string
	// Err is the cause, and nil if Why is complete without it.
	Err error

	// Forbidden means that another attempt is useless.
	Forbidden bool
	// pod is the name of the driver's, empty if it is not known.
	pod string
}

func (u *Unavailable) Error() string {
	return fmt.Sprintf("the driver of node %s cannot be asked: %s; see %s", u.Node, u.Reason(), u.Type)
}

// Reason returns why, with what happened.
func (u *Unavailable) Reason() string {
	if u.Err == nil {
		return u.Why
	}
	return u.Why + ": " + u.Err.Error()
}

// Unwrap returns what happened.
func (u *Unavailable) Unwrap() error { return u.Err }

// Answer is the result of asking one node: a report, or why it is missing.
type Answer struct {
	Report statusz.Report
	Err    *Unavailable
}

// Unasked are nodes that could not be asked for one reason.
type Unasked struct {
	Nodes []string
	// Why and Type are about the first of the nodes.
	Why, Type string
}

// UnaskedIn returns which nodes could not be asked, by reason.
func UnaskedIn(answers map[string]Answer) []Unasked {
	groups := map[string]*Unasked{}
	for _, node := range slices.Sorted(maps.Keys(answers)) {
		u := answers[node].Err
		if u == nil {
			continue
		}
		reason := strings.ReplaceAll(u.Reason()+u.Type, node, "NODE")
		if u.pod != "" {
			reason = strings.ReplaceAll(reason, u.pod, "POD")
		}
		if groups[reason] == nil {
			groups[reason] = &Unasked{Why: u.Reason(), Type: u.Type}
		}
		groups[reason].Nodes = append(groups[reason].Nodes, node)
	}
	var all []Unasked
	for _, reason := range slices.Sorted(maps.Keys(groups)) {
		all = append(all, *groups[reason])
	}
	return all
}

// Reports asks several nodes, some at a time, what their drivers report now, and returns an answer
// of each. It caches the pods of the drivers, and no report. Concurrent callers share the report of
// a node.
func (d *Drivers) Reports(ctx context.Context, nodes []string) map[string]Answer {
	return d.ReportsOf(ctx, nodes, "")
}

// ReportsOf is Reports about the pods of one namespace. An older driver reports all pods.
func (d *Drivers) ReportsOf(ctx context.Context, nodes []string, namespace string) map[string]Answer {
	d.learn(ctx, nodes)
	answers := make(map[string]Answer, len(nodes))
	var mu sync.Mutex // Guards answers.
	var all sync.WaitGroup
	for _, node := range nodes {
		all.Go(func() {
			var answer Answer
			reading := d.reading.DoChan(node+"/"+namespace, func() (any, error) { return d.read(ctx, node, namespace), nil })
			select {
			case result := <-reading:
				answer, _ = result.Val.(Answer)
			case <-ctx.Done():
				answer.Err = d.unavailable(node, "there was no time left", ctx.Err())
			}
			mu.Lock()
			defer mu.Unlock()
			answers[node] = answer
		})
	}
	all.Wait()
	return answers
}

func (d *Drivers) read(ctx context.Context, node, namespace string) Answer {
	if err := d.asking.Acquire(ctx, 1); err != nil {
		return Answer{Err: d.unavailable(node, "there was no time left", err)}
	}
	defer d.asking.Release(1)
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	p, isKnown := d.known(node)
	if !isKnown {
		found, u := d.find(ctx, node)
		if u != nil {
			return Answer{Err: u}
		}
		p = found
		d.pods.Store(node, p)
	}
	report, err := d.ask(ctx, p, namespace)
	if err != nil {
		d.pods.Delete(node) // The next pod may do better.
		return Answer{Err: d.explain(ctx, node, p, err)}
	}
	return Answer{Report: report}
}

func (d *Drivers) ask(ctx context.Context, p pod, namespace string) (statusz.Report, error) {
	at := "http://localhost/statusz" // The driver answers requests to its own host alone.
	if namespace != "" {
		at += "?namespace=" + url.QueryEscape(namespace)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at, http.NoBody)
	if err != nil {
		return statusz.Report{}, err
	}
	request.Close = true
	c, err := d.connect(ctx, p)
	if err != nil {
		return statusz.Report{}, err
	}
	defer context.AfterFunc(ctx, func() { _ = c.Close() })() // Ends reads that wait.
	defer func() { _ = c.Close() }()                         // All has been read.
	if err := request.Write(c); err != nil {
		return statusz.Report{}, c.explain(ctx, err)
	}
	response, err := http.ReadResponse(bufio.NewReader(io.LimitReader(c, d.limits.Report+largestHead)), request)
	if err != nil {
		return statusz.Report{}, c.explain(ctx, err)
	}
	defer func() { _ = response.Body.Close() }() // As above.
	if response.StatusCode != http.StatusOK {
		return statusz.Report{}, fmt.Errorf("/statusz answers %s", response.Status)
	}
	return read(response.Body, d.limits.Report)
}

// errNewer is of a report in a schema that is not known here.
var errNewer = errors.New("update the plugin")

func read(body io.Reader, most int64) (statusz.Report, error) {
	text, err := io.ReadAll(io.LimitReader(body, most+1))
	switch {
	case err != nil:
		return statusz.Report{}, fmt.Errorf("read the status: %w", err)
	case int64(len(text)) > most:
		return statusz.Report{}, fmt.Errorf("the status has more than %d bytes", most)
	}
	report, err := statusz.Read(bytes.NewReader(text))
	var head struct {
		SchemaVersion int `json:"schemaVersion"`
	}
	if err != nil && json.Unmarshal(text, &head) == nil && head.SchemaVersion > statusz.SchemaVersion {
		return statusz.Report{}, fmt.Errorf("%w: %w", errNewer, err)
	}
	return report, err
}

func (d *Drivers) explain(ctx context.Context, node string, p pod, err error) *Unavailable {
	u := d.unavailable(node, fmt.Sprintf("its pod %s is gone", p.name), err)
	u.pod = p.name
	if isGone(err, p.name) {
		return u
	}
	u.Type = fmt.Sprintf("kubectl -n %s logs %s -c %s", d.namespace, p.name, p.container)
	switch {
	case apierrors.IsForbidden(err):
		u.Why = fmt.Sprintf("you may not port-forward to its pod, which takes the verb create on pods/portforward "+
			"in namespace %s", d.namespace)
		u.Type, u.Err, u.Forbidden = fmt.Sprintf("kubectl -n %s auth can-i create pods/portforward", d.namespace), nil, true
	case errors.Is(err, errNewer):
		u.Why, u.Type = "it is newer than this plugin", "kubectl liveconfig version"
	case ctx.Err() != nil && !errors.Is(context.Cause(ctx), context.Canceled):
		u.Why = fmt.Sprintf("its pod %s did not answer within %s", p.name, askTimeout)
	default:
		u.Why = fmt.Sprintf("its pod %s did not answer as it should", p.name)
	}
	return u
}

// isGone reports whether the pod does not exist. A port-forward uses the same words for the node.
func isGone(err error, pod string) bool {
	var answer apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &answer) {
		return false
	}
	details := answer.Status().Details
	return details != nil && details.Name == pod
}

// unavailable returns why there is no report of a node, for which a look at its pods leads on: the
// driver's should be among them.
func (d *Drivers) unavailable(node, why string, err error) *Unavailable {
	listing := fmt.Sprintf("kubectl -n %s get pods -o wide --field-selector spec.nodeName=%s", d.namespace, node)
	return &Unavailable{Node: node, Why: why, Type: listing, Err: err}
}
