package cli

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestCompletionLooksAtAllPages: a name is found wherever it is in a list that the API server gives in pieces.
func TestCompletionLooksAtAllPages(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, next := "first", "more"
		if r.URL.Query().Get("continue") == "more" {
			name, next = "second", ""
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList", "metadata": {"continue": %q},
			"items": [{"metadata": {"name": %q}}]}`, next, name)
	}))
	t.Cleanup(server.Close)
	for text, want := range map[string]string{"": "first\nsecond\n", "sec": "second\n"} {
		out, err := exec.CommandContext(t.Context(), program, "__complete", "set", "volume", "--server="+server.URL, "--configmap", text).Output()
		if got := strings.TrimSuffix(string(out), ":4\n"); err != nil || got != want {
			t.Errorf("completions of %q are %q (%v), want %q", text, got, err, want)
		}
	}
}

// TestCompletionGivesUp: a shell is not held up by a server that takes requests and never answers.
func TestCompletionGivesUp(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(server.Close)
	for name, words := range map[string][]string{
		"names":     {"rollout", "undo", "deployment/"},
		"revisions": {"rollout", "undo", "deployment/web", "--to-revision", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // What gives up does so after five.
			defer cancel()
			command := exec.CommandContext(ctx, program, append([]string{"__complete", "--server=" + server.URL}, words...)...)
			command.Env = append(os.Environ(), "HOME="+t.TempDir(), "KUBECONFIG=")
			if out, err := command.Output(); err != nil || string(out) != ":4\n" {
				t.Errorf("it prints %q and ends with %v, want no completions", out, err)
			}
		})
	}
}
