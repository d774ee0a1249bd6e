package printing_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/liveconfig-csi/liveconfig/pkg/cli/printing"
)

func TestUnified(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		before, after []byte
		want          string
	}{
		"equal texts have no diff":        {before: []byte("a\n"), after: []byte("a\n"), want: ""},
		"equal bytes have no diff":        {before: []byte{0xff, 0}, after: []byte{0xff, 0}, want: ""},
		"two that do not exist are equal": {want: ""},
		"two empty ones are equal":        {before: []byte{}, after: []byte{}, want: ""},
		"lines are shown with three around them": {
			before: []byte("1\n2\n3\n4\n5\n6\n7\n8\n9\n"), after: []byte("1\n2\n3\n4\nfive\n6\n7\n8\n9\n"),
			want: "--- old\n+++ new\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n",
		},
		"a missing end of the last line is shown": {
			before: []byte("a\n"), after: []byte("a"),
			want: "--- old\n+++ new\n@@ -1,1 +1,1 @@\n-a\n+a\n\\ No newline at end of file\n",
		},
		"what is added is against nothing": {
			after: []byte("a\n"), want: "--- /dev/null\n+++ new\n@@ -0,0 +1,1 @@\n+a\n",
		},
		"what is removed is against nothing": {
			before: []byte("a\n"), want: "--- old\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-a\n",
		},
		"an empty file is more than none": {after: []byte{}, want: "--- /dev/null\n+++ new\nadded, 0 bytes\n"},
		"of binary data the size is shown": {
			before: []byte{0xff}, after: []byte("text\n"), want: "--- old\n+++ new\nchanged, 1 byte -> 5 bytes\n",
		},
		"a zero byte is binary data": {
			before: []byte("a"), after: []byte("a\x00b"), want: "--- old\n+++ new\nchanged, 1 byte -> 3 bytes\n",
		},
	} {
		got := printing.Unified("old", "new", test.before, test.after)
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: diff (-want +got):\n%s", name, diff)
		}
	}
}

func TestMasked(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		before, after []byte
		want          string
	}{
		"equal ones have no diff":     {before: []byte("hush"), after: []byte("hush"), want: ""},
		"a change is shown by sizes":  {before: []byte("hush-hush-12"), after: []byte("hush-hush-1234"), want: "--- old\n+++ new\nchanged, 12 bytes -> 14 bytes\n"},
		"a change of the same size":   {before: []byte("hush"), after: []byte("hish"), want: "--- old\n+++ new\nchanged, 4 bytes -> 4 bytes\n"},
		"what is added has a size":    {after: []byte("hush"), want: "--- /dev/null\n+++ new\nadded, 4 bytes\n"},
		"what is removed has a size":  {before: []byte("hush"), want: "--- old\n+++ /dev/null\nremoved, 4 bytes\n"},
		"an empty one is not nothing": {before: []byte{}, want: "--- old\n+++ /dev/null\nremoved, 0 bytes\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := printing.Masked("old", "new", test.before, test.after)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("diff (-want +got):\n%s", diff)
			}
			if strings.Contains(got, "hush") {
				t.Error("it shows what is secret")
			}
		})
	}
}
