package identity_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/identity"
)

var tomorrow = time.Date(2126, 1, 2, 3, 4, 5, 0, time.UTC)

func TestParseTokens(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		text string
		want identity.Token
		err  string
	}{
		"nothing": {},
		"one for the API server": {
			text: `{"": {"token": "hunter2", "expirationTimestamp": "2126-01-02T03:04:05Z"}, "vault": {"token": "other"}}`,
			want: identity.NewToken("hunter2", tomorrow),
		},
		"none for the API server": {
			text: `{"vault": {"token": "hunter2"}}`, err: `the kubelet sent tokens, but none for the audience ""`,
		},
		"an empty one":   {text: `{"": {"token": ""}}`, err: `the kubelet sent tokens, but none for the audience ""`},
		"half of a text": {text: `{"": {"token": "hunter2`, err: "the kubelet's tokens are not a JSON object by audience"},
		"another shape":  {text: `{"": "hunter2"}`, err: "the kubelet's tokens are not a JSON object by audience"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := identity.ParseTokens(tt.text)
			if got != tt.want {
				t.Errorf("ParseTokens = %v, want %v", got, tt.want)
			}
			if (err == nil) != (tt.err == "") || (err != nil && err.Error() != tt.err) {
				t.Errorf("ParseTokens = %v, want %q", err, tt.err)
			}
		})
	}
}

// TestATokenIsNeverShown has every way by which one could come into a log line or an error.
func TestATokenIsNeverShown(t *testing.T) {
	t.Parallel()
	token := identity.NewToken("hunter2", tomorrow)
	for _, v := range []any{token, &token, []identity.Token{token}, struct{ T identity.Token }{token}, map[string]identity.Token{"a": token}} {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		shown := []string{string(text)}
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			shown = append(shown, fmt.Sprintf(verb, v))
		}
		for _, s := range append(shown, fmt.Sprint(token.MarshalLog())) {
			for _, bad := range []string{"hunter2", "68756e74657232", "104 117 110"} {
				if strings.Contains(s, bad) {
					t.Errorf("%T shows the token: %s", v, s)
				}
			}
		}
	}
}
