package manifestsource

import "github.com/liveconfig-csi/liveconfig/pkg/driver/source"

// Get returns what is known about one object.
func (c *Directory) Get(key source.Key) source.Snapshot { return c.Look(key)[0] }
