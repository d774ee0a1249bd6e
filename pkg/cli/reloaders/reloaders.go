// Package reloaders finds the containers of pods that run liveconfig-reload, and asks them for
// their last results through the API server's proxy of pods, with the rights of the user.
//
// It does not know what commands print, nor what is in volumes.
package reloaders

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/printing"
)

// The limits of what is asked. Answers come from programs of others.
const (
	// Most is how many reloaders a command asks.
	Most = 100
	// askTimeout is for one reloader, and allTimeout for those of one workload.
	askTimeout = 5 * time.Second
	allTimeout = 15 * time.Second
	// atOnce is how many reloaders are asked at the same time.
	atOnce = 8
	// mostAnswer is far above the size of an answer.
	mostAnswer = 64 << 10
	// mostText is how many characters of a text are shown.
	mostText = 500
)

// Status is what a reloader reports at /statusz, as far as it is shown. A count that is zero stands
// for no content.
type Status struct {
	// Content counts the contents that the reloader has seen, Loaded is the last one that the
	// program was seen to work with, and Failed the one that Failure is about.
	Content int    `json:"content"`
	Loaded  int    `json:"loaded"`
	Failed  int    `json:"failed,omitempty"`
	Failure string `json:"failure,omitempty"`
	// ReadAt is when the files were last read; zero if that is not known.
	ReadAt time.Time `json:"readAt,omitzero"`
	// FailedSince is when the first content failed since the last success. NextTry is when Failed
	// is tried again. It is zero while a newer content is tried, or if that is not known.
	FailedSince time.Time `json:"failedSince,omitzero"`
	NextTry     time.Time `json:"nextTry,omitzero"`
	LastSuccess time.Time `json:"lastSuccess,omitzero"`
	Successes   int       `json:"successes"`
	Failures    int       `json:"failures"`
}

// Unavailable is the reason why there is no status of a reloader.
type Unavailable struct {
	// Why is for people and the same for all pods, Detail is about one, or empty, and Type is a
	// command that leads on.
	Why, Detail, Type string
}

// Reason returns why, with what happened.
func (u *Unavailable) Reason() string {
	if u.Detail == "" {
		return u.Why
	}
	return u.Why + ": " + u.Detail
}

// unavailable returns why there is no status, for which the log of the container leads on.
func (r Reloader) unavailable(pod *corev1.Pod, why string) *Unavailable {
	return &Unavailable{Why: why, Type: fmt.Sprintf("kubectl -n %s logs %s -c %s", pod.Namespace, pod.Name, r.Container)}
}

// Question is one reloader of a pod.
type Question struct {
	Reloader

	Pod *corev1.Pod
}

// Answer is a status, or why it is missing.
type Answer struct {
	Status Status
	Err    *Unavailable
}

// Asker asks reloaders.
type Asker struct {
	client kubernetes.Interface
	web    *http.Client
	// left is how many reloaders it still asks.
	left int
}

// New returns an asker with the rights of a config.
func New(config *rest.Config) (*Asker, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("prepare to ask the API server: %w", err)
	}
	web, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("prepare to ask the API server: %w", err)
	}
	own := *web
	// The client adds the user's credentials to each request, and a pod may answer with a redirect.
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Asker{client: client, web: &own, left: Most}, nil
}

// Ask asks reloaders, some at a time, and returns an answer of each in their order.
func (a *Asker) Ask(ctx context.Context, questions []Question) []Answer {
	ctx, cancel := context.WithTimeout(ctx, allTimeout)
	defer cancel()
	answers := make([]Answer, len(questions))
	var asking errgroup.Group
	asking.SetLimit(atOnce)
	for i, q := range questions {
		port, u := q.port(q.Pod)
		switch {
		case u != nil:
			answers[i].Err = u
		case a.left == 0:
			answers[i].Err = q.unavailable(q.Pod, fmt.Sprintf("one command asks %d reloaders; describe the pod by itself", Most))
		default:
			a.left--
			asking.Go(func() error {
				answers[i] = a.ask(ctx, q, port)
				return nil
			})
		}
	}
	_ = asking.Wait() // Each answer has its error.
	return answers
}

func (a *Asker) ask(ctx context.Context, q Question, port int) Answer {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	failed := func(err error) Answer {
		u := q.unavailable(q.Pod, "it cannot be asked")
		if u.Detail = shown(err.Error()); ctx.Err() != nil {
			u.Why, u.Detail = "it did not answer in time", ""
		}
		return Answer{Err: u}
	}
	to := a.client.CoreV1().RESTClient().Get().Namespace(q.Pod.Namespace).Resource("pods").
		Name(fmt.Sprintf("%s:%d", q.Pod.Name, port)).SubResource("proxy", "statusz").URL()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, to.String(), http.NoBody)
	if err != nil {
		return failed(err)
	}
	request.Header.Set("Accept", "application/json")
	response, err := a.web.Do(request)
	if err != nil {
		return failed(err)
	}
	defer func() { _ = response.Body.Close() }() // All that is wanted has been read.
	text, err := io.ReadAll(io.LimitReader(response.Body, mostAnswer+1))
	if err != nil {
		return failed(err)
	}
	if response.StatusCode != http.StatusOK {
		return Answer{Err: q.refusal(response.StatusCode, text)}
	}
	return q.read(text)
}

// refusal returns why there is no status, by an answer of the API server or of the pod.
func (q Question) refusal(code int, text []byte) *Unavailable {
	var status metav1.Status
	isOfServer := json.Unmarshal(text, &status) == nil && status.Kind == "Status" // The pod's answers are others.
	switch {
	case isOfServer && code == http.StatusForbidden:
		return q.unavailable(q.Pod,
			"you may not ask it, which takes the verb get on pods/proxy in namespace "+q.Pod.Namespace)
	case isOfServer:
		u := q.unavailable(q.Pod, "it does not answer")
		u.Detail = shown(status.Message)
		return u
	default:
		return q.unavailable(q.Pod, fmt.Sprintf("its /statusz answers %d %s", code, http.StatusText(code)))
	}
}

// read parses a status. Its texts come from a program that others run.
func (q Question) read(text []byte) Answer {
	var found struct {
		Status

		Content *int `json:"content"`
	}
	err := json.Unmarshal(text, &found)
	switch {
	case len(text) > mostAnswer:
		return Answer{Err: q.unavailable(q.Pod, fmt.Sprintf("its answer has more than %d bytes", mostAnswer))}
	case err != nil || found.Content == nil:
		return Answer{Err: q.unavailable(q.Pod, "its answer is not a status of "+program)}
	}
	found.Status.Content = *found.Content
	found.Failure = shown(found.Failure)
	return Answer{Status: found.Status}
}

// shown returns a text of others as one line that is not too long.
func shown(text string) string {
	const bytes = mostText * utf8.UTFMax
	text = printing.PlainLine(strings.ToValidUTF8(text[:min(len(text), bytes)], "?"))
	if runes := []rune(text); len(runes) > mostText {
		return string(runes[:mostText]) + "…"
	}
	return text
}
