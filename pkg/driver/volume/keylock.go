package volume

import "sync"

// keyLock lets one caller at a time work on a key. Keys cost nothing while nobody holds them. The zero value is ready.
type keyLock struct {
	mu   sync.Mutex // Guards held.
	held map[string]bool
}

// TryLock takes the key, or reports that somebody has it.
func (l *keyLock) TryLock(key string) (unlock func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held[key] {
		return nil, false
	}
	if l.held == nil {
		l.held = map[string]bool{}
	}
	l.held[key] = true
	return func() { l.unlock(key) }, true
}

func (l *keyLock) unlock(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, key)
}
