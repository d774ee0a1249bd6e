package cli

import (
	"context"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
)

// review is `may VERB secret/NAME [-n NAMESPACE] [--as ACCOUNT]`: a service account of the script's namespace, which is shop
// by default, may do that. `maynot` is that it may not. The API server learns of Roles a moment after it has taken them,
// so both wait.
func review(
	await func(ctx context.Context, user string, action authorizationv1.ResourceAttributes) error,
) func(*testscript.TestScript, []string) {
	return func(ts *testscript.TestScript, args []string) {
		namespace := ts.Getenv("NAMESPACE")
		user := cluster.ServiceAccountUser(namespace, "shop")
		for flags := args[2:]; len(flags) > 0; flags = flags[2:] {
			switch {
			case len(flags) > 1 && flags[0] == "-n":
				namespace = flags[1]
			case len(flags) > 1 && flags[0] == "--as":
				user = cluster.ServiceAccountUser(ts.Getenv("NAMESPACE"), flags[1])
			default:
				ts.Fatalf("flags are -n NAMESPACE and --as ACCOUNT, and not %q", flags)
			}
		}
		kind, name, _ := strings.Cut(args[1], "/")
		ts.Check(await(context.Background(), user, authorizationv1.ResourceAttributes{
			Namespace: namespace, Verb: args[0], Version: "v1", Resource: kind + "s", Name: name,
		}))
	}
}
