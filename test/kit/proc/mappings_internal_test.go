package proc

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseMappings(t *testing.T) {
	t.Parallel()
	const text = `00400000-01000000 r-xp 00000000 fe:00 12                         /usr/bin/app
Size:              12288 kB
Rss:                1000 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me
c000000000-c000400000 rw-p 00000000 00:00 0
Rss:                2048 kB
Anonymous:          2048 kB
c000400000-c000800000 rw-p 00000000 00:00 0                      [anon: Go: heap]
Rss:                   4 kB
Anonymous:             4 kB
c000800000-c000c00000 rw-p 00000000 00:00 0
Rss:                 100 kB
Anonymous:           100 kB
`
	tests := map[string]struct {
		text string
		want []Mapping
		err  string
	}{
		"by file and rights": {text: text, want: []Mapping{
			{Name: "of no file rw-p", Memory: Memory{Resident: 2148 << 10, Anonymous: 2148 << 10}},
			{Name: "app r-xp", Memory: Memory{Resident: 1000 << 10}},
			{Name: "[anon: Go: heap] rw-p", Memory: Memory{Resident: 4 << 10, Anonymous: 4 << 10}},
		}},
		"nothing":                  {want: []Mapping{}},
		"figures without a name":   {text: "Rss: 4 kB\n", err: "of no mapping"},
		"a figure that is no such": {text: strings.Replace(text, "2048", "many", 1), err: "invalid syntax"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := parseMappings(tt.text)
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Fatalf("error = %v, want %q in it", err, tt.err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("mappings (-want +got):\n%s", diff)
			}
		})
	}
}

// TestMappingsOfThisProcess looks that all together is what the kernel reports of the process.
func TestMappingsOfThisProcess(t *testing.T) {
	t.Parallel()
	all, err := MappingsOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	var sum Memory
	for _, m := range all {
		sum.Resident, sum.Anonymous = sum.Resident+m.Resident, sum.Anonymous+m.Anonymous
	}
	want, err := MemoryOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if sum.Resident < want.Resident/2 || sum.Resident > want.Resident*2 || sum.Anonymous == 0 {
		t.Errorf("mappings are %+v together, want about %+v", sum, want)
	}
}
