package lockdown_test

// foreignCalls returns calls of another kind of programs that this machine may run. Those of 32 bits have another way
// into the kernel here, that Go programs do not have.
func foreignCalls() map[string]uintptr { return nil }
