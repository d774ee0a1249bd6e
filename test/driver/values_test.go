package driver

import (
	"os"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
)

// TestValuesInFiles are put in when the volume is published, and follow their objects; a name without a value keeps a new pod
// waiting, and a live one its files.
func TestValuesInFiles(t *testing.T) {
	t.Parallel()
	overOrigins(t, func(t *testing.T, b *rig) {
		t.Helper()
		b.CreateConfigMap("app", map[string]string{"app.json": `{"user": $(DB_user), "pod": $(POD), "region": $(REGION:-eu)}`})
		b.CreateConfigMap("db", map[string]string{"user": `a"b`})
		attributes := map[string]string{
			"sources": "[{configMap: {name: app, expand: {quote: json}}}]",
			"values":  "[{configMap: {name: db, prefix: DB_}}, {configMap: {name: region, items: [{key: name, path: REGION}], optional: true}}, {pod: {name: POD}}]",
		}
		one, two := b.Pod("one", attributes), b.Pod("two", attributes)
		b.Publish(one)
		b.Publish(two)
		want := func(user, region string) {
			t.Helper()
			user = environment.Marked(user)
			if region != "eu" {
				region = environment.Marked(region)
			}
			b.WantFile(one, "app.json", `{"user": "`+user+`", "pod": "one", "region": "`+region+`"}`)
			b.WantFile(two, "app.json", `{"user": "`+user+`", "pod": "two", "region": "`+region+`"}`)
		}
		want(`a\"b`, "eu")
		b.UpdateConfigMap("db", map[string]string{"user": "$(POD)"})
		want("$(POD)", "eu")
		b.CreateConfigMap("region", map[string]string{"name": "us"})
		want("$(POD)", "us")
		b.DeleteConfigMap("region")
		want("$(POD)", "eu")
		b.UpdateConfigMap("db", map[string]string{"other": "x"})
		for _, pod := range []*corev1.Pod{one, two} {
			b.WantEvent(pod, "SourceMissing", "line 1: no value is called DB_user")
		}
		b.WantRefusal(b.Pod("late", attributes), codes.FailedPrecondition, "line 1: no value is called DB_user")
		want("$(POD)", "eu")
		b.Kill()
		b.Start()
		want("$(POD)", "eu")
		b.UpdateConfigMap("db", map[string]string{"user": "new"})
		want("new", "eu")
	})
}

// TestSecretsInFiles can be read by nobody who may not read the volume's other files, and an edit of the Secret is in the file.
func TestSecretsInFiles(t *testing.T) {
	t.Parallel()
	overOrigins(t, func(t *testing.T, b *rig) {
		t.Helper()
		b.CreateConfigMap("app", map[string]string{"app.sh": "PASSWORD=$(PASSWORD|sh)"})
		b.SetSecret("db", map[string]string{"PASSWORD": "it's"})
		pod := b.Pod("app", map[string]string{
			"sources": "[{configMap: {name: app, items: [{key: app.sh, path: app.sh, mode: 0755, expand: {}}]}}]",
			"values":  "[{secret: {name: db}}]", "defaultMode": "0440",
		})
		b.Publish(pod)
		b.WantFile(pod, "app.sh", "PASSWORD='"+environment.Marked(`it'\''s`)+"'")
		info, err := os.Stat(b.Path(pod, "app.sh"))
		expect.NoError(t, err)
		if got := info.Mode().Perm(); got != 0o751 {
			t.Errorf("mode %o, want 751", got)
		}
		b.SetSecret("db", map[string]string{"PASSWORD": "new"})
		b.WantFile(pod, "app.sh", "PASSWORD='"+environment.Marked("new")+"'")
	})
}

// TestHostileValues: what is put in is never looked at again, whatever it looks like and however values name each other; and a file
// that would be larger than it may be is refused.
func TestHostileValues(t *testing.T) {
	t.Parallel()
	overOrigins(t, func(t *testing.T, b *rig) {
		t.Helper()
		b.CreateConfigMap("app", map[string]string{"plain": "$(A) $$(A) $(NONE:-$$) $(date +%s)", "quoted": "$(A|json) $(B|sh)"})
		b.CreateConfigMap("large", map[string]string{"file": strings.Repeat("$(LARGE)", 50)})
		b.CreateConfigMap("refs", map[string]string{"A": "$(B)${B}$$(B)", "B": "$(A|json)", "LARGE": strings.Repeat("x", 90_000)})
		of := func(name string) map[string]string {
			return map[string]string{"sources": "[{configMap: {name: " + name + ", expand: {}}}]", "values": "[{configMap: {name: refs}}]"}
		}
		pod := b.Pod("web", of("app"))
		b.Publish(pod)
		first, second := environment.Marked("$(B)${B}$$(B)"), environment.Marked("$(A|json)")
		b.WantFile(pod, "plain", first+" $(A) $$ $(date +%s)")
		b.WantFile(pod, "quoted", `"`+first+`" '`+second+`'`)
		b.WantRefusal(b.Pod("late", of("large")), codes.InvalidArgument, "more than 4 MiB")
		b.UpdateConfigMap("app", map[string]string{"plain": "$(B)", "quoted": "$$(B)"})
		b.WantFile(pod, "plain", second)
		b.WantFile(pod, "quoted", "$(B)")
	})
}
