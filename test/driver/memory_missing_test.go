package driver

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/liveconfig-csi/liveconfig/test/kit/fixture"
)

// TestManySourcesThatDoNotExist cost nothing to name, and each is watched: fault 29. The text of one volume names more of
// them than a small driver could hold. Publishes are refused before anything is read, and others go on.
func TestManySourcesThatDoNotExist(t *testing.T) {
	t.Parallel()
	b := newSmall(t, fixture.NewBare)
	b.CreateConfigMap("web", map[string]string{"n": "1"})
	live := b.Pod("live", map[string]string{"configMap": "web"})
	b.Publish(live)

	var sources strings.Builder
	for i := range 1400 {
		fmt.Fprintf(&sources, "- {configMap: {name: n%d,optional: true}}\n", i)
	}
	ctx, cancel := context.WithTimeout(t.Context(), atLength)
	defer cancel()
	var g errgroup.Group
	for i := range 5 {
		pod := b.Pod(fmt.Sprintf("greedy-%d", i), map[string]string{"sources": sources.String()})
		g.Go(func() error {
			err := b.TryPublish(ctx, pod)
			if status.Code(err) != codes.ResourceExhausted {
				b.Unpublish(pod)
				return fmt.Errorf("want ResourceExhausted, got: %w", err)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	b.WantNumber("liveconfig_watches", 1)
	b.UpdateConfigMap("web", map[string]string{"n": "2"})
	b.WantFile(live, "n", "2")
}
