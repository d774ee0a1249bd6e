package access

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/identity"
)

// ErrNoToken means that a pod's credentials cannot be used: there is no token, or all tokens look
// expired and were refused.
var ErrNoToken = errors.New("there is no valid token")

// Files stores small secrets by ID, also over restarts of the driver. It must be safe for
// concurrent use.
type Files interface {
	Put(id string, data []byte) error
	Delete(id string) error
	// Has reports whether there is a file for the ID. It is cheap.
	Has(id string) bool
	// List returns everything that can be read, and an error for what cannot.
	List() ([][]byte, error)
}

// Vault stores the tokens of pods' volumes. A token dies with its pod, so it is stored as long as
// its volume exists. Of the tokens of one service account that the API server has not refused,
// the one that expires last is used.
type Vault struct {
	files Files
	now   func() time.Time

	mu      sync.Mutex       // Guards entries.
	entries map[string]entry // By volume ID.
}

// entry is the token of one volume.
type entry struct {
	identity identity.Identity
	token    Token
	// refused is when the API server last refused the token; zero for never. The refusal may be a
	// mistake, so the token stays, as the last choice.
	refused time.Time
}

// NewVault returns an empty vault that also stores its tokens in files.
func NewVault(files Files) *Vault {
	return &Vault{files: files, now: time.Now, entries: map[string]entry{}}
}

// stored is an entry on disk. Only root can read the file, and it is gone after a reboot.
type stored struct {
	VolumeID       string    `json:"volumeID"`
	Namespace      string    `json:"namespace"`
	ServiceAccount string    `json:"serviceAccount"`
	Token          string    `json:"token"`
	Expires        time.Time `json:"expires"`
}

// Load reads the tokens of an earlier run of the driver. It reports and skips what it cannot
// read: the kubelet sends those tokens again.
func (v *Vault) Load() error {
	files, err := v.files.List()
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, data := range files {
		var s stored
		if json.Unmarshal(data, &s) != nil { // The error could quote a part of a token.
			err = errors.Join(err, errors.New("a file of a token is torn"))
			continue
		}
		v.entries[s.VolumeID] = entry{
			identity: identity.Identity{Namespace: s.Namespace, ServiceAccount: s.ServiceAccount},
			token:    NewToken(s.Token, s.Expires),
		}
	}
	if err != nil {
		return fmt.Errorf("read the tokens of an earlier run: %w", err)
	}
	return nil
}

// Store stores the token of a pod's volume instead of an earlier one. Without a token it changes
// nothing. A known token is written again only if its file is gone. If the file cannot be
// written, only the next run of the driver misses the token.
func (v *Vault) Store(volumeID string, pod api.Pod, t Token) error {
	if t.IsZero() || !v.add(volumeID, entry{identity: identity.Of(pod), token: t}) && v.files.Has(volumeID) {
		return nil
	}
	data, err := json.Marshal(stored{
		VolumeID: volumeID, Namespace: pod.Namespace, ServiceAccount: pod.ServiceAccount, Token: t.value, Expires: t.expires,
	})
	if err == nil {
		err = v.files.Put(volumeID, data)
	}
	if err != nil {
		return fmt.Errorf("write the token of volume %s: %w", volumeID, err)
	}
	return nil
}

// add stores the entry in memory, and reports whether it is new.
func (v *Vault) add(volumeID string, e entry) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if old := v.entries[volumeID]; old.identity == e.identity && old.token == e.token {
		return false
	}
	v.entries[volumeID] = e
	return true
}

// Drop removes the token of a volume.
func (v *Vault) Drop(volumeID string) error {
	v.mu.Lock()
	delete(v.entries, volumeID)
	v.mu.Unlock()
	if err := v.files.Delete(volumeID); err != nil {
		return fmt.Errorf("remove the token of volume %s: %w", volumeID, err)
	}
	return nil
}

// Retain removes the tokens of volumes that are not known.
func (v *Vault) Retain(known func(volumeID string) bool) error {
	var errs []error
	for _, id := range v.unknown(known) {
		errs = append(errs, v.Drop(id))
	}
	return errors.Join(errs...)
}

func (v *Vault) unknown(known func(volumeID string) bool) []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	var ids []string
	for id := range v.entries {
		if !known(id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// token returns the token of an identity to use next, or an error that wraps [ErrNoToken].
func (v *Vault) token(id identity.Identity) (Token, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	best := v.bestLocked(id)
	if best.token.IsZero() {
		return Token{}, v.whyNoneLocked(id)
	}
	return best.token, nil
}

// bestLocked returns the identity's token that expires last, of those that were never refused; or
// else the one that was refused first, so that each is tried again. A token that looks expired
// may be valid, because the node's clock may be ahead: it is tried after the others, and not
// after it was refused. v.mu is held.
func (v *Vault) bestLocked(id identity.Identity) entry {
	var best entry
	for _, e := range v.entries {
		if e.identity != id || !e.refused.IsZero() && v.looksExpired(e.token) {
			continue
		}
		isBetter := e.refused.Before(best.refused)
		if e.refused.Equal(best.refused) {
			isBetter = e.token.expires.After(best.token.expires)
		}
		if isBetter || best.token.IsZero() {
			best = e
		}
	}
	return best
}

func (v *Vault) looksExpired(t Token) bool { return !t.expires.After(v.now()) }

// whyNoneLocked returns the error for an identity without a usable token. v.mu is held.
func (v *Vault) whyNoneLocked(id identity.Identity) error {
	var newest Token
	for _, e := range v.entries {
		if e.identity == id && (newest.IsZero() || e.token.expires.After(newest.expires)) {
			newest = e.token
		}
	}
	if newest.IsZero() {
		return fmt.Errorf("%w for %s; the kubelet sends one with each call if the CSIDriver object has "+
			`tokenRequests: [{audience: ""}]`, ErrNoToken, id)
	}
	return fmt.Errorf("%w for %s: the newest one looks expired by %s, and the API server has refused it; "+
		"either the kubelet sends no new ones (see requiresRepublish in the CSIDriver object), or its pod is gone and the "+
		"clock of this node is ahead",
		ErrNoToken, id, v.now().Sub(newest.expires).Round(time.Second))
}

// refuse records that the API server has refused a token. It reports whether to call
// [Vault.token] again: for another token, or for the error that no token can be used.
func (v *Vault) refuse(id identity.Identity, t Token) (goOn bool) {
	v.mark(id, t, v.now())
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.bestLocked(id).refused.IsZero()
}

// accept records that the API server accepts a token.
func (v *Vault) accept(id identity.Identity, t Token) { v.mark(id, t, time.Time{}) }

func (v *Vault) mark(id identity.Identity, t Token, refused time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for volumeID, e := range v.entries {
		if e.identity == id && e.token == t {
			e.refused = refused
			v.entries[volumeID] = e
		}
	}
}
