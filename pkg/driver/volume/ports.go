package volume

import (
	"os"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/identity"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/budget"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/source"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/state"
	"github.com/liveconfig-csi/liveconfig/pkg/files/volumefs"
)

// Sources reads objects and follows their changes.
type Sources interface {
	// Acquire counts a user of the object, until giveBack is called.
	Acquire(source.Key) (giveBack func(), err error)
	// Look returns what is known of these objects at one moment. It never blocks.
	Look(...source.Key) []source.Snapshot
}

// Authority chooses whose credentials read a source for a pod.
type Authority interface {
	Choose(api.Pod, api.Ref) identity.Identity
}

// Tokens stores the tokens of pods, as long as their volumes exist.
type Tokens interface {
	// Store stores the token that a volume came with. The zero token changes nothing.
	Store(volumeID string, pod api.Pod, t access.Token) error
	Drop(volumeID string) error
	// Retain drops the tokens of volumes that are not known.
	Retain(known func(volumeID string) bool) error
}

// Records writes the records of published volumes, which outlive the driver.
type Records interface {
	Put(state.Record) error
	// Ensure is Put for a volume that should have a record already; then it costs little.
	Ensure(state.Record) error
	// Adopt is Put for a volume that was found live. It does not replace the record of a newer
	// driver.
	Adopt(state.Record) error
	Delete(volumeID string) error
}

// EarlierRecords finds the records of an earlier run.
type EarlierRecords interface {
	// Has reports whether a volume has a record, readable or not.
	Has(volumeID string) bool
	// Each calls visit with every readable record, and returns an error for the others. visit may
	// delete the record.
	Each(visit func(state.Record)) error
}

// Mounts finds and unmounts the file systems of volumes.
type Mounts interface {
	// Mounted reports whether a volume is on target.
	Mounted(target string) (bool, error)
	// Find returns the mount of the volume on target.
	Find(target string) (volumefs.Mount, error)
	// Usage returns how full the volume on target is.
	Usage(target string) (volumefs.Usage, error)
	Unmount(target string) error
}

// Views creates the file systems of volumes, and opens them for writing.
type Views interface {
	// Create creates a file system that nobody sees until the view is published.
	Create(volumefs.Limits) (View, error)
	Open(target string) (View, error)
	// IsAt reports, at little cost, whether a mount is what is on target.
	IsAt(target string, m volumefs.Mount) bool
}

// View is a writable way into one file system: see [volumefs.View].
type View interface {
	// Root is the root directory of the files.
	Root() *os.File
	Mount() volumefs.Mount
	Publish(target string) error
	Share(from, to string) (volumefs.Mount, error)
	Usage() (volumefs.Usage, error)
	Close() error
}

// OnTmpfs returns the views of a [volumefs.FS].
func OnTmpfs(fs *volumefs.FS) Views { return onTmpfs{fs} }

type onTmpfs struct{ *volumefs.FS }

// Create is [volumefs.FS.Create].
func (fs onTmpfs) Create(l volumefs.Limits) (View, error) { return viewOf(fs.FS.Create(l)) }

// Open is [volumefs.FS.Open].
func (fs onTmpfs) Open(target string) (View, error) { return viewOf(fs.FS.Open(target)) }

func viewOf(v *volumefs.View, err error) (View, error) {
	if err != nil {
		return nil, err
	}
	return view{v}, nil
}

type view struct{ *volumefs.View }

// Root returns the root directory.
func (v view) Root() *os.File { return v.Dir }

// Room is the memory for the files of all volumes.
type Room interface {
	// Account returns a new, empty account.
	Account() *budget.Account
}

// Reporter shows what happens to volumes outside the driver. Its methods must not block.
type Reporter interface {
	// Event shows on the pod. volume is its name in the pod spec.
	Event(pod api.Pod, volume string, reason Reason, note string)
	// Synced counts one finished sync. since is when the change that caused it became known; zero
	// for none.
	Synced(result Result, since time.Time)
	// Reached counts a change that is now in the files of a volume. changed is when the change was
	// made, by the API server's clock.
	Reached(changed time.Time)
}

// Reason is why an Event was written: a short CamelCase word that people filter by.
type Reason string

// The reasons of Events.
const (
	// ReasonWaiting: a required object or key does not exist yet, or cannot be read yet; publish
	// waits for it.
	ReasonWaiting Reason = "WaitingForSource"
	// ReasonProjected: a change reached the files.
	ReasonProjected Reason = "Projected"
	// ReasonSourceMissing: a required object or key of a live volume is gone.
	ReasonSourceMissing Reason = "SourceMissing"
	// ReasonAccessLost: a source of a live volume may no longer be read.
	ReasonAccessLost Reason = "AccessLost"
	// ReasonPolling: a source is polled, because its reader may not watch it.
	ReasonPolling Reason = "Polling"
	// ReasonPathTaken: keys are left out, because their places belong to mount points.
	ReasonPathTaken Reason = "PathTaken"
	// ReasonFrozen: a live volume is not updated any more, because this version of the driver
	// refuses what an earlier one accepted, or because its update panicked.
	ReasonFrozen Reason = "Frozen"
	// ReasonNoRoom: the node has no memory left for a change.
	ReasonNoRoom Reason = "NoRoom"
	// ReasonTooMuch: selections of a volume match more than it can have.
	ReasonTooMuch Reason = "TooMuchSelected"
	// ReasonFailed: a change could not be projected for another cause.
	ReasonFailed Reason = "ProjectionFailed"
)

// Warns reports whether the reason is something to worry about.
func (r Reason) Warns() bool { return r != ReasonProjected }

// Result is how a sync ended.
type Result string

// The results of a sync.
const (
	ResultWritten   Result = "written"
	ResultUnchanged Result = "unchanged"
	ResultFailed    Result = "failed"
)
