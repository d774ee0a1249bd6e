package nodeserver

import (
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/liveconfig-csi/liveconfig/pkg/driver/csidriver"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/volume"
)

// refuse returns an error of the kind, about a request that the volumes never see.
func refuse(kind volume.Kind, format string, args ...any) error {
	return &volume.Error{Op: "check the request", Kind: kind, Err: fmt.Errorf(format, args...)}
}

func invalid(format string, args ...any) error { return refuse(volume.Invalid, format, args...) }

// statusOf returns the error of a call as gRPC sends it. Every call of this package ends here; no
// other code chooses a gRPC code.
func statusOf(err error) error {
	if e, ok := errors.AsType[*volume.Error](err); ok {
		return status.Error(codeOf(e.Kind), e.Error())
	}
	if e, ok := errors.AsType[*csidriver.Error](err); ok {
		return status.Error(codeOf(kindOf(e.Kind)), e.Error())
	}
	return status.Error(codes.Internal, err.Error())
}

// kindOf returns the kind of a publish that fails because of the CSIDriver object.
func kindOf(kind csidriver.Kind) volume.Kind {
	if kind == csidriver.Unread {
		return volume.NotReady
	}
	return volume.Missing
}

func codeOf(kind volume.Kind) codes.Code {
	switch kind {
	case volume.Invalid:
		return codes.InvalidArgument
	case volume.Busy:
		return codes.Aborted
	case volume.NotReady:
		return codes.Unavailable
	case volume.Missing:
		return codes.FailedPrecondition
	case volume.Denied:
		return codes.PermissionDenied
	case volume.Different:
		return codes.AlreadyExists
	case volume.Unknown:
		return codes.NotFound
	case volume.Exhausted:
		return codes.ResourceExhausted
	case volume.IO:
		return codes.Internal
	}
	return codes.Internal
}
