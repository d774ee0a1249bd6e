// Package state keeps one record per volume on disk, so that a restarted driver knows what it serves.
//
// It does not know mounts, sources or CSI: a record is what somebody put, whole or not at all.
package state

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

// schemaVersion is written into every record. A record of a later version is left alone: it belongs to a newer driver
// that may come back.
const schemaVersion = 1

const (
	recordSuffix = ".json"
	tempPrefix   = "tmp-"
)

// Record is what is remembered of one published volume: what the kubelet asked for, nothing of what was projected.
type Record struct {
	VolumeID   string `json:"volumeID"`
	TargetPath string `json:"targetPath"`
	// Attributes are the user's, without the kubelet's keys.
	Attributes map[string]string `json:"attributes,omitempty"`
	Pod        api.Pod           `json:"pod"`
	// FSGroup is the pod's; nil when it has none. Zero is a group.
	FSGroup *int `json:"fsGroup,omitempty"`
}

// Same reports whether both records ask for the same volume.
func (r Record) Same(other Record) bool {
	return r.VolumeID == other.VolumeID && r.TargetPath == other.TargetPath && r.Pod == other.Pod &&
		maps.Equal(r.Attributes, other.Attributes) && equalGroup(r.FSGroup, other.FSGroup)
}

func equalGroup(a, b *int) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// envelope is a record as it stands on disk.
type envelope struct {
	SchemaVersion int `json:"schemaVersion"`
	Record
}

// Store keeps records in a directory. Its methods may be called concurrently for different volumes.
type Store struct {
	dir string
}

// New returns a store that keeps its records below dir, which it creates with mode 0700 where it is missing. It clears
// what a crash in the middle of Put left behind, so no other store may be writing below dir. What cannot be cleared is an
// error only where no record could be written either: nothing reads it.
func New(dir string) (*Store, error) {
	s := &Store{dir: filepath.Join(dir, "volumes")}
	if err := s.makeDir(); err != nil {
		return nil, fmt.Errorf("create the state directory: %w", err)
	}
	err := s.removeTemps()
	if err == nil {
		return s, nil
	}
	if problem := s.tryWriting(); problem != nil {
		return nil, fmt.Errorf("clear the state directory: %w", errors.Join(err, problem))
	}
	return s, nil
}

func (s *Store) makeDir() error { return os.MkdirAll(s.dir, 0o700) }

func (s *Store) removeTemps() error {
	entries, err := os.ReadDir(s.dir)
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), tempPrefix) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(s.dir, entry.Name())))
		}
	}
	return err
}

// tryWriting makes a file and removes it.
func (s *Store) tryWriting() error {
	f, err := s.createTemp()
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// createTemp returns a new file with mode 0600 that no record is named like.
func (s *Store) createTemp() (*os.File, error) { return os.CreateTemp(s.dir, tempPrefix+"*") }

// Put writes the record of a volume, replacing an earlier one in one step: after a crash the old or the new record is
// there, complete. A directory that somebody has removed since New is made again.
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
	err = s.replace(s.path(r.VolumeID), data)
	if errors.Is(err, fs.ErrNotExist) && s.makeDir() == nil {
		err = s.replace(s.path(r.VolumeID), data)
	}
	if err != nil {
		return fmt.Errorf("write the record of volume %s: %w", r.VolumeID, err)
	}
	return nil
}

// Ensure writes the record of a volume unless there is one already, whatever it says. With one it costs a look at the
// directory. Errors are those of [Store.Put].
func (s *Store) Ensure(r Record) error {
	if info, err := os.Lstat(s.path(r.VolumeID)); err == nil && info.Mode().IsRegular() {
		return nil
	}
	return s.Put(r)
}

// Delete removes the record of a volume. It is not an error when there is none.
func (s *Store) Delete(volumeID string) error {
	if err := os.Remove(s.path(volumeID)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the record of volume %s: %w", volumeID, err)
	}
	return nil
}

// List returns every readable record. One that is torn, of a later schema or no file at all does not hide the others: it
// stays on disk and is reported by a joined error beside the records.
func (s *Store) List() ([]Record, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, fmt.Errorf("list records: %w", err)
	}
	var records []Record
	var problems []error
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), tempPrefix) {
			continue // A Put is under way.
		}
		record, err := s.read(entry)
		switch {
		case errors.Is(err, fs.ErrNotExist): // Deleted since.
		case err != nil:
			problems = append(problems, err)
		default:
			records = append(records, record)
		}
	}
	return records, errors.Join(problems...)
}

func (s *Store) read(entry fs.DirEntry) (Record, error) {
	name := entry.Name()
	if !entry.Type().IsRegular() { // To open a pipe would wait for its writer.
		return Record{}, fmt.Errorf("read record %s: it is not a regular file (%s)", name, entry.Type())
	}
	data, err := os.ReadFile(filepath.Join(s.dir, name))
	if err != nil {
		return Record{}, fmt.Errorf("read record: %w", err)
	}
	var e envelope
	if err := json.Unmarshal(data, &e); err != nil {
		return Record{}, fmt.Errorf("read record %s: %w", name, err)
	}
	if e.SchemaVersion != schemaVersion {
		return Record{}, fmt.Errorf("read record %s: schema version %d is not %d; it was written by another version of the driver",
			name, e.SchemaVersion, schemaVersion)
	}
	if s.path(e.VolumeID) != filepath.Join(s.dir, name) {
		return Record{}, fmt.Errorf("read record %s: it names another volume", name)
	}
	return e.Record, nil
}

// path never contains a byte of the volume ID, which may hold anything.
func (s *Store) path(volumeID string) string {
	sum := sha256.Sum256([]byte(volumeID))
	return filepath.Join(s.dir, hex.EncodeToString(sum[:])+recordSuffix)
}

// replace writes data beside path and renames it there.
func (s *Store) replace(path string, data []byte) (err error) {
	f, err := s.createTemp()
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close(), os.Remove(f.Name()))
		}
	}()
	if _, err := f.Write(data); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return errors.Join(f.Close(), s.syncDir())
}

// syncDir makes the rename itself durable.
func (s *Store) syncDir() error {
	d, err := os.Open(s.dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
