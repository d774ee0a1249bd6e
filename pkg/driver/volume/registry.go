package volume

import "fmt"

// register makes the volume known, so that no change of a source it acquires afterwards is missed. It is refused when
// the target is another volume's.
func (m *Manager) register(v *volume) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	id, target := v.record.VolumeID, v.record.TargetPath
	if holder, ok := m.targets[target]; ok && holder != id {
		return refuse("publish", id, Different, "volume %s is already published on %s", holder, target)
	}
	m.targets[target] = id
	m.volumes[id] = v
	for _, key := range v.keys {
		if m.users[key] == nil {
			m.users[key] = map[string]*volume{}
		}
		m.users[key][id] = v
	}
	return nil
}

// isOthers reports whether the target is that of another volume than the one named.
func (m *Manager) isOthers(target, volumeID string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	holder, ok := m.targets[target]
	return ok && holder != volumeID
}

// acquire becomes a user of every source of the volume.
func (m *Manager) acquire(v *volume) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, key := range v.keys {
		release, err := m.cfg.Sources.Acquire(key)
		if err != nil {
			v.dropSources()
			return fmt.Errorf("watch the sources: %w", err)
		}
		v.release = append(v.release, release)
	}
	return nil
}

// forget undoes register and acquire. A sync that is under way ends first; one that comes later does nothing.
func (m *Manager) forget(v *volume) {
	v.mu.Lock()
	v.gone.Store(true)
	v.dropSources()
	_ = v.dropView() // A handle: nothing that was written waits to be.
	v.mu.Unlock()
	v.account.Close()

	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.volumes, v.record.VolumeID)
	delete(m.targets, v.record.TargetPath)
	for _, key := range v.keys {
		delete(m.users[key], v.record.VolumeID)
		if len(m.users[key]) == 0 {
			delete(m.users, key)
		}
	}
}
