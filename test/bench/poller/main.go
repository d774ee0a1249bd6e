// Command poller looks at a directory every second and sends a request when the content has changed, as a container does
// that charts put beside a program.
//
// It is a stand-in for prometheus-config-reloader at its best: without a pause after a change.
package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "poller:", err)
		os.Exit(1)
	}
}

// interval is the time between two looks at the directory. prometheus-config-reloader learns of a change from the kernel
// and then waits for --delay-interval, by default one second: on average a look each second is earlier.
const interval = time.Second

func run(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("poller", flag.ContinueOnError)
	dir := fs.String("dir", "", "the directory of the files")
	post := fs.String("post", "", "where the request goes")
	if err := fs.Parse(args); err != nil {
		return err
	}
	return reload(ctx, *dir, func(ctx context.Context) error { return send(ctx, *post) })
}

// complain logs an error. The next look is a new attempt.
func complain(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "poller:", err)
	}
}

// reload looks at the directory until the context ends. After an error it asks again at the next look.
func reload(ctx context.Context, dir string, ask func(context.Context) error) error {
	done, err := digest(dir)
	if err != nil {
		return err
	}
	for ticker := time.NewTicker(interval); ; {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
		now, err := digest(dir)
		if err != nil || now == done {
			complain(err)
			continue
		}
		if err := ask(ctx); err != nil {
			complain(err)
			continue
		}
		done = now
	}
}

func send(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		err = fmt.Errorf("the program answers %s", response.Status)
	}
	return errors.Join(err, response.Body.Close())
}

// digest is one of all files of a directory.
func digest(dir string) ([sha256.Size]byte, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return [sha256.Size]byte{}, err
	}
	all := sha256.New()
	for _, entry := range entries {
		text, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			return [sha256.Size]byte{}, err
		}
		_, _ = fmt.Fprintf(all, "%q %d\n%s", entry.Name(), len(text), text) // A hash takes all.
	}
	return [sha256.Size]byte(all.Sum(nil)), nil
}
