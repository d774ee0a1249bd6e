// Package budget divides the memory of the driver's container, and limits how much of it volumes
// take.
//
// A [Budget] is a number of bytes that accounts share. A request that exceeds the budget fails.
// Bytes that are in use without a request count too: then the sum exceeds the limit, and every
// request fails until accounts have given enough back. [Memory] chooses how large the budget of the
// volumes is.
//
// It does not know how the bytes of an account are counted, or what an account belongs to.
package budget

import (
	"fmt"
	"slices"
	"sync"
)

// openShare of openParts is what holders that come new may have, with all others: see
// [Account.Open].
const (
	openShare = 3
	openParts = 4
)

// Budget is the whole. It is safe for concurrent use.
type Budget struct {
	limit int64

	mu   sync.Mutex // Guards the fields below, and those of all parts and accounts. Only observers are called under it.
	used int64      // The sum of all accounts. It exceeds limit only by what was forced.
	// waiting are the accounts that wait to be made larger, in the order in which they began to
	// wait. An account that was called back and waits again is the last.
	waiting []*Account
}

// New returns a budget of limit bytes, of which nothing is used.
func New(limit int64) *Budget { return &Budget{limit: limit} }

// Limit returns how many bytes there are.
func (b *Budget) Limit() int64 { return b.limit }

// Used returns how many bytes are taken. After [Account.Force] it may be more than there are.
func (b *Budget) Used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// Part is the accounts of one purpose. It has no separate limit.
type Part struct {
	whole   *Budget
	observe func(used int64)
	used    int64 // The sum of the part's accounts.
}

// Part returns a part without accounts. Observe is called after each change with the sum of its
// accounts, in the order of the changes. It must not block, nor use the budget.
func (b *Budget) Part(observe func(used int64)) *Part { return &Part{whole: b, observe: observe} }

// Account is what one holder has taken. It is safe for concurrent use.
type Account struct {
	part   *Part
	size   int64
	closed bool
	// want is how large it waits to be made within which limit, and retry what is called then; nil
	// while it does not wait.
	want, within int64
	retry        func()
}

// Account returns an empty account. Its holder closes it.
func (p *Part) Account() *Account { return &Account{part: p} }

// ExhaustedError means that an account cannot be made larger.
type ExhaustedError struct {
	// Want is how many bytes more were asked for, Free how many there are for that purpose, Used
	// how many are taken, and Limit how many there are in all.
	Want, Free, Used, Limit int64
	// IsNew means that the holder is new, for which [Account.Open] leaves a share of Limit out.
	IsNew bool
}

func (e *ExhaustedError) Error() string {
	const remedy = "; delete pods with large volumes, or raise the memory limit of the driver's container " +
		"(or --volume-memory, where it is set)"
	if e.IsNew {
		return fmt.Sprintf("the node's volumes have no room left for a new one: %s more are needed, %s are free; "+
			"new volumes may use three quarters of the %s, and %s are used: the rest is for changes of live volumes",
			mebi(e.Want), mebi(e.Free), mebi(e.Limit), mebi(e.Used)) + remedy
	}
	return fmt.Sprintf("the node's volumes have no room left: %s more are needed, %s of %s are free",
		mebi(e.Want), mebi(e.Free), mebi(e.Limit)) + remedy
}

// mebi returns a size as a person reads it.
func mebi(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// Resize makes the account n bytes large. To make it smaller is always possible. To make it larger
// is refused with an *[ExhaustedError], and changes nothing, when there is not enough.
func (a *Account) Resize(n int64) error { return a.resize(n, a.part.whole.limit) }

// Open is [Account.Resize] for a holder that comes new: a share of all is not for it, so that those
// before it can grow.
func (a *Account) Open(n int64) error { return a.resize(n, a.part.whole.openLimit()) }

func (b *Budget) openLimit() int64 { return b.limit / openParts * openShare }

func (a *Account) resize(n, limit int64) error {
	b := a.part.whole
	b.mu.Lock()
	more, free := n-a.size, max(0, limit-b.used)
	if more > 0 && more > free && !a.closed {
		used := b.used
		b.mu.Unlock()
		return &ExhaustedError{Want: more, Free: free, Used: used, Limit: b.limit, IsNew: limit < b.limit}
	}
	retries := a.setLocked(n)
	b.mu.Unlock()
	call(retries)
	return nil
}

// Force makes the account n bytes large whether there are as many or not: they are used already.
func (a *Account) Force(n int64) {
	b := a.part.whole
	b.mu.Lock()
	retries := a.setLocked(n)
	b.mu.Unlock()
	call(retries)
}

// Size returns how large the account is.
func (a *Account) Size() int64 {
	a.part.whole.mu.Lock()
	defer a.part.whole.mu.Unlock()
	return a.size
}

// Close gives everything back, and ends waiting. A closed account stays empty.
func (a *Account) Close() {
	b := a.part.whole
	b.mu.Lock()
	a.stopWaitingLocked()
	retries := a.setLocked(0)
	a.closed = true
	b.mu.Unlock()
	call(retries)
}

// setLocked makes the account n bytes large and returns what is to be called because of it. The
// whole's lock is held.
func (a *Account) setLocked(n int64) (retries []func()) {
	if a.closed || n == a.size {
		return nil
	}
	p, b := a.part, a.part.whole
	more := n - a.size
	a.size += more
	p.used += more
	b.used += more
	p.observe(p.used)
	if more > 0 {
		return nil
	}
	return b.wakeLocked()
}

// WhenRoom has retry called once, when the account can probably be made n bytes large: at once, or
// after others have become smaller. It takes the place of an earlier retry that was not called yet,
// also in the line, and holds nothing back: somebody else may be faster. Retry must not block. One
// that is about to be called when the account is closed still is.
func (a *Account) WhenRoom(n int64, retry func()) { a.when(n, a.part.whole.limit, retry) }

// WhenOpen is [Account.WhenRoom] for what [Account.Open] has refused.
func (a *Account) WhenOpen(n int64, retry func()) { a.when(n, a.part.whole.openLimit(), retry) }

func (a *Account) when(n, limit int64, retry func()) {
	b := a.part.whole
	b.mu.Lock()
	if !a.closed {
		if a.retry == nil {
			b.waiting = append(b.waiting, a)
		}
		a.want, a.within, a.retry = n, limit, retry
	}
	retries := b.wakeLocked()
	b.mu.Unlock()
	call(retries)
}

func (a *Account) stopWaitingLocked() {
	a.retry = nil
	b := a.part.whole
	b.waiting = slices.DeleteFunc(b.waiting, func(other *Account) bool { return other == a })
}

// wakeLocked ends the waiting of as many as there is room for, and returns what is to be called.
// Anything that does not fit is passed over. The lock is held.
func (b *Budget) wakeLocked() (retries []func()) {
	used := b.used
	b.waiting = slices.DeleteFunc(b.waiting, func(a *Account) bool {
		if more := a.want - a.size; more <= a.within-used {
			used += max(0, more)
			retries = append(retries, a.retry)
			a.retry = nil
		}
		return a.retry == nil
	})
	return retries
}

func call(retries []func()) {
	for _, retry := range retries {
		retry()
	}
}
