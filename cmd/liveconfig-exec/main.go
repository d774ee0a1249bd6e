// Command liveconfig-exec starts a program with environment variables from the files of volumes,
// and follows their changes. It knows files alone, and nothing of Kubernetes.
package main

import (
	"context"
	"os"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}
