// Package logkeys names the keys of structured log lines, so that one search finds every line about a thing.
package logkeys

// The keys, camelCase.
const (
	Action     = "action"
	Address    = "address"
	Code       = "code"
	Delay      = "delay"
	Driver     = "driver"
	Duration   = "duration"
	File       = "file"
	Identity   = "identity"
	Limit      = "limit"
	Method     = "method"
	NodeID     = "nodeID"
	Pod        = "pod"
	Reason     = "reason"
	Result     = "result"
	Room       = "room"
	Stack      = "stack"
	Request    = "request"
	Ref        = "ref"
	TargetPath = "targetPath"
	Version    = "version"
	VolumeID   = "volumeID"
	Volumes    = "volumes"
)
