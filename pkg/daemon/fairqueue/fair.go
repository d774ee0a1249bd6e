// Package fairqueue shares work among tenants: each has its own line, and the lines take turns.
// However much one of them asks for, another one's next piece of work waits for at most one of
// each.
//
// It does not know the work or the tenants.
package fairqueue

import "slices"

// lines are the tenants that wait, each with its pieces of work in the order in which they came.
// The zero value is empty.
type lines[T any] struct {
	waiting map[string][]T // None is empty.
	turns   []string       // Whose line is next, each once.
	count   int
}

// push puts a piece of work at the end of its tenant's line.
func (l *lines[T]) push(tenant string, item T) {
	if l.waiting == nil {
		l.waiting = map[string][]T{}
	}
	line, isWaiting := l.waiting[tenant]
	if !isWaiting {
		l.turns = append(l.turns, tenant)
	}
	l.waiting[tenant] = append(line, item)
	l.count++
}

// pop takes the first of the line whose turn it is; ok is false when nobody waits.
func (l *lines[T]) pop() (item T, ok bool) {
	_, item, ok = l.popOf(func(string) bool { return true })
	return item, ok
}

// popOf is pop among the tenants that may be next. The others keep their places.
func (l *lines[T]) popOf(mayBeNext func(tenant string) bool) (tenant string, item T, ok bool) {
	i := slices.IndexFunc(l.turns, mayBeNext)
	if i < 0 {
		return "", item, false
	}
	tenant = l.turns[i]
	if i == 0 {
		l.turns = l.turns[1:] // Without moving the others.
	} else {
		l.turns = slices.Delete(l.turns, i, i+1)
	}
	line := l.waiting[tenant]
	item = line[0]
	if len(line) == 1 {
		delete(l.waiting, tenant)
	} else {
		var none T
		line[0] = none
		l.waiting[tenant] = line[1:]
		l.turns = append(l.turns, tenant)
	}
	l.count--
	return tenant, item, true
}
