package memory

import (
	"context"
	"errors"

	"github.com/liveconfig-csi/liveconfig/test/bench/driver"
	"github.com/liveconfig-csi/liveconfig/test/kit/proc"
)

// kind is a way of holding objects.
type kind string

// The kinds.
const (
	objects    kind = "objects"
	volumes    kind = "volumes"
	reflectors kind = "reflectors"
	informer   kind = "informer"
)

func kinds() []kind { return []kind{objects, volumes, reflectors, informer} }

func (k kind) name() string {
	return map[kind]string{
		objects:    "liveconfig, objects with a volume each",
		volumes:    "liveconfig, volumes of one object",
		reflectors: "a reflector for each object",
		informer:   "an informer for the namespace",
	}[k]
}

// runs are as many as wanted for what targets are about, and else one.
func (k kind) runs(wanted int) int {
	if k == objects || k == reflectors {
		return wanted
	}
	return 1
}

// figures are what there is to know of a process.
type figures struct {
	proc.Memory

	heap, stacks, goroutines float64
}

// holder is a program that holds objects.
type holder interface {
	// hold returns when it holds so many.
	hold(ctx context.Context, n int) error
	look(ctx context.Context) (figures, error)
	close(ctx context.Context) error
}

// subject is a program that is measured.
type subject struct {
	holder

	kind  kind
	count int       // Of objects, or of volumes.
	found []figures // One for each look.
}

// driverUser is whom the API server takes the drivers for: what they ask for is not what the driver on the node asks for.
const driverUser = "bench-memory"

// startHolder starts a program that holds objects of a namespace.
func (b *bench) startHolder(ctx context.Context, k kind, namespace string) (holder, error) {
	if k == reflectors || k == informer {
		return startPeer(ctx, b.cfg.Site, namespace, k)
	}
	d, err := driver.StartAs(ctx, b.cfg.Site, driverUser)
	if err != nil {
		return nil, err
	}
	return &published{driver: d, namespace: namespace, kind: k}, nil
}

// filesOfAVolume returns what the file system of a volume has in memory.
func (b *bench) filesOfAVolume() (int64, error) {
	for _, s := range b.subjects {
		if p, ok := s.holder.(*published); ok {
			return p.files()
		}
	}
	return 0, errors.New("there is no volume")
}
