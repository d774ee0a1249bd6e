package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// The names below the folder that [Result.Write] writes to.
const (
	pageName    = "RESULTS.md"
	plotsName   = "plots"
	dataName    = "data"
	resultName  = "result.json"
	samplesName = "samples.jsonl"
)

// Write writes the page, its plots, its files and the raw data into a folder, in place of what is there. Git ignores the data: the result
// without samples, and the samples of one series a line.
func (r Result) Write(dir string) error {
	files := map[string][]byte{pageName: []byte(r.Markdown(plotsName))}
	for name, svg := range r.Plots() {
		files[filepath.Join(plotsName, name)] = svg
	}
	folders := []string{plotsName, dataName}
	for _, s := range r.Sections {
		if len(s.Files) > 0 {
			folders = append(folders, s.Key)
		}
		for _, f := range s.Files {
			files[filepath.Join(s.Key, f.Name)] = []byte(f.Text)
		}
	}
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the result: %w", err)
	}
	files[filepath.Join(dataName, resultName)] = append(data, '\n')
	if files[filepath.Join(dataName, samplesName)], err = r.samples(); err != nil {
		return err
	}
	return replace(dir, folders, files)
}

// Plots returns all plots by their file names.
func (r Result) Plots() map[string][]byte {
	all := map[string][]byte{}
	for _, s := range r.Sections {
		for _, g := range s.Groups {
			if g.Key != "" {
				all[fileOf(s.Key, g.Key)] = g.plot()
			}
		}
		for _, c := range s.Charts {
			all[fileOf(s.Key, c.Key)] = c.plot()
		}
	}
	return all
}

func fileOf(section, key string) string { return section + "-" + key + ".svg" }

// line is one of the file of samples.
type line struct {
	Section string    `json:"section"`
	Group   string    `json:"group"`
	Series  string    `json:"series"`
	Unit    Unit      `json:"unit"`
	Runs    [][]int64 `json:"runs"`
}

func (r Result) samples() ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	for _, section := range r.Sections {
		for _, g := range section.Groups {
			for _, s := range g.Series {
				if err := encoder.Encode(line{section.Key, g.Title, s.Key, s.Unit, s.Runs}); err != nil {
					return nil, fmt.Errorf("encode the samples of %s: %w", s.Key, err)
				}
			}
		}
	}
	return text.Bytes(), nil
}

// replace writes files into a folder. What else was in the folders within is gone, so that all there is of one run.
func replace(dir string, folders []string, files map[string][]byte) error {
	for _, name := range folders {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.RemoveAll(path), os.MkdirAll(path, 0o755)); err != nil {
			return err
		}
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}
