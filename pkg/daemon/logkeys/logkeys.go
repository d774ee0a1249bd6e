// Package logkeys names the keys of structured log lines, so that one search finds every line about
// a thing.
package logkeys

// The keys, camelCase.
const (
	Action     = "action"
	Address    = "address"
	Code       = "code"
	Config     = "config"
	Delay      = "delay"
	Directory  = "directory"
	Driver     = "driver"
	DryRun     = "dryRun"
	Duration   = "duration"
	File       = "file"
	Holder     = "holder"
	Identity   = "identity"
	Key        = "key"
	Limit      = "limit"
	Method     = "method"
	Namespace  = "namespace"
	NodeID     = "nodeID"
	Note       = "note"
	Pod        = "pod"
	Reason     = "reason"
	Result     = "result"
	Room       = "room"
	Shared     = "sharedWith"
	Stack      = "stack"
	Request    = "request"
	Ref        = "ref"
	TargetPath = "targetPath"
	Version    = "version"
	VolumeID   = "volumeID"
	Volumes    = "volumes"
	Warning    = "warning"
	Workload   = "workload"
)
