package kustomizer

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// Kustomize reads a base again wherever a kustomization names it, so that a few small files can
// stand for very many.
const (
	maxReads = 4_000
	maxBytes = 64 << 20
)

// RefusedError is why a kustomization is refused that kustomize itself might render.
type RefusedError struct {
	// File is what was refused.
	File   string
	Reason string
}

func (e *RefusedError) Error() string { return e.File + ": " + e.Reason }

// localFiles are the files that kustomize sees. A kustomization that names something remote is
// refused when kustomize reads it, before kustomize looks at any of its paths.
type localFiles struct {
	filesys.FileSystem

	reads, bytes int
	// refusal is why a file was refused, or nil.
	refusal *RefusedError
}

func newLocalFiles() *localFiles { return &localFiles{FileSystem: filesys.MakeFsOnDisk()} }

// ReadFile returns what a file has.
func (f *localFiles) ReadFile(path string) ([]byte, error) {
	if f.refusal != nil {
		return nil, f.refusal
	}
	text, err := f.read(path)
	if err != nil {
		return nil, err
	}
	if f.reads > maxReads || f.bytes > maxBytes {
		return nil, f.refuse(path, fmt.Sprintf("kustomize reads more than %d files or %d MiB up to here: name fewer bases",
			maxReads, maxBytes>>20))
	}
	if !slices.Contains(konfig.RecognizedKustomizationFileNames(), filepath.Base(path)) {
		return text, nil
	}
	if reason := refusalOf(text); reason != "" {
		return nil, f.refuse(path, reason)
	}
	return text, nil
}

func (f *localFiles) refuse(path, reason string) error {
	f.refusal = &RefusedError{path, reason}
	return f.refusal
}

// read returns no more of a file than one byte above the limit.
func (f *localFiles) read(path string) ([]byte, error) {
	f.reads++
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // It was only read.
	text, err := io.ReadAll(io.LimitReader(file, int64(maxBytes-f.bytes+1)))
	f.bytes += len(text)
	return text, err
}

// refusalOf returns why the text of a kustomization is refused: kustomize would fetch something for
// it, or might do so. It is empty for a text that kustomize cannot read, whose mistake kustomize
// names.
func refusalOf(text []byte) string {
	var k types.Kustomization
	if err := k.Unmarshal(text); err != nil {
		return ""
	}
	k.FixKustomization()
	for _, group := range pathsOf(k) {
		if at := slices.IndexFunc(group.paths, isRemote); at >= 0 {
			return fmt.Sprintf("%s: %q is remote, and the plugin fetches nothing", group.field, group.paths[at])
		}
	}
	for _, program := range programsOf(k) {
		if program.count > 0 {
			return program.field + " can fetch what they want, and the plugin fetches nothing"
		}
	}
	return ""
}
