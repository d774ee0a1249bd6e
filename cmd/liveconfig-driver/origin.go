package main

import (
	"context"

	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/api/identity"
	"github.com/liveconfig-csi/liveconfig/pkg/api/statusz"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/logkeys"
	"github.com/liveconfig-csi/liveconfig/pkg/daemon/telemetry"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/budget"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/csidriver"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/flowcontrol"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/manifestsource"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/nodeserver"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/source"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/volume"
)

// origin is where ConfigMaps and Secrets come from, with everything that is another thing where
// that is another place.
type origin struct {
	sources   volume.Sources
	authority volume.Authority
	tokens    volume.Tokens
	events    eventWriter
	// installation vouches for the pods of requests.
	installation nodeserver.Installation
	// run are the parts that run as long as the driver.
	run []func(context.Context) error
	// gauges adds what metrics show of the origin.
	gauges func(*telemetry.Gauges)
	// manifests returns what the status shows of the manifests; nil for an API server.
	manifests func() *statusz.Manifests
}

// eventWriter shows Events to the users of pods.
type eventWriter interface {
	Write(telemetry.Event)
	// Start begins to show what is written, until ctx ends. Run ends with that.
	Start(ctx context.Context)
	Run(ctx context.Context) error
}

// newOrigin returns the one that the flags name.
func newOrigin(cfg config, memory *budget.Memory, changed func(source.Key)) (*origin, error) {
	vault, err := newVault(cfg)
	if err != nil {
		return nil, err
	}
	if cfg.manifests != "" {
		return manifestsOrigin(cfg, memory, vault, changed)
	}
	return clusterOrigin(cfg, memory, vault, changed)
}

// clusterOrigin is the API server.
func clusterOrigin(cfg config, memory *budget.Memory, vault *access.Vault, changed func(source.Key)) (*origin, error) {
	apiServer, client, err := newClients(cfg, flowcontrol.New(memory.LargeAnswers()))
	if err != nil {
		return nil, err
	}
	authority, err := access.New(access.Config{
		Types: client.types, Driver: client.core, Reviews: client.reviews, Server: apiServer, Vault: vault,
		Readers: identity.Readers{
			ConfigMaps: identity.Reader(cfg.configMapIdentity), Secrets: identity.Reader(cfg.secretIdentity),
		},
	})
	if err != nil {
		return nil, err
	}
	sources := source.New(source.Config{
		Types: client.types, Client: authority.Client, Allow: authority.Allow, Denies: authority.Denies,
		Changed: changed, Recheck: cfg.recheckInterval, Room: memory.Objects,
	})
	events := telemetry.NewEvents(client.core, cfg.driverName, cfg.nodeID)
	installation := csidriver.New(client.storage, client.types, cfg.driverName)
	return &origin{
		sources: sources, authority: authority, tokens: vault, events: events, installation: installation,
		run: []func(context.Context) error{
			// Publishes wait for it.
			func(ctx context.Context) error { return installation.Run(flowcontrol.In(ctx, flowcontrol.Awaited)) },
			sources.Run,
		},
		gauges: func(g *telemetry.Gauges) {
			g.Watches, g.Polled, g.Silence, g.Replaced = sources.Watches, sources.Polled, sources.Silence, sources.Replaced
			g.EventsDropped = events.Dropped
		},
		manifests: func() *statusz.Manifests { return nil },
	}, nil
}

// manifestsOrigin is a directory of manifests. There are no tokens, and the driver believes what
// requests claim about pods.
func manifestsOrigin(
	cfg config, memory *budget.Memory, vault *access.Vault, changed func(source.Key),
) (*origin, error) {
	klog.Background().Info("ConfigMaps and Secrets are read from manifests, and no API server is asked: this is "+
		"for trying out, for tests and for machines without a cluster", logkeys.Directory, cfg.manifests)
	dir, err := manifestsource.New(manifestsource.Config{Dir: cfg.manifests, Changed: changed, Room: memory.Objects})
	if err != nil {
		return nil, err
	}
	return &origin{
		sources: dir, authority: dir, tokens: noNewTokens{vault}, events: telemetry.NewLoggedEvents(klog.Background()),
		installation: anyPod{},
		run:          []func(context.Context) error{dir.Run},
		gauges:       func(g *telemetry.Gauges) { g.ManifestProblems = func() int { return len(dir.Problems()) } },
		manifests:    func() *statusz.Manifests { return statusOf(cfg.manifests, dir) },
	}, nil
}

// noNewTokens drops the tokens of an earlier run with their volumes, and takes no other ones.
type noNewTokens struct{ *access.Vault }

// Store stores nothing.
func (noNewTokens) Store(string, api.Pod, access.Token) error { return nil }

// anyPod is for a driver without an API server, in which a CSIDriver object could vouch for pods.
type anyPod struct{}

// Check finds nothing wrong.
func (anyPod) Check(context.Context) error { return nil }

func statusOf(name string, dir *manifestsource.Directory) *statusz.Manifests {
	s := &statusz.Manifests{Directory: name, Objects: dir.Objects(), Problems: []statusz.ManifestProblem{}}
	for _, p := range dir.Problems() {
		s.Problems = append(s.Problems, statusz.ManifestProblem{
			File: p.Place.File, Document: p.Place.Document, Line: p.Place.Line, Message: p.Message,
		})
	}
	return s
}

// start starts what runs as long as the driver.
func (o *origin) start(ctx context.Context, g *errgroup.Group) {
	for _, run := range append(o.run, o.events.Run) {
		g.Go(func() error { return run(ctx) })
	}
}
