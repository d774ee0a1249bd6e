package driver

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
)

// wantRendered waits until a file holds the text, but for the marks around each value in it.
func (b *rig) wantRendered(pod *corev1.Pod, file, want string) {
	b.T.Helper()
	environment.Eventually(b.T, soon, func() error {
		got, err := os.ReadFile(b.Path(pod, file))
		if text := strings.ReplaceAll(string(got), environment.Mark, ""); err == nil && text != want {
			err = fmt.Errorf("%s holds %q, want %q", file, text, want)
		}
		return err
	})
}

// TestAFileOfAllKeysOnALiveVolume: an edit is in the file at once and whole, in each layout, and a shell that reads the file
// has the values.
func TestAFileOfAllKeysOnALiveVolume(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"Atomic", "Replace", "InPlace"} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			b := newRig(t)
			name := "app-" + strings.ToLower(policy)
			b.CreateConfigMap(name, map[string]string{"COLOR": "red", "GREETING": "it's\n\"you\" $HOME"})
			b.SetSecret(name, map[string]string{"log.level": "debug", "token": "t=1 #2"})
			pod := b.Pod(name, map[string]string{"updatePolicy": policy, "sources": `
- configMap: {name: ` + name + `, as: {path: conf/app.env, format: dotenv, mode: 0440}}
- secret:
    name: ` + name + `
    items: [{key: log.level, path: LOG_LEVEL}, {key: token}]
    as: {path: secret.json, format: json, mode: 0400}
- configMap: {name: none, optional: true, as: {path: none.yaml, format: yaml}}`})
			b.Publish(pod)
			b.wantRendered(pod, "conf/app.env", "COLOR='red'\nGREETING='it'\\''s\n\"you\" $HOME'\n")
			b.wantRendered(pod, "secret.json", "{\n  \"LOG_LEVEL\": \"debug\",\n  \"token\": \"t=1 #2\"\n}\n")
			b.WantNoFile(pod, "none.yaml")
			for file, want := range map[string]os.FileMode{"conf/app.env": 0o440, "secret.json": 0o400} {
				if info, err := os.Stat(b.Path(pod, file)); err != nil || info.Mode() != want {
					t.Errorf("%s: mode %v (%v), want %v", file, info.Mode(), err, want)
				}
			}
			b.UpdateConfigMap(name, map[string]string{"COLOR": "green", "SHAPE": "round"})
			b.wantRendered(pod, "conf/app.env", "COLOR='green'\nSHAPE='round'\n")
			b.wantRendered(pod, "secret.json", "{\n  \"LOG_LEVEL\": \"debug\",\n  \"token\": \"t=1 #2\"\n}\n")
			if got, want := sourced(t, b.Path(pod, "conf/app.env"), "$COLOR $SHAPE"), "green round"; got != want {
				t.Errorf("a shell reads %q, want %q", got, want)
			}
		})
	}
}

// sourced has a shell read the file, and returns what it then makes of the words.
func sourced(t *testing.T, file, words string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "sh", "-euc", `. "$0"; printf %s "`+words+`"`, file).CombinedOutput()
	if err != nil {
		t.Fatalf("sh: %v\n%s", err, out)
	}
	return strings.ReplaceAll(string(out), environment.Mark, "")
}
