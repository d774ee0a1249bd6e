package cli

import (
	"context"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
)

// review is `may VERB secret/NAME [-n NAMESPACE]`: the service account shop of the script's namespace may do that. `maynot`
// is that it may not. The API server learns of Roles a moment after it has taken them, so both wait.
func review(
	await func(ctx context.Context, user string, action authorizationv1.ResourceAttributes) error,
) func(*testscript.TestScript, []string) {
	return func(ts *testscript.TestScript, args []string) {
		namespace := ts.Getenv("NAMESPACE")
		user := cluster.ServiceAccountUser(namespace, "shop")
		if len(args) == 4 && args[2] == "-n" {
			namespace = args[3]
		}
		kind, name, _ := strings.Cut(args[1], "/")
		ts.Check(await(context.Background(), user, authorizationv1.ResourceAttributes{
			Namespace: namespace, Verb: args[0], Version: "v1", Resource: kind + "s", Name: name,
		}))
	}
}
