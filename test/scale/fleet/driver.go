package fleet

import (
	"context"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/budget"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/flowcontrol"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/source"
)

const (
	// largeAnswers is how many a driver reads at a time.
	largeAnswers = 4
	// recheck is the driver's default.
	recheck = 2 * time.Minute
)

// acquire has the driver's source layer watch objects, as the driver is put together.
func (n *node) acquire(config *rest.Config, refs []api.Ref) error {
	config.Wrap(n.watched) // What waits for its turn is not sent yet.
	config.Wrap(flowcontrol.New(largeAnswers).Transport)
	var sources *source.Cache
	changed := func(key source.Key) {
		if s := sources.Get(key); s.Found {
			n.saw(key.Ref.Name, string(s.Content.Data[Key]))
		}
	}
	sources, err := n.newCache(config, changed)
	if err != nil {
		return err
	}
	c := n.crowd
	c.wg.Go(func() { _ = sources.Run(c.ctx) }) // It always returns nil.
	for _, ref := range refs {
		release, err := sources.Acquire(source.Key{Identity: access.Driver(), Ref: ref})
		if err != nil {
			return err
		}
		c.closers = append(c.closers, release)
	}
	return nil
}

// newCache is all that depends on how a cache is made.
func (n *node) newCache(config *rest.Config, changed func(source.Key)) (*source.Cache, error) {
	types := n.crowd.types
	transport, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	client, err := types.Client(config, transport, corev1.SchemeGroupVersion)
	if err != nil {
		return nil, err
	}
	return source.New(source.Config{
		Client:  func(access.Identity) (rest.Interface, error) { return client, nil },
		Types:   types,
		Allow:   func(context.Context, access.Identity, api.Ref) error { return nil },
		Denies:  func(context.Context, access.Identity, api.Ref) (bool, error) { return false, nil },
		Changed: changed,
		Recheck: recheck,
		Room:    budget.New(math.MaxInt64 / 2).Part(func(int64) {}),
	}), nil
}
