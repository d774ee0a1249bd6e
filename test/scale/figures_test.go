package scale

import (
	"net/http"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/liveconfig-csi/liveconfig/test/scale/fleet"
)

// moment is some seconds after an agreed one.
func moment(seconds float64) time.Time {
	return time.Unix(1_700_000_000, 0).Add(time.Duration(seconds * float64(time.Second)))
}

func TestHerdOf(t *testing.T) {
	t.Parallel()
	request := func(node int, verb fleet.Verb, sent float64, code int) fleet.Request {
		return fleet.Request{Node: node, Verb: verb, Sent: moment(sent), Answered: moment(sent + 0.25), Code: code}
	}
	before := []fleet.Request{request(1, fleet.Watch, 0, http.StatusOK), request(1, fleet.List, 1, 0)} // The first one was before the kill.
	tests := map[string]struct {
		requests []fleet.Request
		want     herd
	}{
		"a node is back when its last watch is open": {
			append(before, request(1, fleet.List, 4, 200), request(1, fleet.Watch, 5, 200), request(1, fleet.Watch, 6, 200), request(1, fleet.List, 9, 200)),
			herd{outage: 3250 * time.Millisecond, back: []int64{int64(2 * time.Second)}, answered: 4, refused: 1, peak: 1},
		},
		"nodes are counted each by itself": {
			append(before, request(1, fleet.Watch, 8, 200), request(2, fleet.Watch, 7, 200)),
			herd{outage: 5 * time.Second, back: []int64{int64(1250 * time.Millisecond), int64(2250 * time.Millisecond)}, answered: 2, refused: 1, peak: 1},
		},
		"refusals are distinguished, and open nothing": {
			append(before, request(1, fleet.Watch, 4, 403), request(1, fleet.Watch, 4.5, 429), request(1, fleet.Watch, 4.75, 200)),
			herd{outage: 4 * time.Second, back: []int64{0}, answered: 1, rejected: 1, failed: 1, refused: 1, peak: 3},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := herdOf(test.requests, moment(1), moment(6))
			if diff := gocmp.Diff(test.want, got, gocmp.AllowUnexported(herd{})); diff != "" {
				t.Errorf("herd (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMostWithin(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		seconds []float64
		want    int
	}{
		"none":                       {nil, 0},
		"far apart":                  {[]float64{1, 3, 5}, 1},
		"the end is not within":      {[]float64{1, 2, 3}, 1},
		"the fullest second, sorted": {[]float64{9, 0.2, 5.1, 0.1, 5, 5.9}, 3},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			moments := make([]time.Time, 0, len(test.seconds))
			for _, s := range test.seconds {
				moments = append(moments, moment(s))
			}
			if got := mostWithin(moments, time.Second); got != test.want {
				t.Errorf("mostWithin = %d, want %d", got, test.want)
			}
		})
	}
}

func TestTimesOfEdits(t *testing.T) {
	t.Parallel()
	saw := func(node int, value string, at float64) fleet.Sighting {
		return fleet.Sighting{Node: node, Object: fleet.Shared, Value: value + ".xxx", At: moment(at)}
	}
	made := []edit{{value: "1", answered: moment(1)}, {value: "2", answered: moment(2)}}
	e := edits{nodes: 2}
	err := e.time(made, []fleet.Sighting{saw(0, "1", 1.5), saw(1, "1", 1.25), saw(1, "2", 4), saw(0, "2", 1.75)})
	if err != nil {
		t.Fatal(err)
	}
	second := int64(time.Second)
	want := edits{
		nodes: 2, first: []int64{second / 4, -second / 4}, median: []int64{second / 4, -second / 4},
		p99: []int64{second / 2, 2 * second}, last: []int64{second / 2, 2 * second},
	}
	if diff := gocmp.Diff(want, e, gocmp.AllowUnexported(edits{}, usage{})); diff != "" {
		t.Errorf("times (-want +got):\n%s", diff)
	}
	if err := e.time(made, []fleet.Sighting{saw(0, "1", 1.5), saw(1, "1", 1.25), saw(0, "2", 2)}); err == nil {
		t.Error("no error although a node has not seen an edit")
	}
}

func TestSumOfMetrics(t *testing.T) {
	t.Parallel()
	const metrics = "# HELP open is open\nopen{kind=\"a\",verb=\"WATCH\"} 2\nopen{kind=\"a\",verb=\"LIST\"} 4\nopen{kind=\"b\"} 8\nopened 16\n"
	tests := map[string]struct {
		name   string
		labels []string
		want   float64
	}{
		"all of a name":        {"open", nil, 14},
		"those with the label": {"open", []string{`kind="a"`}, 6},
		"with all the labels":  {"open", []string{`kind="a"`, `verb="WATCH"`}, 2},
		"without labels":       {"opened", nil, 16},
		"nothing has happened": {"open", []string{`kind="c"`}, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, err := sum(metrics, test.name, test.labels...); err != nil || got != test.want {
				t.Errorf("sum = %g, %v, want %g", got, err, test.want)
			}
		})
	}
	if _, err := sum("open many\n", "open"); err == nil || !strings.Contains(err.Error(), "open many") {
		t.Errorf("error = %v, want the line that cannot be read", err)
	}
}
