package isolated

// What the tests use.
var (
	Confine = confine
	Serve   = serve
)
