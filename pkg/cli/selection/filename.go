package selection

import (
	"encoding/csv"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// Filenames is the value of --filename: names of files and directories, and - for stdin. It refuses
// a URL when it is set, so that no command fetches one, whatever reads the files.
type Filenames struct {
	names *[]string
	c     *cobra.Command
}

// AddFilenameFlag adds --filename, which sets names. Every command that reads manifests has its
// flag from here.
func AddFilenameFlag(c *cobra.Command, names *[]string) {
	c.Flags().VarP(&Filenames{names: names, c: c}, "filename", "f", "file or directory of manifests; - is stdin")
}

// Set adds names, which commas separate.
func (f *Filenames) Set(text string) error {
	if text == "" {
		return nil
	}
	names, err := csv.NewReader(strings.NewReader(text)).Read()
	if err != nil {
		return fmt.Errorf("read the names between the commas: %w", err)
	}
	for _, name := range names {
		if strings.Contains(name, "://") {
			url := "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
			return fmt.Errorf("it is a URL, and the plugin fetches none: download the file with `curl -fsSLO %s` and "+
				"use -f FILE, or pipe it with `curl -fsSL %[1]s | %s -f -`", url, f.c.CommandPath())
		}
	}
	*f.names = append(*f.names, names...)
	return nil
}

// String returns the names as Set takes them.
func (f *Filenames) String() string {
	if f.names == nil { // It is the zero value, with which pflag compares.
		return ""
	}
	return strings.Join(*f.names, ",")
}

// Type is what help calls the value.
func (*Filenames) Type() string { return "strings" }
