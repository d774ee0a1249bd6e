package page_test

import (
	"slices"
	"testing"

	"github.com/liveconfig-csi/liveconfig/test/kit/page"
)

const text = "# Page\n\n```sh\nintro\n```\n\n## a\n\n```sh\none\ntwo\n```\ntext\n```\nprinted\nlines\n```\n\n```sh\nthree\n```\n\n## a b\n\n```yaml\nno: code\n```\n"

func TestAPage(t *testing.T) {
	t.Parallel()
	for what, tt := range map[string]struct{ got, want []string }{
		"sections":                       {page.Sections(text), []string{"a", "a b"}},
		"commands of the page":           {page.Commands(text), []string{"intro\n", "one\ntwo\n", "three\n"}},
		"commands of a section":          {page.Commands(page.Section(text, "a")), []string{"one\ntwo\n", "three\n"}},
		"commands of the last section":   {page.Commands(page.Section(text, "a b")), nil},
		"commands of no section":         {page.Commands(page.Section(text, "c")), nil},
		"what a section shows":           {page.Shown(page.Section(text, "a")), []string{"printed", "lines"}},
		"what the last section does not": {page.Shown(page.Section(text, "a b")), nil},
	} {
		if !slices.Equal(tt.got, tt.want) {
			t.Errorf("%s = %q, want %q", what, tt.got, tt.want)
		}
	}
}
