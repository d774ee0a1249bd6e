package metrics_test

import (
	"strings"
	"testing"

	"github.com/liveconfig-csi/liveconfig/test/bench/metrics"
)

func TestSum(t *testing.T) {
	t.Parallel()
	const text = `# HELP events and more
events{resource="pods",verb="WATCH"} 1
events{resource="configmaps",verb="WATCH"} 2
events{resource="configmaps",verb="LIST"} 4
events_total{resource="configmaps"} 8
cpu 16.5
broken{resource="configmaps"} many
`
	tests := map[string]struct {
		name   string
		labels []string
		want   float64
		err    string
	}{
		"all of a name":                         {name: "events", want: 7},
		"those with a label":                    {name: "events", labels: []string{`resource="configmaps"`}, want: 6},
		"those with both labels":                {name: "events", labels: []string{`resource="configmaps"`, `verb="WATCH"`}, want: 2},
		"one without labels, by its whole name": {name: "cpu", want: 16.5},
		"a name that there is not":              {name: "event", err: "there is no metric event"},
		"a label that there is not":             {name: "events", labels: []string{`resource="secrets"`}, err: "there is no metric events"},
		"no number":                             {name: "broken", err: "invalid syntax"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := metrics.Sum(text, tt.name, tt.labels...)
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Fatalf("error = %v, want %q in it", err, tt.err)
			}
			if got != tt.want {
				t.Errorf("sum = %v, want %v", got, tt.want)
			}
		})
	}
}
