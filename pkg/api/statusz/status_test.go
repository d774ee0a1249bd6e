package statusz_test

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/liveconfig-csi/liveconfig/pkg/api/statusz"
)

// example has every field set somewhere.
func example() statusz.Report {
	began := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	version := &statusz.Version{UID: "uid-web", ResourceVersion: "1041"}
	return statusz.Report{
		SchemaVersion: statusz.SchemaVersion, Driver: "csi.liveconfig.internal", Version: "v0.1.0", Node: "node-1",
		Started: began, Now: began.Add(time.Hour), Recovered: true,
		Volumes: []statusz.Volume{{
			ID: "csi-1", Pod: statusz.Pod{Namespace: "shop", Name: "web-0", UID: "uid-pod", ServiceAccount: "web"}, Name: "config",
			TargetPath:   "/var/lib/kubelet/pods/uid-pod/volumes/kubernetes.io~csi/config/mount",
			UpdatePolicy: "Atomic", OnDelete: "Keep", State: statusz.Live, Digest: "ab12", Bytes: 17,
			ProjectedAt: began.Add(time.Minute), CheckedAt: began.Add(2 * time.Minute),
			Problem: &statusz.Problem{Kind: "Missing", Message: `secret "tls" not found`, Since: began.Add(3 * time.Minute)},
			Sources: []statusz.Source{
				{
					Kind: "ConfigMap", Namespace: "shop", Name: "web", Items: []statusz.Item{{Key: "a", Path: "conf/a"}}, ReadBy: "driver",
					Synced: true, Found: true, Known: version, Projected: version, ChangedAt: began,
				},
				{
					Kind: "Secret", Namespace: "shop", Name: "tls", ReadBy: "serviceaccount shop/web",
					Synced: true, Projected: &statusz.Version{UID: "uid-tls", ResourceVersion: "7"}, ChangedAt: began.Add(3 * time.Minute),
				},
			},
		}, {
			ID: "csi-2", Pod: statusz.Pod{Namespace: "shop", Name: "web-1", UID: "uid-other", ServiceAccount: "web"}, Name: "config",
			TargetPath:   "/var/lib/kubelet/pods/uid-other/volumes/kubernetes.io~csi/config/mount",
			UpdatePolicy: "Atomic", OnDelete: "Remove", State: statusz.Publishing,
			Sources: []statusz.Source{{
				Kind: "Secret", Namespace: "shop", Name: "tls", Optional: true, ReadBy: "serviceaccount shop/web", Immutable: true,
				Polled: true, Revoked: true, Error: "forbidden",
			}},
		}},
	}
}

// TestSchema compares with a file: a change of it is a change of what others read.
func TestSchema(t *testing.T) {
	t.Parallel()
	want, err := os.ReadFile("testdata/status.json")
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if err := statusz.Write(&got, example()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("JSON (-want +got):\n%s", diff)
	}
}

func TestReadReturnsWhatWasWritten(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	if err := statusz.Write(&text, example()); err != nil {
		t.Fatal(err)
	}
	got, err := statusz.Read(&text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(example(), got); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}

func TestReadRefuses(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ text, want string }{
		"a later schema": {
			`{"schemaVersion": 2, "node": "n"}`,
			`the driver of node "n" reports its status in schema 2, and 1 is known here: use a newer version`,
		},
		"another answer": {`{}`, `the driver of node "" reports its status in schema 0`},
		"no JSON":        {`404 page not found`, "decode the status of a node: "},
		"a torn one":     {`{"schemaVersion": 1, "volumes": [{`, "decode the status of a node: unexpected EOF"},
	}
	for name, tc := range tests {
		if _, err := statusz.Read(strings.NewReader(tc.text)); err == nil || !strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("%s: Read = %v, want %s", name, err, tc.want)
		}
	}
}

// TestReadSkipsWhatItDoesNotKnow: a newer driver may report more without a new schema.
func TestReadSkipsWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	got, err := statusz.Read(strings.NewReader(`{"schemaVersion": 1, "node": "n", "more": {}, "volumes": [{"id": "v", "more": 1}]}`))
	if err != nil || got.Node != "n" || len(got.Volumes) != 1 || got.Volumes[0].ID != "v" {
		t.Errorf("Read = %v, %v, want the node and its volume", got, err)
	}
}

func TestSort(t *testing.T) {
	t.Parallel()
	volume := func(namespace, pod, name, uid string) statusz.Volume {
		return statusz.Volume{Pod: statusz.Pod{Namespace: namespace, Name: pod, UID: uid}, Name: name}
	}
	want := []statusz.Volume{
		volume("a", "z", "z", "9"), volume("b", "a", "a", "1"), volume("b", "a", "a", "2"), volume("b", "a", "b", "1"), volume("b", "b", "a", "0"),
	}
	got := []statusz.Volume{want[4], want[2], want[0], want[3], want[1]}
	statusz.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}
