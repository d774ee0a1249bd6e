package source

// Get returns what is known about one object.
func (c *Cache) Get(key Key) Snapshot { return c.Look(key)[0] }
