package nodeserver

import (
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/liveconfig-csi/liveconfig/pkg/driver/csidriver"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/volume"
)

// statusOf is the one place where the kinds of errors become gRPC codes.
func statusOf(err error) error {
	if e, ok := errors.AsType[*volume.Error](err); ok {
		return status.Error(codeOf(e.Kind), e.Error())
	}
	if e, ok := errors.AsType[*csidriver.Error](err); ok {
		return status.Error(codeOfInstallation(e.Kind), e.Error())
	}
	return status.Error(codes.Internal, err.Error())
}

func codeOfInstallation(kind csidriver.Kind) codes.Code {
	if kind == csidriver.Unread {
		return codes.Unavailable
	}
	return codes.FailedPrecondition
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
