package scale

import (
	"math"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

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
