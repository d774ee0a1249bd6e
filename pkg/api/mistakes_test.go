package api_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

// attributes are what a test hands to Parse.
type attributes = map[string]string

// bad is an input and the message that a user gets for it, without how such a message begins.
type bad struct {
	in   attributes
	want string
}

// badItems is the short form with nothing wrong but its items.
func badItems(items, want string) bad {
	return bad{in: attributes{"configMap": "app", "items": items}, want: want}
}

// badSources is the long form with nothing wrong but its sources.
func badSources(sources, want string) bad {
	return bad{in: attributes{"sources": sources}, want: want}
}

// with is the smallest good short form plus what a test adds or overrides.
func with(more attributes) attributes {
	in := attributes{"configMap": "app"}
	maps.Copy(in, more)
	return in
}

// badMode is the short form with nothing wrong but its default mode.
func badMode(mode, hint string) bad {
	return bad{
		in:   with(attributes{"defaultMode": mode}),
		want: fmt.Sprintf(`defaultMode: Invalid value: %q: must be an octal number from 0000 to 0777`, mode) + hint,
	}
}

// known is how a message lists the attributes.
const known = "known are configMap, secret, namespace, items, optional, sources, defaultMode, uid, gid, defaultUser, updatePolicy, onDelete, mountPoints, values"

func testMistakes(t *testing.T, tests map[string]bad) {
	t.Helper()
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec, err := api.Parse(tc.in, "default")
			if err == nil {
				t.Fatalf("Parse(%v) = %+v, want the error %s", tc.in, spec, tc.want)
			}
			begin := "mistake in volumeAttributes: "
			if n := checkMistakes(t, err); n > 1 {
				begin = fmt.Sprintf("%d mistakes in volumeAttributes: ", n)
			}
			if got, want := err.Error(), begin+tc.want; got != want {
				t.Errorf("Parse(%v) error:\n got %s\nwant %s", tc.in, got, want)
			}
		})
	}
}

// checkMistakes holds for every error of Parse. It returns how many mistakes the error has.
func checkMistakes(t *testing.T, err error) int {
	t.Helper()
	var mistakes *api.AttributesError
	if !errors.As(err, &mistakes) {
		t.Fatalf("Parse error is a %T, want an *api.AttributesError: %v", err, err)
	}
	if n := len(mistakes.Mistakes); n == 0 || n > 20 {
		t.Errorf("Parse error has %d mistakes, want 1 to 20: %v", n, err)
	}
	for _, m := range mistakes.Mistakes {
		if m.Field == "" || m.Field == "<nil>" {
			t.Errorf("mistake %q has no field path", m)
		}
	}
	if message := err.Error(); strings.ContainsAny(message, "\n\r\x00\x1b") || len(message) > 16<<10 {
		t.Errorf("Parse error is not one line of at most 16 KiB: %q", message)
	}
	return len(mistakes.Mistakes)
}

func TestParseMistakesInAttributes(t *testing.T) {
	t.Parallel()
	testMistakes(t, map[string]bad{
		"nothing to project": {
			in:   attributes{},
			want: `configMap: Required value: write the name of a ConfigMap, or use secret or sources instead`,
		},
		"only what the kubelet adds": {
			in:   attributes{"csi.storage.k8s.io/pod.name": "web-0"},
			want: `configMap: Required value: write the name of a ConfigMap, or use secret or sources instead`,
		},
		"items of nothing": {
			in:   attributes{"items": `[{key: a, path: a}]`},
			want: `configMap: Required value: write the name of a ConfigMap, or use secret or sources instead`,
		},
		"both kinds in the short form": {
			in:   attributes{"configMap": "app", "secret": "tls"},
			want: `secret: Forbidden: cannot stand beside configMap, keep one or list both in sources`,
		},
		"every short-form key beside sources": {
			in: attributes{
				"sources": `[]`, "configMap": "app", "secret": "tls", "namespace": "shared", "items": "[]", "optional": "true",
			},
			want: `configMap: Forbidden: cannot stand beside sources, move it into an entry of that list; ` +
				`secret: Forbidden: cannot stand beside sources, move it into an entry of that list; ` +
				`namespace: Forbidden: cannot stand beside sources, move it into an entry of that list; ` +
				`items: Forbidden: cannot stand beside sources, move it into an entry of that list; ` +
				`optional: Forbidden: cannot stand beside sources, move it into an entry of that list`,
		},
		"a key in the wrong case": {
			in:   attributes{"configmap": "app"},
			want: `configmap: Forbidden: unknown attribute, did you mean "configMap"?`,
		},
		"sources in the wrong case": {
			in:   attributes{"Sources": "[]"},
			want: `Sources: Forbidden: unknown attribute, did you mean "sources"?`,
		},
		"keys with a letter missing or too many": {
			in: with(attributes{"updatepolicy": "Atomic", "onDeletes": "Keep", "defaultMod": "0644", "guid": "1"}),
			want: `defaultMod: Forbidden: unknown attribute, did you mean "defaultMode"?; ` +
				`guid: Forbidden: unknown attribute, did you mean "uid"?; ` +
				`onDeletes: Forbidden: unknown attribute, did you mean "onDelete"?; ` +
				`updatepolicy: Forbidden: unknown attribute, did you mean "updatePolicy"?`,
		},
		"a key that core/v1 has for volumes": {
			in:   attributes{"secretName": "tls"},
			want: `secretName: Forbidden: unknown attribute, did you mean "secret"?`,
		},
		"a key that is nothing like a known one": {
			in:   with(attributes{"reload": "true"}),
			want: `reload: Forbidden: unknown attribute, ` + known,
		},
		"keys that are not readable": {
			in: with(attributes{"": "x", "a\nb": "x", "\xff": "x", strings.Repeat("k", 300): "x"}),
			want: `"": Forbidden: unknown attribute, ` + known + `; ` +
				`"a\nb": Forbidden: unknown attribute, ` + known + `; ` +
				`kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk…: Forbidden: unknown attribute, ` + known + `; ` +
				`"\xff": Forbidden: unknown attribute, ` + known,
		},
		"rule 15: an empty name, optional or not": {
			in:   attributes{"configMap": "", "optional": "true"},
			want: `configMap: Required value: must not be empty, write the name of the object`,
		},
		"a name with a capital and a newline": {
			in: attributes{"secret": "Tls\n"},
			want: `secret: Invalid value: "Tls\n": must be an object name: up to 253 of a-z, 0-9, "-" and ".", ` +
				`first and last a letter or digit`,
		},
		"a name that is too long": {
			in: attributes{"secret": strings.Repeat("s", 254)},
			want: `secret: Invalid value: "sssssssssssssssssssssssssssssssssssssssssssssssssssssssss…": must be an object name: ` +
				`up to 253 of a-z, 0-9, "-" and ".", first and last a letter or digit`,
		},
		"a name with a namespace in front": {
			in: attributes{"configMap": "shared/app"},
			want: `configMap: Invalid value: "shared/app": must be an object name: up to 253 of a-z, 0-9, "-" and ".", ` +
				`first and last a letter or digit`,
		},
		"a namespace with a dot": {
			in: with(attributes{"namespace": "kube.system"}),
			want: `namespace: Invalid value: "kube.system": must be a namespace: up to 63 of a-z, 0-9 and "-", ` +
				`first and last a letter or digit, or leave it out for the pod's own`,
		},
		"an empty namespace": {
			in: with(attributes{"namespace": ""}),
			want: `namespace: Invalid value: "": must be a namespace: up to 63 of a-z, 0-9 and "-", ` +
				`first and last a letter or digit, or leave it out for the pod's own`,
		},
		"optional as YAML 1.1 has it": {
			in:   with(attributes{"optional": "yes"}),
			want: `optional: Unsupported value: "yes": supported values: "true", "false"`,
		},
		"optional in the wrong case": {
			in:   with(attributes{"optional": "True"}),
			want: `optional: Unsupported value: "True": supported values: "true", "false", did you mean "true"?`,
		},
		"an empty optional": {
			in:   with(attributes{"optional": ""}),
			want: `optional: Unsupported value: "": supported values: "true", "false"`,
		},
		"rule 5: a mode with digits that are not octal": badMode("0888", ""),
		"rule 5: a mode with the sticky bit":            badMode("01777", ""),
		"rule 5: a mode with setuid":                    badMode("4755", ""),
		"rule 5: a mode of one more than the largest":   badMode("1000", ""),
		"rule 5: a mode with every special bit":         badMode("0o7777", ""),
		"a mode in letters":                             badMode("rw", ""),
		"a negative mode":                               badMode("-1", ""),
		"an empty mode":                                 badMode("", ""),
		"a mode that is only a prefix":                  badMode("0o", ""),
		"a mode with too many zeros":                    badMode("00644", ""),
		"a mode with blanks":                            badMode(" 0644\n", ""),
		"a mode copied from JSON":                       badMode("493", `, did you mean 0755 (decimal 493)?`),
		"a user ID that is too large and a group ID that is negative": {
			in: with(attributes{"uid": "2147483648", "gid": "-1"}),
			want: `uid: Invalid value: "2147483648": must be a decimal number from 0 to 2147483647; ` +
				`gid: Invalid value: "-1": must be a decimal number from 0 to 2147483647`,
		},
		"a user ID in octal and a group by name": {
			in: with(attributes{"uid": "0755", "gid": "nginx"}),
			want: `uid: Invalid value: "0755": must be a decimal number from 0 to 2147483647; ` +
				`gid: Invalid value: "nginx": must be a decimal number from 0 to 2147483647`,
		},
		"an empty user ID and a signed group ID": {
			in: with(attributes{"uid": "", "gid": "+5"}),
			want: `uid: Invalid value: "": must be a decimal number from 0 to 2147483647; ` +
				`gid: Invalid value: "+5": must be a decimal number from 0 to 2147483647`,
		},
		"a user by name, by core/v1's name": {
			in:   with(attributes{"defaultUser": "nginx"}),
			want: `defaultUser: Invalid value: "nginx": must be a decimal number from 0 to 2147483647`,
		},
		"two users": {
			in:   with(attributes{"uid": "1", "defaultUser": "2"}),
			want: `defaultUser: Forbidden: is core/v1's name of uid and has another value, keep one`,
		},
		"policies in the wrong case": {
			in: with(attributes{"updatePolicy": "atomic", "onDelete": "REMOVE"}),
			want: `updatePolicy: Unsupported value: "atomic": supported values: "Atomic", "Replace", "InPlace", "Never", ` +
				`did you mean "Atomic"?; ` +
				`onDelete: Unsupported value: "REMOVE": supported values: "Keep", "Remove", did you mean "Remove"?`,
		},
		"policies that do not exist": {
			in: with(attributes{"updatePolicy": "Sometimes", "onDelete": ""}),
			want: `updatePolicy: Unsupported value: "Sometimes": supported values: "Atomic", "Replace", "InPlace", "Never"; ` +
				`onDelete: Unsupported value: "": supported values: "Keep", "Remove"`,
		},
		"mistakes in every place at once, in reading order": {
			in: attributes{
				"zone": "b", "configMap": "App", "namespace": "A", "items": `[{key: a}, {path: /b}]`, "optional": "no",
				"defaultMode": "999", "uid": "x", "gid": "y", "updatePolicy": "never", "onDelete": "Delete",
			},
			want: `zone: Forbidden: unknown attribute, ` + known + `; ` +
				`configMap: Invalid value: "App": must be an object name: up to 253 of a-z, 0-9, "-" and ".", ` +
				`first and last a letter or digit; ` +
				`namespace: Invalid value: "A": must be a namespace: up to 63 of a-z, 0-9 and "-", ` +
				`first and last a letter or digit, or leave it out for the pod's own; ` +
				`items[0].path: Required value: write where in the volume the file goes; ` +
				`items[1].path: Invalid value: "/b": must be relative to the volume, drop the slash in front; ` +
				`items[1].key: Required value: write which key to project; ` +
				`optional: Unsupported value: "no": supported values: "true", "false"; ` +
				`defaultMode: Invalid value: "999": must be an octal number from 0000 to 0777; ` +
				`uid: Invalid value: "x": must be a decimal number from 0 to 2147483647; ` +
				`gid: Invalid value: "y": must be a decimal number from 0 to 2147483647; ` +
				`updatePolicy: Unsupported value: "never": supported values: "Atomic", "Replace", "InPlace", "Never", ` +
				`did you mean "Never"?; ` +
				`onDelete: Unsupported value: "Delete": supported values: "Keep", "Remove"`,
		},
	})
}
