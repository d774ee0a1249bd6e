// Package state stores one record per volume on disk, so that a restarted driver knows its volumes,
// and gives the records to one driver at a time.
//
// Records are always synced to disk, and written with bare system calls: package os would make ten
// more for each. The lock of the directory is held by bare system calls too, see [Lock].
//
// It does not know mounts, sources or CSI.
package state

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"unicode/utf8"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

// schemaVersion is written into every record. A record of a later version is left alone: it belongs
// to a newer driver that may come back.
const schemaVersion = 1

// Record is what is remembered of one published volume: what the kubelet asked for, nothing of what
// was projected.
type Record struct {
	VolumeID   string `json:"volumeID"`
	TargetPath string `json:"targetPath"`
	// Attributes are the user's, without the kubelet's keys.
	Attributes map[string]string `json:"attributes,omitempty"`
	Pod        api.Pod           `json:"pod"`
	// FSGroup is the pod's; nil when it has none. Zero is a group.
	FSGroup *int `json:"fsGroup,omitempty"`
}

// Fingerprint is the same for records that ask for the same volume, and another one for each other.
// It stands for a record where nobody holds its attributes any more.
type Fingerprint [sha256.Size]byte

// Fingerprint returns the record's.
func (r Record) Fingerprint() Fingerprint {
	data, _ := json.Marshal(r) // Marshal cannot fail with strings and numbers, and has fields and keys in order.
	return sha256.Sum256(data)
}

// Size returns about how many bytes the record takes on disk, and at least half of what it takes in
// memory.
func (r Record) Size() int {
	const fixed = 512 // Names of fields, IDs and paths.
	size := fixed
	for key, value := range r.Attributes {
		size += len(key) + len(value)
	}
	return size
}

// envelope is a record as it stands on disk.
type envelope struct {
	SchemaVersion int `json:"schemaVersion"`
	Record
}

// Store keeps records in a directory. Its methods may be called concurrently for different volumes.
type Store struct {
	files *Files
}

// New returns a store that keeps its records below dir, which it creates with mode 0700 where it is
// missing. It clears what a crash in the middle of Put left behind, so no other store may be
// writing below dir: the holder of its [Lock] may make one. A file that cannot be removed is an
// error only where no record could be written either: nothing reads it.
func New(dir string) (*Store, error) {
	files, err := NewFiles(recordsOf(dir))
	if err != nil {
		return nil, err
	}
	return &Store{files: files}, nil
}

// recordsOf returns the directory of the records in a state directory.
func recordsOf(dir string) string { return filepath.Join(dir, "volumes") }

// Put writes the record of a volume, replacing an earlier one in one step: after a crash the old or
// the new record is there, complete. A directory that somebody has removed since New is made again.
//
// A volume ID that is not UTF-8 is refused: JSON would alter it. CSI sends none.
func (s *Store) Put(r Record) error {
	if !utf8.ValidString(r.VolumeID) {
		return fmt.Errorf("write the record of volume %q: the volume ID is not UTF-8", r.VolumeID)
	}
	data, err := json.Marshal(envelope{SchemaVersion: schemaVersion, Record: r})
	if err != nil {
		return fmt.Errorf("encode the record of volume %s: %w", r.VolumeID, err)
	}
	if err := s.files.Put(r.VolumeID, data); err != nil {
		return fmt.Errorf("write the record of volume %s: %w", r.VolumeID, err)
	}
	return nil
}

// Ensure writes the record of a volume unless there is one already, whatever is in it. With one it
// costs a look at the directory. Errors are those of [Store.Put].
func (s *Store) Ensure(r Record) error {
	if s.files.Has(r.VolumeID) {
		return nil
	}
	return s.Put(r)
}

// Adopt writes the record of a volume that was found live, in place of one that is torn or names
// another volume. One of a later schema stays as it is: it has more than this driver could write,
// to the newer one that may come back. Errors are those of [Store.Put].
func (s *Store) Adopt(r Record) error {
	if s.isLater(r.VolumeID) {
		return nil
	}
	return s.Put(r)
}

// isLater reports whether the volume has a record of a later schema.
func (s *Store) isLater(volumeID string) bool {
	if !s.files.Has(volumeID) { // Or it is not a file, and opening it might wait.
		return false
	}
	data, err := os.ReadFile(s.files.path(volumeID))
	var e struct {
		SchemaVersion int `json:"schemaVersion"`
	}
	return err == nil && json.Unmarshal(data, &e) == nil && e.SchemaVersion > schemaVersion
}

// Has reports whether there is a record of a volume, readable or not.
func (s *Store) Has(volumeID string) bool { return s.files.Has(volumeID) }

// Check returns why no record could be written now. It writes a file that nobody reads and removes
// it, and creates the directory again if somebody has removed it.
func (s *Store) Check() error {
	if err := s.files.check(); err != nil {
		return fmt.Errorf("write to the state directory: %w", err)
	}
	return nil
}

// Delete removes the record of a volume. A missing record is not an error.
func (s *Store) Delete(volumeID string) error {
	if err := s.files.Delete(volumeID); err != nil {
		return fmt.Errorf("remove the record of volume %s: %w", volumeID, err)
	}
	return nil
}

// Each calls visit with every readable record, one after the other. One that is torn, of a later
// schema or no file at all does not hide the others: it stays on disk and is reported by a joined
// error at the end. visit may delete the record.
func (s *Store) Each(visit func(Record)) error {
	var problems []error
	err := s.files.each(func(name string, data []byte, err error) {
		record, err := s.decode(name, data, err)
		if err != nil {
			problems = append(problems, fmt.Errorf("read record %s: %w", name, err))
			return
		}
		visit(record)
	})
	if err != nil {
		return fmt.Errorf("list records: %w", err)
	}
	return errors.Join(problems...)
}

func (s *Store) decode(name string, data []byte, err error) (Record, error) {
	if err != nil {
		return Record{}, err
	}
	var e envelope
	if err := json.Unmarshal(data, &e); err != nil {
		return Record{}, err
	}
	switch {
	case e.SchemaVersion != schemaVersion:
		return Record{}, fmt.Errorf("schema version %d is not %d; it was written by another version of the driver",
			e.SchemaVersion, schemaVersion)
	case nameOf(e.VolumeID) != name:
		return Record{}, errors.New("it names another volume")
	}
	return e.Record, nil
}
