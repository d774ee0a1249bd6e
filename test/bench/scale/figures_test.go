package scale

import (
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/liveconfig-csi/liveconfig/test/bench/scale/fleet"
	"github.com/liveconfig-csi/liveconfig/test/kit/expect"
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
	expect.NoError(t, err)
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

// round are costs by which one can calculate in one's head.
func round() Costs {
	return Costs{
		Watch: 1000, EventBytes: 100, Bare: 4 * time.Millisecond, Sent: 100 * time.Microsecond, Relist: time.Millisecond, Told: 2 * time.Millisecond,
	}
}

func TestForecast(t *testing.T) {
	t.Parallel()
	large := Large{Nodes: 100, PodsPerNode: 10, ObjectsPerPod: 2, Processors: 4, StreamsPerConnection: 15}
	half := large
	half.Own = 0.5
	few := large
	few.Nodes, few.ObjectsPerPod = 10, 0.5
	calm := Client{Life: 1000 * time.Second, OwnLife: 100 * time.Second, Spread: 10 * time.Second}
	hasty, relisting, never := calm, calm, calm
	never.OwnLife = 0
	hasty.Spread = 100 * time.Millisecond
	relisting.Relist = 400 * time.Second
	tests := map[string]struct {
		large  Large
		client Client
		want   Forecast
	}{
		"each object of each pod is a watch": {large, calm, Forecast{
			Watches: 2000, Connections: 200, Memory: 2e6, Steady: 2,
			Herd: Herd{Requests: 4000, Processor: 2 * time.Second, Lasts: 10 * time.Second, Peak: 400},
		}},
		"nodes that all come at once wait for processors": {large, hasty, Forecast{
			Watches: 2000, Connections: 200, Memory: 2e6, Steady: 2,
			Herd: Herd{Requests: 4000, Processor: 2 * time.Second, Lasts: 500 * time.Millisecond, IsBusy: true, Peak: 8000},
		}},
		"watches with pods' credentials are opened again more often": {half, calm, Forecast{
			Watches: 2000, Connections: 200, Memory: 2e6, Steady: 1 + 10,
			Herd: Herd{Requests: 4000, Processor: 2 * time.Second, Lasts: 10 * time.Second, Peak: 400},
		}},
		"a client that lists again now and then makes two requests": {large, relisting, Forecast{
			Watches: 2000, Connections: 200, Memory: 2e6, Steady: 2 + 10,
			Herd: Herd{Requests: 4000, Processor: 2 * time.Second, Lasts: 10 * time.Second, Peak: 400},
		}},
		"a client without credentials of pods needs no time for them": {large, never, round().Forecast(large, calm)},
		"pods of a node may share objects": {few, calm, Forecast{
			Watches: 50, Connections: 10, Memory: 5e4, Steady: 0.05,
			Herd: Herd{Requests: 100, Processor: 50 * time.Millisecond, Lasts: 10 * time.Second, Peak: 10},
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := round().Forecast(test.large, test.client)
			if diff := gocmp.Diff(test.want, got, cmpopts.EquateApprox(1e-9, 0)); diff != "" {
				t.Errorf("forecast (-want +got):\n%s", diff)
			}
		})
	}
}

func TestForecastOfAnEdit(t *testing.T) {
	t.Parallel()
	large := Large{Processors: 5}
	tests := map[string]struct {
		client Client
		nodes  int
		want   Edit
	}{
		"nobody watches":        {Client{Told: 1}, 0, Edit{Processor: 4 * time.Millisecond}},
		"each node is sent one": {Client{}, 1000, Edit{Bytes: 1e5, Processor: 104 * time.Millisecond, Last: 20 * time.Millisecond}},
		"each node may write an Event, too": {Client{Told: 2}, 10, Edit{
			Bytes: 1000, Processor: 5 * time.Millisecond, Last: 200 * time.Microsecond, Told: 20, ToldProcessor: 40 * time.Millisecond,
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := gocmp.Diff(test.want, round().Edit(large, test.client, test.nodes)); diff != "" {
				t.Errorf("edit (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLine(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		x, y        []float64
		base, slope float64
	}{
		"through all points":                {[]float64{0, 1, 5}, []float64{2, 5, 17}, 2, 3},
		"between points that are not on it": {[]float64{0, 0, 2, 2}, []float64{0, 2, 4, 6}, 1, 2},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			base, slope := line(test.x, test.y)
			if math.Abs(base-test.base) > 1e-9 || math.Abs(slope-test.slope) > 1e-9 {
				t.Errorf("line = %g + %g x, want %g + %g x", base, slope, test.base, test.slope)
			}
		})
	}
}
