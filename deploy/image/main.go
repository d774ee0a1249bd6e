// Command image builds the driver's container image without a container engine: the one that the Dockerfile describes,
// for several platforms, together with a list of what is in it. The same commit gives the same bytes.
//
// It writes, below --out:
//
//	oci/            an OCI layout: an index of one image per platform, and the list attached to it
//	docker.tar      one platform's image, as «docker load» and «ctr images import» take it
//	sbom.cdx.json   the list, as CycloneDX
//
// It does not know what the programs do, or how the driver is deployed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // A second signal kills.
	err := run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(0)
	case err != nil:
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// run prints the image's name and digest to stdout, and usage and what the compiler says to stderr.
func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error {
	cfg, err := parse(args, stderr)
	if err != nil {
		return err
	}
	r, err := makeResult(ctx, cfg, getenv("SOURCE_DATE_EPOCH"), stderr)
	if err != nil {
		return err
	}
	if err := r.write(cfg.out, cfg.tag); err != nil {
		return fmt.Errorf("write the image to %s: %w", cfg.out, err)
	}
	if cfg.push {
		if err := r.push(ctx, cfg.tag); err != nil {
			return fmt.Errorf("push %s: %w", cfg.tag, err)
		}
	}
	digest, err := r.index.Digest()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "%s %s %s\n", cfg.tag, digest, cfg.out)
	return err
}
