package access_test

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/access"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/budget"
)

// TestEffects is the table of the package comment, and what differs for the driver's own identity.
func TestEffects(t *testing.T) {
	t.Parallel()
	denied := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "tls", nil)
	away, tooLarge := errors.New("connection refused"), &budget.ExhaustedError{}
	pod, driver := access.Of(api.Pod{Namespace: "team", ServiceAccount: "web"}), access.Driver()
	uses := []access.Use{{}, {IsLive: true}, {IsLive: true, FollowsLoss: true}}
	const serve, refuse, await, remove = access.Serve, access.Refuse, access.Await, access.Remove
	for name, test := range map[string]struct {
		evidence access.Evidence
		want     [3]access.Effect // New, live, and live with onDelete: Remove.
	}{
		"read":                                {access.Evidence{Identity: pod, WasRead: true}, [3]access.Effect{serve, serve, serve}},
		"read, then denied":                   {access.Evidence{Identity: pod, WasRead: true, Err: denied}, [3]access.Effect{refuse, serve, serve}},
		"read, then not readable":             {access.Evidence{Identity: pod, WasRead: true, Err: away}, [3]access.Effect{refuse, serve, serve}},
		"read, then too large":                {access.Evidence{Identity: pod, WasRead: true, Err: tooLarge}, [3]access.Effect{serve, serve, serve}},
		"denied at first":                     {access.Evidence{Identity: pod, Err: denied}, [3]access.Effect{refuse, await, await}},
		"not readable at first":               {access.Evidence{Identity: pod, Err: away}, [3]access.Effect{refuse, refuse, refuse}},
		"not answered yet":                    {access.Evidence{Identity: pod}, [3]access.Effect{refuse, refuse, refuse}},
		"read, then revoked":                  {access.Evidence{Identity: pod, WasRead: true, Revoked: true, Err: denied}, [3]access.Effect{refuse, serve, remove}},
		"revoked at first":                    {access.Evidence{Identity: pod, Revoked: true, Err: denied}, [3]access.Effect{refuse, refuse, remove}},
		"read by the driver, then denied":     {access.Evidence{Identity: driver, WasRead: true, Err: denied}, [3]access.Effect{refuse, serve, serve}},
		"read by the driver, then not at all": {access.Evidence{Identity: driver, WasRead: true, Err: away}, [3]access.Effect{serve, serve, serve}},
		"the driver denied at first":          {access.Evidence{Identity: driver, Err: denied}, [3]access.Effect{refuse, refuse, refuse}},
	} {
		for i, use := range uses {
			if got := test.evidence.EffectOn(use); got != test.want[i] {
				t.Errorf("%s: %s for %+v, want %s", name, got, use, test.want[i])
			}
		}
	}
}
