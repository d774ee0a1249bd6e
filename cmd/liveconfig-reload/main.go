// Command liveconfig-reload has the program beside it in a pod read its files again when they have
// changed, and reports whether the program works with them. It knows files alone, and nothing of
// Kubernetes.
package main

import (
	"context"
	"os"
)

func main() { os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr)) }
