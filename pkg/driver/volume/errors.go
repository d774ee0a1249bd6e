package volume

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/identity"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/source"
	"github.com/liveconfig-csi/liveconfig/pkg/files/tree"
	"github.com/liveconfig-csi/liveconfig/pkg/files/treebuilder"
	"github.com/liveconfig-csi/liveconfig/pkg/files/volumefs"
)

// Kind is the kind of an [Error]. The set is closed: one switch maps it to gRPC codes.
type Kind string

// The kinds of errors.
const (
	// Invalid: the request is wrong, whatever the cluster holds.
	Invalid Kind = "Invalid"
	// Busy: another call for the same volume is under way.
	Busy Kind = "Busy"
	// NotReady: the same request may succeed later.
	NotReady Kind = "NotReady"
	// Missing: a required object or key does not exist.
	Missing Kind = "Missing"
	// Denied: the pod may not read a source.
	Denied Kind = "Denied"
	// Different: the volume is live with other parameters.
	Different Kind = "Different"
	// Unknown: there is no such volume.
	Unknown Kind = "Unknown"
	// Exhausted: the node has no room for the files.
	Exhausted Kind = "Exhausted"
	// IO: the node could not write or mount.
	IO Kind = "IO"
)

// Kinds returns every kind.
func Kinds() []Kind {
	return []Kind{Invalid, Busy, NotReady, Missing, Denied, Different, Unknown, Exhausted, IO}
}

// Error is what the manager's methods return.
type Error struct {
	// Op is what the manager was doing, such as «publish».
	Op string
	// VolumeID names the volume as the kubelet does.
	VolumeID string
	Kind     Kind
	Err      error
}

// Error leaves out Op and VolumeID. Logs and Events show both beside the message.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// call names what the manager does, and for which volume.
type call struct{ op, volumeID string }

// wrap returns an Error of the kind of its cause; nil for none.
func (c call) wrap(err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{Op: c.op, VolumeID: c.volumeID, Kind: kindOf(err), Err: err}
}

// refuse returns an Error of a kind that only the caller knows.
func (c call) refuse(kind Kind, format string, args ...any) error {
	return &Error{Op: c.op, VolumeID: c.volumeID, Kind: kind, Err: fmt.Errorf(format, args...)}
}

// kindOf classifies a cause, wherever in a sync it came up.
func kindOf(err error) Kind {
	var (
		attributes  *api.AttributesError
		missing     *treebuilder.MissingError
		unsupported *treebuilder.UnsupportedError
		conflict    *tree.ConflictError
		unread      *unreadError
		sources     *sourcesError
		foreign     *volumefs.ForeignMountError
		link        *volumefs.SymlinkError
		refused     *source.RefusedError
		disputed    *disputeError
	)
	switch {
	case errors.Is(err, errStopping), errors.As(err, &disputed):
		return NotReady
	case errors.As(err, &missing):
		return Missing
	case errors.As(err, &refused):
		return Denied
	case errors.As(err, &attributes), errors.As(err, &conflict), errors.As(err, &unsupported):
		return Invalid
	case errors.As(err, &sources):
		return sources.kind()
	case errors.As(err, &unread):
		return unread.kind()
	case isExhausted(err), isTooMuch(err):
		return Exhausted
	case errors.As(err, &foreign), errors.As(err, &link), errors.Is(err, volumefs.ErrOutside):
		return Invalid
	}
	return IO
}

// isFirstRead reports that the API server has not answered yet for a source, so it is too early to
// report a problem.
func isFirstRead(err error) bool {
	sources, ok := asSources(err)
	return ok && slices.ContainsFunc(sources.unread, func(u *unreadError) bool { return u.err == nil })
}

// errStopping ends a publish that waits for a source: nothing would wake it any more.
var errStopping = errors.New("the driver is being stopped; the next one will serve the volume")

// errWorkedOn is the problem of a live volume while a system call on its files does not return.
var errWorkedOn = errors.New("the volume is being worked on, and that takes long: whether its files are " +
	"current is not known")

// errPanicked is the problem of a volume whose sync panicked. The value of the panic is not shown,
// because it may have content of a Secret.
var errPanicked = errors.New("the driver panicked when it updated them; its log has the stack")

// unreadError means that the state of a source is not known. It never means that the source is
// missing.
type unreadError struct {
	key source.Key
	err error // The error of the API server or of the network; nil while the first answer is awaited.
}

func (e *unreadError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("%s has not been read yet", e.key.Ref)
	}
	return fmt.Sprintf("%s cannot be read: %v%s", e.key.Ref, e.err, e.remedy())
}

// remedyOfDriver is what an administrator types when the driver's account has lost its rights, with
// the namespace of the source.
const remedyOfDriver = "; the driver's own account lacks the right: " +
	"kubectl apply -f deploy/base/clusterrole.yaml -f deploy/base/clusterrolebinding.yaml, or with Helm: " +
	"helm upgrade liveconfig deploy/chart --namespace liveconfig-system --reset-then-reuse-values " +
	"(rbac.namespaces, if set, must list %s)"

// remedy returns what the user can do, if that is known.
func (e *unreadError) remedy() string {
	id := e.key.Identity
	switch {
	case access.IsDriverDenied(id, e.err):
		return fmt.Sprintf(remedyOfDriver, e.key.Ref.Namespace)
	case id == identity.Driver():
		return ""
	case apierrors.IsForbidden(e.err):
		return "; to allow it, apply:\n" + identity.Grant(id, e.key.Ref)
	case apierrors.IsUnauthorized(e.err) && !id.ByDriver: // Else it is the driver's own token.
		return fmt.Sprintf(": the token of %s is not valid, because the pod that it is bound to or the service "+
			"account is gone; the kubelet brings another one while both exist", id)
	}
	return ""
}

func (e *unreadError) Unwrap() error { return e.err }

func (e *unreadError) fingerprint() string { return fmt.Sprintf("%s %s", e.kind(), e.key.Ref) }

func (e *unreadError) kind() Kind {
	switch {
	case apierrors.IsForbidden(e.err):
		return Denied
	case isExhausted(e.err), isTooMuch(e.err):
		return Exhausted
	}
	return NotReady
}

// sourcesError lists everything that is in the way when at least one source could not be read.
type sourcesError struct {
	unread []*unreadError // At least one, in the order of the sources.
	// The keys and objects that are missing in the sources that could be read; nil for none.
	missing *treebuilder.MissingError
}

// newSourcesError adds what [treebuilder.Prepare] found missing in the sources that could be read.
// It leaves out conflicts and unsupported content: an object that is not read yet may end them.
func newSourcesError(unread []*unreadError, err error) *sourcesError {
	missing, _ := errors.AsType[*treebuilder.MissingError](err)
	return &sourcesError{unread: unread, missing: missing}
}

// with returns the error with other sources that could not be read.
func (e *sourcesError) with(others []*unreadError) *sourcesError {
	all := slices.Clone(e.unread)
	for _, other := range others {
		if !slices.ContainsFunc(all, func(u *unreadError) bool { return u.key == other.key }) {
			all = append(all, other)
		}
	}
	return &sourcesError{unread: all, missing: e.missing}
}

func asSources(err error) (*sourcesError, bool) { return errors.AsType[*sourcesError](err) }

func asUnread(err error) (*unreadError, bool) { return errors.AsType[*unreadError](err) }

// isOfSources reports whether a problem is with what was read, or not read, of the sources.
func isOfSources(err error) bool {
	_, ofSource := asUnread(err)
	_, ofSources := asSources(err)
	return ofSource || ofSources
}

// mostUnread is how many unread sources a message spells out. A volume may have thousands, each
// with a remedy.
const mostUnread = 10

// Error returns one problem as it is, and several as «[a, b]».
func (e *sourcesError) Error() string {
	problems := make([]string, 0, len(e.unread))
	for _, u := range e.causesFirst()[:min(len(e.unread), mostUnread)] {
		problems = append(problems, u.Error())
	}
	if more := len(e.unread) - mostUnread; more > 0 {
		problems = append(problems, fmt.Sprintf("%d more cannot be read", more))
	}
	if e.missing != nil {
		problems = append(problems, e.missing.Problems()...)
	}
	if len(problems) == 1 {
		return problems[0]
	}
	return "[" + strings.Join(problems, ", ") + "]"
}

// causesFirst returns the sources with a cause, and then those without an answer.
func (e *sourcesError) causesFirst() []*unreadError {
	isAwaited := func(u *unreadError) bool { return u.err == nil }
	caused := slices.DeleteFunc(slices.Clone(e.unread), isAwaited)
	for _, u := range e.unread {
		if isAwaited(u) {
			caused = append(caused, u)
		}
	}
	return caused
}

func (e *sourcesError) fingerprint() string {
	var prints []string
	for _, u := range e.unread {
		prints = append(prints, u.fingerprint())
	}
	if e.missing != nil {
		prints = append(prints, e.missing.Error())
	}
	return strings.Join(prints, ", ")
}

// kind returns the kind of the unread sources, whatever is missing besides. A denied source comes
// before one that may be read later, because somebody has to act.
func (e *sourcesError) kind() Kind {
	kind := NotReady
	for _, u := range e.unread {
		switch u.kind() {
		case Denied:
			return Denied
		case Exhausted:
			kind = Exhausted
		default:
		}
	}
	return kind
}

// fingerprint returns the parts of a problem that are news when they change. It leaves out the
// parts that change by themselves: how much room there is, the local port of a connection, the name
// of a temporary file.
func fingerprint(err error) string {
	if sources, ok := asSources(err); ok {
		return sources.fingerprint()
	}
	if unread, ok := asUnread(err); ok {
		return unread.fingerprint()
	}
	if isExhausted(err) {
		return string(Exhausted)
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return fmt.Sprintf("%s: %v", kindOf(err), errno)
	}
	return err.Error()
}

// reasonOf returns the Event reason for a problem of a live volume.
func reasonOf(problem error) Reason {
	if isTooMuch(problem) {
		return ReasonTooMuch
	}
	switch kindOf(problem) {
	case Missing:
		return ReasonSourceMissing
	case Denied:
		return ReasonAccessLost
	case Exhausted:
		return ReasonNoRoom
	default:
		return ReasonFailed
	}
}
