// Package cli tests the plugin from outside: scripts run it by kubectl, as people do, against a real API server.
package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/liveconfig-csi/liveconfig/pkg/cli"
	"github.com/liveconfig-csi/liveconfig/test/kit/cluster"
	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
)

// program is the plugin as kubectl finds it in the PATH.
const program = "kubectl-liveconfig"

func TestMain(m *testing.M) {
	testscript.Main(cluster.MainFunc(func() int { return cluster.ForMain(m) }), map[string]func(){program: plugin})
}

// plugin does what the program's main does.
func plugin() {
	os.Exit(cli.Run(context.Background(), genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}, os.Args[1:]...))
}

// TestScripts runs each script of testdata/script in a separate namespace, which is the one of its kubeconfig and
// $NAMESPACE. $REPO is the checkout. `exec kubectl` is the real one, as is the API server; no controller and no node is there.
func TestScripts(t *testing.T) {
	t.Parallel()
	c := cluster.ForTest(t)
	repo, err := environment.Repo()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Kubectl(t.Context(), "apply", "-f", filepath.Join(repo, "deploy", "base", "csidriver.yaml")); err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       os.Getenv("LIVECONFIG_UPDATE") != "",
		Setup:               func(env *testscript.Env) error { return setup(t.Context(), env, c, repo) },
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":  command("exits STATUS PROGRAM ARGS...", 2, exits),
			"expand": command("expand FILE...", 1, expand),
			"mask":   command("mask stdout|stderr|FROM TO", 2, mask),
			"may":    command("may VERB KIND/NAME [-n NAMESPACE] [--as ACCOUNT]", 2, review(c.AwaitAccess)),
			"maynot": command("maynot VERB KIND/NAME [-n NAMESPACE] [--as ACCOUNT]", 2, review(c.AwaitDenial)),
		},
	})
}

// setup gives a script its namespace, kubeconfig, kubectl and a home.
func setup(ctx context.Context, env *testscript.Env, c *cluster.Cluster, repo string) error {
	namespace := "test-" + rand.String(8)
	if err := c.CreateNamespace(ctx, namespace); err != nil {
		return err
	}
	home := filepath.Join(env.WorkDir, ".tmp")
	kubeconfig := filepath.Join(home, "kubeconfig")
	if err := writeKubeconfig(c, kubeconfig, namespace); err != nil {
		return err
	}
	env.Setenv("GORACE", "atexit_sleep_ms=0") // The race detector delays each exit by a second.
	env.Setenv("HOME", home)
	env.Setenv("KUBECONFIG", kubeconfig)
	env.Setenv("NAMESPACE", namespace)
	env.Setenv("REPO", repo)
	env.Setenv("PATH", filepath.Join(repo, "bin", "k8s")+string(filepath.ListSeparator)+env.Getenv("PATH"))
	return nil
}

// writeKubeconfig writes one of a cluster administrator, with a namespace to work in.
func writeKubeconfig(c *cluster.Cluster, path, namespace string) error {
	if err := c.WriteAdminKubeconfig(path); err != nil {
		return err
	}
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		return err
	}
	config.Contexts[config.CurrentContext].Namespace = namespace
	return clientcmd.WriteToFile(*config, path)
}

// command makes a command of scripts, which cannot be negated and has at least so many arguments.
func command(
	usage string, atLeast int, run func(*testscript.TestScript, []string),
) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		if neg || len(args) < atLeast {
			ts.Fatalf("usage: %s", usage)
		}
		run(ts, args)
	}
}

// exits is `exits STATUS PROGRAM ARGS...`: the program ends with exactly this status. Exec knows only zero and others.
func exits(ts *testscript.TestScript, args []string) {
	got := "0"
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		got = strings.TrimPrefix(err.Error(), "exit status ")
	}
	if got != args[0] {
		ts.Fatalf("%s exits with %s, want %s", strings.Join(args[1:], " "), got, args[0])
	}
}

// expand is `expand FILE...`: $NAMESPACE in the files becomes the script's namespace.
func expand(ts *testscript.TestScript, args []string) {
	for _, file := range args {
		text := strings.ReplaceAll(ts.ReadFile(file), "$NAMESPACE", ts.Getenv("NAMESPACE"))
		ts.Check(os.WriteFile(ts.MkAbs(file), []byte(text), 0o600))
	}
}

// mask is `mask stdout|stderr|FROM TO`: a file to compare, in which the script's namespace is written as NAMESPACE.
func mask(ts *testscript.TestScript, args []string) {
	text := strings.ReplaceAll(ts.ReadFile(args[0]), ts.Getenv("NAMESPACE"), "NAMESPACE")
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(text), 0o600))
}
