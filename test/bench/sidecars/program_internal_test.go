package sidecars

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestProgram: a request counts when the program has read the version that is waited for, or a later one, as a whole.
func TestProgram(t *testing.T) {
	t.Parallel()
	whole := func(version int) string {
		text := fmt.Sprintf("%0*d", versionDigits, version)
		return text + strings.Repeat("x", objectBytes-len(text))
	}
	for name, test := range map[string]struct {
		text   string
		status int
		isSeen bool
	}{
		"the version":           {whole(2), http.StatusOK, true},
		"a later one":           {whole(3), http.StatusOK, true},
		"an older one":          {whole(1), http.StatusOK, false},
		"half of a file":        {whole(2)[:objectBytes/2], http.StatusInternalServerError, false},
		"a file without number": {strings.Repeat("x", objectBytes), http.StatusInternalServerError, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &program{file: filepath.Join(t.TempDir(), editedKey)}
			if err := os.WriteFile(p.file, []byte(test.text), 0o600); err != nil {
				t.Fatal(err)
			}
			seen := p.expect(2)
			answer := httptest.NewRecorder()
			p.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", http.NoBody))
			if answer.Code != test.status {
				t.Errorf("the answer is %d, want %d", answer.Code, test.status)
			}
			ctx, cancel := context.WithCancel(t.Context())
			if !test.isSeen {
				cancel() // Nothing more will come.
			}
			defer cancel()
			if _, err := await(ctx, seen, patience); (err == nil) != test.isSeen {
				t.Errorf("await: %v, want it to be seen: %v", err, test.isSeen)
			}
		})
	}
}
