package volume

// UsedSources returns how many sources the manager holds users of.
func (m *Manager) UsedSources() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.users)
}
