package nodeserver

import (
	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/encoding/protowire"
)

// CSI 1.13 replaces VOLUME_CONDITION with NodeGetVolumeHealth. VOLUME_CONDITION is a capability, a
// field of NodeGetVolumeStatsResponse and the message VolumeCondition; CSI 1.13 reserves their
// numbers. The driver serves both, because older kubelets know only VOLUME_CONDITION. Newer
// kubelets skip the field.
const (
	capabilityVolumeCondition csi.NodeServiceCapability_RPC_Type = 4

	fieldVolumeCondition protowire.Number = 2 // Of NodeGetVolumeStatsResponse.
	fieldAbnormal        protowire.Number = 1 // Of VolumeCondition.
	fieldMessage         protowire.Number = 2 // Of VolumeCondition.
)

// reasonStale is the machine-readable reason of an adverse health status.
const reasonStale = "FilesNotCurrent"

// healthOf returns the volume's health as CSI 1.13 has it: no status when nothing is wrong.
func healthOf(volumeID string, problem error) *csi.VolumeHealth {
	health := &csi.VolumeHealth{VolumeId: volumeID}
	if problem != nil {
		health.HealthStatuses = []*csi.VolumeHealth_VolumeHealthEntry{{
			Status: csi.VolumeHealthErrorType_DEGRADED, Reason: reasonStale, Message: problem.Error(),
		}}
	}
	return health
}

// healthy is the condition's message when nothing is wrong: the field is required.
const healthy = "the files are current"

// setCondition adds the condition: abnormal with the problem's text, or normal for nil.
func setCondition(response *csi.NodeGetVolumeStatsResponse, problem error) {
	message := healthy
	var condition []byte
	if problem != nil {
		message = problem.Error()
		condition = protowire.AppendTag(condition, fieldAbnormal, protowire.VarintType)
		condition = protowire.AppendVarint(condition, protowire.EncodeBool(true))
	}
	condition = protowire.AppendTag(condition, fieldMessage, protowire.BytesType)
	condition = protowire.AppendString(condition, message)

	field := protowire.AppendTag(nil, fieldVolumeCondition, protowire.BytesType)
	field = protowire.AppendBytes(field, condition)
	response.ProtoReflect().SetUnknown(field)
}
