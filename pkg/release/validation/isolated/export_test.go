package isolated

// What the tests use.
var (
	Confine = confine
	Serve   = serve
	DeathOf = deathOf
	// CheckWithin is Check with another limit of time. That of processor time stays.
	CheckWithin = (*Checker).checkWithin
)

// MostTime is the limit of Check.
const MostTime = mostTime
