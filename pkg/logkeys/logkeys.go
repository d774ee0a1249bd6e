// Package logkeys names the keys of structured log lines, so that one search finds every line about a thing.
package logkeys

// The keys, camelCase.
const (
	Action     = "action"
	Address    = "address"
	Code       = "code"
	Config     = "config"
	Delay      = "delay"
	Driver     = "driver"
	DryRun     = "dryRun"
	Duration   = "duration"
	File       = "file"
	Identity   = "identity"
	Key        = "key"
	Limit      = "limit"
	Method     = "method"
	Namespace  = "namespace"
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
	Workload   = "workload"
)
