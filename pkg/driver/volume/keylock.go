package volume

import "sync"

// keyLock lets one caller at a time work on a key. A free key costs nothing. The zero value is ready.
type keyLock struct {
	mu     sync.Mutex // Guards locked.
	locked map[string]bool
}

// TryLock locks the key, or reports that another caller has locked it.
func (l *keyLock) TryLock(key string) (unlock func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.locked[key] {
		return nil, false
	}
	if l.locked == nil {
		l.locked = map[string]bool{}
	}
	l.locked[key] = true
	return func() { l.unlock(key) }, true
}

func (l *keyLock) unlock(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.locked, key)
}
