package stable

import (
	"bytes"
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
	"github.com/liveconfig-csi/liveconfig/pkg/release"
)

// holding returns an object of a kind with some data.
func holding(kind api.Kind, data map[string][]byte) Object {
	o := Object{Ref: api.Ref{Kind: kind, Namespace: "n", Name: "web"}, binaryData: data, Digest: release.Digest(data)}
	if kind == api.ConfigMap {
		o.data, o.binaryData = split(data)
	}
	return o
}

// TestKeptContents are what they were, whatever bytes they have.
func TestKeptContents(t *testing.T) {
	t.Parallel()
	for _, kind := range []api.Kind{api.ConfigMap, api.Secret} {
		for name, data := range map[string]map[string][]byte{
			"none":  {},
			"texts": {"a": []byte("1"), "empty": {}},
			"bytes": {"a": {0xff, 0, 1}, "text": []byte("ü")},
			"large": {"a": bytes.Repeat([]byte("0123456789"), 100_000)},
		} {
			t.Run(string(kind)+" "+name, func(t *testing.T) {
				t.Parallel()
				content := holding(kind, data)
				kept, err := NewFormer(content.Ref).Keep(content, time.Unix(1, 0))
				if err != nil {
					t.Fatal(err)
				}
				newest, _ := kept.Former().Newest()
				got, err := kept.Kept(newest, holding(kind, map[string][]byte{"other": []byte("x")}))
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(content.Data(), got.Data()); diff != "" || got.Digest != content.Digest || got.Ref != content.Ref {
					t.Errorf("%s, digest %s, want %s (-want +got):\n%.300s", got.Ref, got.Digest, content.Digest, diff)
				}
			})
		}
	}
}

// TestRoomForContents: the newest ones are kept as long as all have 1 MiB.
func TestRoomForContents(t *testing.T) {
	t.Parallel()
	random := func(size int) []byte {
		b := make([]byte, size)
		_, _ = rand.Read(b)
		return b
	}
	o := NewFormer(api.Ref{Kind: api.Secret, Namespace: "n", Name: "web"})
	var err error
	for _, size := range []int{300_000, 400_000, 400_000} {
		if o, err = o.Keep(holding(api.Secret, map[string][]byte{"a": random(size)}), time.Unix(1, 0)); err != nil {
			t.Fatal(err)
		}
	}
	all := o.Former().Contents
	if len(all) != 3 || all[0].Key == "" || all[1].Key == "" || all[2].Key != "" || len(o.binaryData) != 2 {
		t.Errorf("contents: %+v in %d keys, want that the oldest is not kept", all, len(o.binaryData))
	}
	if _, err := o.Kept(all[2], Object{}); !errors.Is(err, ErrNotKept) {
		t.Errorf("to read the oldest = %v, want %v", err, ErrNotKept)
	}
	if o, err = o.Keep(holding(api.Secret, map[string][]byte{"a": random(1 << 20)}), time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if newest, ok := o.Former().Newest(); !ok || newest.Key != "" || len(o.binaryData) > 0 {
		t.Errorf("newest: %+v in %d keys, want that it is known and not kept", newest, len(o.binaryData))
	}
}

// TestContentsThatSomebodyHasChanged are not used.
func TestContentsThatSomebodyHasChanged(t *testing.T) {
	t.Parallel()
	content := holding(api.Secret, map[string][]byte{"a": []byte("1")})
	other, err := pack(map[string][]byte{"a": []byte("2")})
	if err != nil {
		t.Fatal(err)
	}
	bomb, err := pack(map[string][]byte{"a": make([]byte, mostUnpacked)})
	if err != nil {
		t.Fatal(err)
	}
	for name, bytes := range map[string][]byte{"other data": other, "no gzip": []byte("x"), "nothing": {}, "too much": bomb, "half": other[:10]} {
		kept, err := NewFormer(content.Ref).Keep(content, time.Unix(1, 0))
		if err != nil {
			t.Fatal(err)
		}
		newest, _ := kept.Former().Newest()
		kept.binaryData[newest.Key] = bytes
		if got, err := kept.Kept(newest, content); err == nil {
			t.Errorf("%s is read as %v", name, got.Data())
		}
	}
}
