package release

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/edit"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/printing"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
	"github.com/liveconfig-csi/liveconfig/pkg/release/stable"
)

// Limits of the texts that annotations and Events have about a person's act.
const (
	longestReason = 500
	longestName   = 128
)

// limit returns an error if the person gives a longer reason than annotations have room for.
func (o *act) limit() error {
	if len(o.reason) > longestReason {
		return fmt.Errorf("--reason has %d bytes, the most is %d", len(o.reason), longestReason)
	}
	return nil
}

// record returns what is recorded: «frozen by jane: latency is up».
func (o *act) record(ctx context.Context, client kubernetes.Interface) string {
	what, _, _ := strings.Cut(o.done, ":")
	text := what + " by " + o.person(ctx, client)
	if o.reason != "" {
		text += ": " + bounded(o.reason, longestReason)
	}
	return text
}

// errNoName is why no name is recorded.
var errNoName = errors.New("it is empty")

// person returns the name that the API server knows the person by: the name of an account on this
// machine proves nothing. An act that must be quick does not fail because the name is not known.
func (o *act) person(ctx context.Context, client kubernetes.Interface) string {
	review, err := client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{},
		metav1.CreateOptions{})
	if err == nil && review.Status.UserInfo.Username == "" {
		err = errNoName
	}
	if err != nil {
		o.Remark("warning: the API server does not report your name, so it is not recorded: %v", err)
		return "somebody"
	}
	return bounded(review.Status.UserInfo.Username, longestName)
}

// bounded returns a text as one line of which a terminal obeys nothing, and its beginning if it is
// long.
func bounded(text string, most int) string {
	text = printing.PlainLine(text)
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// event writes an Event on a released object, as the controller does about what it does itself.
func (o *act) event(ctx context.Context, client kubernetes.Interface, source stable.Object) error {
	now := metav1.NewTime(time.Now())
	e := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: source.Ref.Namespace, GenerateName: source.Ref.Name + "."},
		InvolvedObject: corev1.ObjectReference{
			Kind: string(source.Ref.Kind), APIVersion: "v1", Namespace: source.Ref.Namespace, Name: source.Ref.Name,
			UID: source.UID, ResourceVersion: source.Version,
		},
		Type: corev1.EventTypeWarning, Source: corev1.EventSource{Component: edit.FieldManager},
		ReportingController: edit.FieldManager, FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}
	switch o.state {
	case release.Frozen:
		e.Reason, e.Message = "ReleaseFrozen", "No more pods get the edit: "+o.because
	case release.Reverted:
		e.Reason, e.Message = "ReleaseReverted", "The edit is taken back from all pods: "+o.because
	default:
		e.Type, e.Reason, e.Message = corev1.EventTypeNormal, "ReleasePromoted", "All pods get the edit: "+o.because
	}
	_, err := client.CoreV1().Events(e.Namespace).Create(ctx, e, metav1.CreateOptions{})
	return err
}
