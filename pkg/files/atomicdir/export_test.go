package atomicdir

// WithHook returns a writer of the same kind that calls hook before every change it makes.
func WithHook(w Writer, hook func(op, name string) error) Writer {
	switch w := w.(type) {
	case Atomic:
		return Atomic{hook: hook, Grace: w.Grace, Differs: w.Differs}
	case Replace:
		return Replace{hook: hook}
	default:
		return InPlace{hook: hook}
	}
}
