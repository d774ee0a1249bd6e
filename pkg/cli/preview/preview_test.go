package preview_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/cli/preview"
	"github.com/liveconfig-csi/liveconfig/pkg/expect"
)

const driver = "csi.liveconfig.internal"

// readSet reads manifests between lines of three dashes.
func readSet(t *testing.T, text string) *preview.Set {
	t.Helper()
	var set preview.Set
	for document := range strings.SplitSeq(text, "\n---\n") {
		var data any
		expect.NoError(t, yaml.Unmarshal([]byte(document), &data))
		expect.NoError(t, set.Add(data, "shop"))
	}
	return &set
}

const objects = `
apiVersion: v1
kind: ConfigMap
metadata: {name: web, labels: {app: web}, annotations: {folder: f}}
data: {a: "1", b: "22"}
binaryData: {c: AAE=}
---
apiVersion: v1
kind: Secret
metadata: {name: key, labels: {app: web}}
data: {a: aHVzaA==, k: b2xk}
stringData: {k: key}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: web, namespace: other, labels: {app: web}}
data: {o: other}
`

// volumesOf returns the volumes of a pod with this list of volumes, and the rest of its spec.
func volumesOf(t *testing.T, volumes, spec string) []preview.Volume {
	t.Helper()
	pod := "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers: []\n" + spec + "  volumes:\n" + volumes
	set := readSet(t, objects+"---\n"+pod)
	if len(set.Pods) != 1 {
		t.Fatalf("%d pods, want 1", len(set.Pods))
	}
	objects := func(ref api.Ref) (api.Content, bool, error) {
		if ref.Name == "forbidden" {
			return api.Content{}, false, errors.New("no rights")
		}
		content, found := set.Content(ref)
		return content, found, nil
	}
	members := func(selection api.Ref) ([]preview.Member, error) { return set.Members(selection), nil }
	return preview.Volumes(set.Pods[0], driver, objects, objects, members)
}

// list returns the list of volumes, and the errors of those that hold nothing.
func list(t *testing.T, volumes []preview.Volume) string {
	t.Helper()
	var lines []string
	for line := range strings.Lines(preview.List(preview.Pod{Kind: "Pod", Name: "p"}, volumes)) {
		fields := strings.Fields(line)
		if fields[0] != "MODE" && fields[0] != "pod/p:" {
			lines = append(lines, strings.Join(fields, " "))
		}
	}
	for _, v := range volumes {
		if v.Err != nil {
			lines = append(lines, v.Name+": "+v.Err.Error())
		}
	}
	return strings.Join(lines, "\n")
}

const ours = "    csi:\n      driver: csi.liveconfig.internal\n      readOnly: true\n      volumeAttributes:\n"

func TestVolumes(t *testing.T) {
	t.Parallel()
	const digestOf1, digestOf22, digestOfC = "6b86b273ff34fce1", "785f3ec7eb32f30b", "b413f47d13ee2fe6"
	for name, test := range map[string]struct {
		volumes, spec, want string
	}{
		"all keys have the modes and owners of the attributes": {
			volumes: "  - name: v\n" + ours + "        {configMap: web, defaultMode: '0440', uid: '7', gid: '8'}\n",
			want: "drwxr-xr-x 7:8 - - .\n-r--r----- 7:8 1 " + digestOf1 + " a\n-r--r----- 7:8 2 " + digestOf22 +
				" b\n-r--r----- 7:8 2 " + digestOfC + " c",
		},
		"fsGroup owns the files and may read them": {
			spec:    "  securityContext: {fsGroup: 2000}\n",
			volumes: "  - name: v\n" + ours + "        {configMap: web, items: '[{key: a, path: d/e/a, mode: 0400}]'}\n",
			want: "drwxr-sr-x 0:2000 - - .\ndrwxr-sr-x 0:2000 - - d/\ndrwxr-sr-x 0:2000 - - d/e/\n" +
				"-r--r----- 0:2000 1 " + digestOf1 + " d/e/a",
		},
		"what a Secret makes is hidden, also over a key of a ConfigMap": {
			volumes: "  - name: v\n" + ours + "        sources: |\n          - configMap: {name: web}\n          - secret: {name: key}\n",
			want: "drwxr-xr-x 0:0 - - .\n-rw-r--r-- 0:0 4 hidden a\n-rw-r--r-- 0:0 2 " + digestOf22 + " b\n-rw-r--r-- 0:0 2 " + digestOfC +
				" c\n-rw-r--r-- 0:0 3 hidden k",
		},
		"a key of a ConfigMap over one of a Secret is shown": {
			volumes: "  - name: v\n" + ours +
				"        sources: |\n          - secret: {name: key}\n          - configMap: {name: web, items: [{key: a, path: k}]}\n",
			want: "drwxr-xr-x 0:0 - - .\n-rw-r--r-- 0:0 4 hidden a\n-rw-r--r-- 0:0 1 " + digestOf1 + " k",
		},
		"all keys are in one file": {
			volumes: "  - name: v\n" + ours +
				"        sources: |\n          - secret: {name: key, as: {path: app.env, format: dotenv, mode: 0400}}\n",
			want: "drwxr-xr-x 0:0 - - .\n-r-------- 0:0 17 hidden app.env",
		},
		"a source of another namespace is another object": {
			volumes: "  - name: v\n" + ours + "        {configMap: web, namespace: other}\n",
			want:    "drwxr-xr-x 0:0 - - .\n-rw-r--r-- 0:0 5 d9298a10d1b07358 o",
		},
		"what is selected by label": {
			volumes: "  - name: v\n" + ours + "        sources: |\n          - configMap: {labelSelector: {matchLabels: {app: web}}," +
				" namespaces: [shop, other], path: $(namespace)/$(key), folderAnnotation: folder}\n",
			want: "drwxr-xr-x 0:0 - - .\ndrwxr-xr-x 0:0 - - f/\ndrwxr-xr-x 0:0 - - f/shop/\n-rw-r--r-- 0:0 1 " + digestOf1 +
				" f/shop/a\n-rw-r--r-- 0:0 2 " + digestOf22 + " f/shop/b\n-rw-r--r-- 0:0 2 " + digestOfC + " f/shop/c\n" +
				"drwxr-xr-x 0:0 - - other/\n-rw-r--r-- 0:0 5 d9298a10d1b07358 other/o",
		},
		"a Secret that is selected beside a ConfigMap is hidden": {
			volumes: "  - name: v\n" + ours + "        sources: |\n          - {secret: {labelSelector: {}}}\n          - {configMap: {labelSelector: {}}}\n",
			want: "drwxr-xr-x 0:0 - - .\n-rw-r--r-- 0:0 4 hidden a\n-rw-r--r-- 0:0 2 " + digestOf22 + " b\n-rw-r--r-- 0:0 2 " + digestOfC +
				" c\n-rw-r--r-- 0:0 3 hidden k",
		},
		"nothing is selected": {
			volumes: "  - name: v\n" + ours + "        sources: '[{configMap: {labelSelector: {matchLabels: {app: db}}}}]'\n",
			want:    "v: no configmap matches labelSelector app=db",
		},
		"what is optional may be missing": {
			volumes: "  - name: v\n" + ours + "        {configMap: none, optional: 'true'}\n", want: "drwxr-xr-x 0:0 - - .",
		},
		"a required object is reported as the driver does": {
			volumes: "  - name: v\n" + ours + "        sources: |\n          - configMap: {name: none}\n" +
				"          - secret: {name: key, items: [{key: x, path: x}]}\n",
			want: `v: [configmap "none" not found, references non-existent secret key: x (secret shop/key, sources[1].secret.items[0])]`,
		},
		"mistakes are the parser's": {
			volumes: "  - name: v\n" + ours + "        {configmap: web}\n",
			want:    `v: mistake in volumeAttributes: configmap: Forbidden: unknown attribute, did you mean "configMap"?`,
		},
		"a volume that could be written is refused": {
			volumes: "  - name: v\n    csi: {driver: csi.liveconfig.internal, volumeAttributes: {configMap: web}}\n",
			want:    `v: the volume must be read-only: add "readOnly: true" to its csi section`,
		},
		"what may not be read has no files": {
			volumes: "  - name: v\n" + ours + "        {secret: forbidden, optional: 'true'}\n", want: "v: read secret shop/forbidden: no rights",
		},
		"an in-tree configMap is one of root's": {
			spec:    "  securityContext: {fsGroup: 5}\n",
			volumes: "  - {name: v, configMap: {name: web, defaultMode: 256, items: [{key: a, path: x}]}}\n",
			want:    "drwxrwsrwx 0:5 - - .\n-r--r----- 0:5 1 " + digestOf1 + " x",
		},
		"users own files, and those of an in-tree volume its fsGroup reads too": {
			spec: "  securityContext: {fsGroup: 5}\n",
			volumes: "  - name: v\n" + ours + "        {configMap: web, items: '[{key: a, path: x, mode: 0400, user: 9}, {key: a, path: z, mode: 0400}]'}\n" +
				"  - {name: w, configMap: {name: web, defaultUser: 7, items: [{key: a, path: x, mode: 256, user: 9}, {key: a, path: z, mode: 256}]}}\n",
			want: "drwxr-sr-x 0:5 - - .\n-r-------- 9:5 1 " + digestOf1 + " x\n-r--r----- 0:5 1 " + digestOf1 + " z\n" +
				"drwxrwsrwx 0:5 - - .\n-r--r----- 9:5 1 " + digestOf1 + " x\n-r--r----- 7:5 1 " + digestOf1 + " z",
		},
		"an in-tree secret is hidden": {
			volumes: "  - {name: v, secret: {secretName: key, items: [{key: k, path: k}]}}\n", want: "drwxrwxrwt 0:0 - - .\n-rw-r--r-- 0:0 3 hidden k",
		},
		"others are passed over": {
			volumes: "  - {name: v, emptyDir: {}}\n  - {name: w, csi: {driver: other.example}}\n", want: "",
		},
		"a name that leads elsewhere is refused": {
			volumes: "  - {name: ../v, configMap: {name: web}}\n",
			want: `../v: the API server refuses its name "../v": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', ` +
				`and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := list(t, volumesOf(t, test.volumes, test.spec))
			wantSame(t, "list", test.want, got)
		})
	}
}

func TestProjectedWithoutWhatOnlyAPodHas(t *testing.T) {
	t.Parallel()
	got := volumesOf(t, `  - name: v
    projected:
      defaultMode: 0440
      sources:
        - serviceAccountToken: {path: token}
        - configMap: {name: web, items: [{key: a, path: a}]}
        - downwardAPI: {items: [{path: name, fieldRef: {fieldPath: metadata.name}}]}
        - configMap: {name: none, optional: true}
`, "")
	wantSame(t, "list", "drwxrwxrwt 0:0 - - .\n-r--r----- 0:0 1 6b86b273ff34fce1 a", list(t, got))
	wantSame(t, "LeftOut", []string{"sources[0], a serviceAccountToken", "sources[2], a downwardAPI"}, got[0].LeftOut)
	wantSame(t, "Unfound", []api.Ref{{Kind: api.ConfigMap, Namespace: "shop", Name: "none"}}, got[0].Unfound)
}

func TestShownSecrets(t *testing.T) {
	t.Parallel()
	volumes := volumesOf(t, "  - {name: v, secret: {secretName: key, items: [{key: k, path: k}]}}\n", "")
	var lists [2]string
	for i := range lists {
		lists[i] = preview.List(preview.Pod{Kind: "Pod", Name: "p"}, volumes)
		volumes[0].Hidden = nil
	}
	if got, want := list(t, volumes), "drwxrwxrwt 0:0 - - .\n-rw-r--r-- 0:0 3 2c70e12b7a0646f9 k"; got != want {
		t.Errorf("list = %q, want %q", got, want)
	}
	digest := volumes[0].Tree.Digest()
	shown := []bool{strings.Contains(lists[0], digest), strings.Contains(lists[1], digest)}
	if want := []bool{false, true}; !slices.Equal(shown, want) {
		t.Errorf("the digest of the volume is shown: %v, want %v", shown, want)
	}
}

func wantSame[T any](t *testing.T, what string, want, got T, options ...cmp.Option) {
	t.Helper()
	if diff := cmp.Diff(want, got, options...); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}
