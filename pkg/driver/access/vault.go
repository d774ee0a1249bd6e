package access

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

// ErrNoToken is why a pod's credentials cannot be used: there is no token, or all tokens look expired and were refused.
var ErrNoToken = errors.New("no valid token is held")

// Files keeps small secrets over restarts of the driver, by ID. It must be safe for concurrent use.
type Files interface {
	Put(id string, data []byte) error
	Delete(id string) error
	// Has tells whether an ID is kept. It costs little.
	Has(id string) bool
	// List returns everything that can be read, and an error for what cannot.
	List() ([][]byte, error)
}

// Vault holds the tokens that pods' volumes came with. A token dies with the pod that it is bound to, so each is held as
// long as its volume, and of those of one service account that the API server has not refused the one that lives longest
// counts.
type Vault struct {
	files Files
	now   func() time.Time

	mu   sync.Mutex // Guards held.
	held map[string]entry
}

// entry is what is held for one volume.
type entry struct {
	identity Identity
	token    Token
	// refused is when the API server last refused the token; zero for never. It may be wrong, so the token stays, as the
	// last choice.
	refused time.Time
}

// NewVault returns an empty vault that keeps what it holds in files.
func NewVault(files Files) *Vault {
	return &Vault{files: files, now: time.Now, held: map[string]entry{}}
}

// stored is an entry as it stands on disk: the one place a token is written to, which only root can read and which is
// empty after a reboot.
type stored struct {
	VolumeID       string    `json:"volumeID"`
	Namespace      string    `json:"namespace"`
	ServiceAccount string    `json:"serviceAccount"`
	Token          string    `json:"token"`
	Expires        time.Time `json:"expires"`
}

// Load takes back what an earlier run of the driver held. What cannot be read is reported and left out: the kubelet brings
// it again.
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
		v.held[s.VolumeID] = entry{
			identity: Identity{Namespace: s.Namespace, ServiceAccount: s.ServiceAccount}, token: NewToken(s.Token, s.Expires),
		}
	}
	if err != nil {
		return fmt.Errorf("read the tokens of an earlier run: %w", err)
	}
	return nil
}

// Keep holds the token that a volume of the pod came with, in place of an earlier one. No token changes nothing, and one
// that is held already is written only if its file is gone. When it cannot be written it is held all the same, and only the
// next run of the driver would miss it.
func (v *Vault) Keep(volumeID string, pod api.Pod, t Token) error {
	if t.IsZero() || !v.hold(volumeID, entry{identity: Of(pod), token: t}) && v.files.Has(volumeID) {
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

// hold reports whether the entry is news.
func (v *Vault) hold(volumeID string, e entry) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if held := v.held[volumeID]; held.identity == e.identity && held.token == e.token {
		return false
	}
	v.held[volumeID] = e
	return true
}

// Drop forgets what a volume came with.
func (v *Vault) Drop(volumeID string) error {
	v.mu.Lock()
	delete(v.held, volumeID)
	v.mu.Unlock()
	if err := v.files.Delete(volumeID); err != nil {
		return fmt.Errorf("remove the token of volume %s: %w", volumeID, err)
	}
	return nil
}

// Retain drops what is held for volumes that are not known.
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
	for id := range v.held {
		if !known(id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// token returns the token of an identity to use next, or an error that wraps [ErrNoToken].
func (v *Vault) token(id Identity) (Token, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	best := v.bestLocked(id)
	if best.token.IsZero() {
		return Token{}, v.whyNoneLocked(id)
	}
	return best.token, nil
}

// bestLocked returns the identity's token that lives longest, of those that were never refused; or else the one that was
// refused longest ago, so that each has its turn. A token that looks expired may be valid, because the node's clock may be
// ahead: it is tried after the others. Once it was refused as well, it is not used any more. v.mu is held.
func (v *Vault) bestLocked(id Identity) entry {
	var best entry
	for _, e := range v.held {
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

// whyNoneLocked returns the error for an identity without a token that can be used. v.mu is held.
func (v *Vault) whyNoneLocked(id Identity) error {
	var newest Token
	for _, e := range v.held {
		if e.identity == id && (newest.IsZero() || e.token.expires.After(newest.expires)) {
			newest = e.token
		}
	}
	if newest.IsZero() {
		return fmt.Errorf("%w for %s; the kubelet brings one with each call if the CSIDriver object has "+
			`tokenRequests: [{audience: ""}]`, ErrNoToken, id)
	}
	return fmt.Errorf("%w for %s: the newest one looks expired by %s, and the API server has refused it; either the kubelet "+
		"brings no new ones (see requiresRepublish in the CSIDriver object), or its pod is gone and the clock of this node is ahead",
		ErrNoToken, id, v.now().Sub(newest.expires).Round(time.Second))
}

// passOver remembers that the API server has refused a token. It reports whether to ask [Vault.token] again: for another
// token, or for the error that no token can be used.
func (v *Vault) passOver(id Identity, t Token) (goOn bool) {
	v.mark(id, t, v.now())
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.bestLocked(id).refused.IsZero()
}

// accept remembers that the API server takes a token.
func (v *Vault) accept(id Identity, t Token) { v.mark(id, t, time.Time{}) }

func (v *Vault) mark(id Identity, t Token, refused time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for volumeID, e := range v.held {
		if e.identity == id && e.token == t {
			e.refused = refused
			v.held[volumeID] = e
		}
	}
}
