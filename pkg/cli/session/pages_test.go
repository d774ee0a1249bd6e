package session_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/session"
)

// TestPages: every page is read once with the selector, up to the last one or the first error.
func TestPages(t *testing.T) {
	t.Parallel()
	errBroken := errors.New("broken")
	for name, test := range map[string]struct {
		broken string
		want   []string
		err    error
	}{
		"all":         {want: []string{"", "second", "third"}},
		"to an error": {broken: "second", want: []string{"", "second"}, err: errBroken},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			next := map[string]string{"": "second", "second": "third"}
			var read []string
			err := session.Pages(metav1.ListOptions{LabelSelector: "app=web"}, func(o metav1.ListOptions) (metav1.ListInterface, error) {
				read = append(read, o.Continue)
				if o.LabelSelector != "app=web" || o.Limit == 0 {
					t.Errorf("a page is asked for with %+v, want the selector and a limit", o)
				}
				if test.broken != "" && o.Continue == test.broken {
					return nil, errBroken
				}
				return &metav1.ListMeta{Continue: next[o.Continue]}, nil
			})
			if diff := cmp.Diff(test.want, read); diff != "" || !errors.Is(err, test.err) {
				t.Errorf("Pages = %v, want %v; read (-want +got):\n%s", err, test.err, diff)
			}
		})
	}
}
