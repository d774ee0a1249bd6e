package volume

import "time"

// What a publish takes of the room before it is known how large its files are.
const (
	BytesPerVolume  = bytesPerVolume
	BytesPerPublish = bytesPerPublish
)

// Age returns for how long the volume has been worked on.
func (m *Manager) Age(volumeID string) time.Duration { return m.stalls.age(volumeID, time.Now()) }

// UsedSources returns how many sources the manager holds users of.
func (m *Manager) UsedSources() int {
	m.registry.mu.Lock()
	defer m.registry.mu.Unlock()
	return len(m.registry.users)
}
