package validation_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/liveconfig-csi/liveconfig/pkg/release/settings"
	"github.com/liveconfig-csi/liveconfig/pkg/release/validation"
)

// invalid has, for each kind of rule, a rule and values that break it by the way they are made.
func invalid(t *testing.T) map[string]func(*rand.Rand) (settings.Rule, map[string]string) {
	t.Helper()
	cert, key := certificate(t, now.Add(-time.Hour), now.Add(25*time.Hour))
	_, otherKey := certificate(t, now.Add(-time.Hour), now.Add(25*time.Hour))
	text := func(format settings.Format, spoil func(*rand.Rand) string) func(*rand.Rand) (settings.Rule, map[string]string) {
		return func(r *rand.Rand) (settings.Rule, map[string]string) {
			return settings.Rule{Key: "a", Format: format}, map[string]string{"a": spoil(r)}
		}
	}
	const schema = `{"type": "object", "required": ["max"], "additionalProperties": false, "properties": {"max": {"type": "integer", "maximum": 10}}}`
	return map[string]func(*rand.Rand) (settings.Rule, map[string]string){
		"json":       text(settings.JSON, func(r *rand.Rand) string { whole := object(r); return whole[:1+r.IntN(len(whole)-1)] }),
		"yaml":       text(settings.YAML, func(r *rand.Rand) string { return "a: " + object(r) + "\n" + word(r) + ": [" + word(r) }),
		"toml":       text(settings.TOML, func(r *rand.Rand) string { return word(r) + " = 1\n" + word(r) + " = " + "\n" }),
		"properties": text(settings.Properties, func(r *rand.Rand) string { return word(r) + " = 1\n" + word(r) + ` = \uz` + word(r) }),
		"ini":        text(settings.INI, func(r *rand.Rand) string { return word(r) + " = 1\n[" + word(r) + "\n" }),
		"schema": func(r *rand.Rand) (settings.Rule, map[string]string) {
			values := []string{
				fmt.Sprintf(`{"max": %d}`, 11+r.IntN(1<<30)), fmt.Sprintf(`{"max": %q}`, word(r)), fmt.Sprintf(`{"max": 1, %q: 1}`, word(r)),
				object(r), fmt.Sprint(r.IntN(100)), fmt.Sprintf(`[{"max": %d}]`, r.IntN(10)),
			}
			return settings.Rule{Key: "a", Format: settings.JSON, SchemaKey: "s"}, map[string]string{"a": values[r.IntN(len(values))], "s": schema}
		},
		"cel": func(r *rand.Rand) (settings.Rule, map[string]string) {
			values := []string{
				fmt.Sprintf("max: %d", 11+r.IntN(1<<30)), "max: " + word(r), "min: 1", "[1]", fmt.Sprintf("max: %d\nmin: %d", r.IntN(10), 11+r.IntN(100)),
			}
			return settings.Rule{Key: "a", Format: settings.YAML, CEL: "self.max <= 10 && self.min <= self.max"}, map[string]string{"a": values[r.IntN(len(values))]}
		},
		"pair": func(r *rand.Rand) (settings.Rule, map[string]string) {
			data := map[string]string{"c": cert, "k": key}
			rule := settings.Rule{Pair: &settings.Pair{Cert: "c", Key: "k"}, NotExpiredFor: 24 * time.Hour}
			switch r.IntN(4) {
			case 0:
				data["k"] = otherKey
			case 1:
				rule.NotExpiredFor = 26*time.Hour + time.Duration(r.IntN(1000))*time.Hour
			case 2:
				data["c"] = cert[:r.IntN(len(cert)*9/10)]
			default:
				delete(data, []string{"c", "k"}[r.IntN(2)])
			}
			return rule, data
		},
	}
}

// object returns an object of JSON that has no «max».
func object(r *rand.Rand) string {
	var members []string
	for range 1 + r.IntN(4) {
		members = append(members, fmt.Sprintf("%q: [%d, {%q: %q}]", word(r), r.Int(), word(r), word(r)))
	}
	return "{" + strings.Join(members, ", ") + "}"
}

func word(r *rand.Rand) string {
	letters := make([]byte, 1+r.IntN(12))
	for i := range letters {
		letters[i] = byte('a' + r.IntN(26))
	}
	return "w" + string(letters)
}

// TestInvalidContentIsRefused: many contents that break a rule of each kind, of ConfigMaps and of Secrets. With LIVECONFIG_SOAK
// they are 10,000.
func TestInvalidContentIsRefused(t *testing.T) {
	t.Parallel()
	contents := 1000
	if os.Getenv("LIVECONFIG_SOAK") != "" {
		contents = 10_000
	}
	for kind, spoil := range invalid(t) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			seed := rand.Uint64()
			random := rand.New(rand.NewPCG(seed, 0))
			for i := range contents {
				rule, data := spoil(random)
				c := validation.Content{Data: map[string][]byte{}, Now: now, IsSecret: i%2 == 0}
				for key, value := range data {
					c.Data[key] = []byte(value)
				}
				if problems := validation.Check([]settings.Rule{rule}, c); len(problems) == 0 {
					t.Fatalf("seed %d, content %d: %q breaks no rule", seed, i, data)
				}
			}
		})
	}
}
