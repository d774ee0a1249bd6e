package atomicdir

// WithHook returns a writer of the same kind that calls hook before every change it makes.
func WithHook(w Writer, hook func(op, name string) error) Writer {
	switch w := w.(type) {
	case Atomic:
		w.hook = hook
		return w
	case Replace:
		w.hook = hook
		return w
	default:
		return InPlace{hook: hook}
	}
}
