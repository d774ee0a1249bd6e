// Package soak does things at random to the whole driver, a real process before a real API server with real mounts, and
// compares it with a model that knows what every volume must hold: pods come, go and are replaced, objects change, access
// is taken and given, the driver and the API server are killed, the network between them fails, the state directory is lost.
//
// LIVECONFIG_SEED repeats a run, as far as the timing of processes lets it be repeated, and LIVECONFIG_SOAK_TIME says how
// long to go on, as in 5m. What was done is kept in bin/test/soak-SEED--share-volumes=….log when the test fails.
package soak

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/test/kit/environment"
	"github.com/liveconfig-csi/liveconfig/test/kit/soak"
)

func TestMain(m *testing.M) { os.Exit(environment.Main(m)) }

// How long things are done in each way: a moment in a run of all tests, half an hour where there is time.
const (
	usualSeconds = 10
	soakSeconds  = 1800
)

// Flags of the driver.
const (
	share     = "--share-volumes=true"
	dontShare = "--share-volumes=false"
)

// TestTheNodeSurvivesAnything does things at random until the time is over, and every now and then lets the node come to
// rest: then every volume holds what its sources say, and nothing is left of what is gone. Readers look at volumes all the
// time. Equal volumes share their files, or do not.
func TestTheNodeSurvivesAnything(t *testing.T) {
	for _, flag := range []string{share, dontShare} {
		t.Run(flag, func(t *testing.T) { surviveAnything(newRun(t, seed(t), flag), duration(t)) })
	}
}

func surviveAnything(r *run, d time.Duration) {
	stopReaders := r.startReaders()
	end := time.Now().Add(d)
	for time.Now().Before(end) && !r.hasFailed() {
		r.step()
	}
	if !r.hasFailed() {
		r.rest()
	}
	stopReaders()
	if r.hasFailed() {
		r.cleanUp()
	} else {
		r.endAll()
	}
	r.finish()
}

func seed(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv("LIVECONFIG_SEED")
	if text == "" {
		return rand.Uint64()
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("LIVECONFIG_SEED: %v", err)
	}
	return n
}

func duration(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("LIVECONFIG_SOAK_TIME")
	if text == "" {
		return time.Duration(soak.Rounds(usualSeconds, soakSeconds)) * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("LIVECONFIG_SOAK_TIME: %v", err)
	}
	return d
}

// must ends the test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
