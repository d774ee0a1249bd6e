package main

import (
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/onsi/ginkgo/v2"
	"k8s.io/kubernetes/test/e2e/storage/external"
	storageframework "k8s.io/kubernetes/test/e2e/storage/framework"
	"k8s.io/kubernetes/test/e2e/storage/testsuites"
)

const driverName = "csi.liveconfig.internal"

//go:embed drivers/*.yaml
var drivers embed.FS

// define makes tests of every file in drivers, under the file's name. Kubernetes reads the files from the folder, whenever
// ginkgo puts its tests together.
func define(folder string) error {
	testsuites.CSISuites, testsuites.BaseSuites = inlineSuites(testsuites.CSISuites), nil
	files, err := drivers.ReadDir("drivers")
	if err != nil {
		return err
	}
	for _, file := range files {
		data, err := drivers.ReadFile("drivers/" + file.Name())
		if err != nil {
			return err
		}
		path := filepath.Join(folder, file.Name())
		if err := os.WriteFile(path, data, 0o600); err != nil {
			return fmt.Errorf("write a definition of the driver: %w", err)
		}
		ginkgo.Describe("Defined as "+strings.TrimSuffix(file.Name(), ".yaml"), func() {
			if err := external.AddDriverDefinition(path); err != nil {
				panic(err) // As ginkgo has it for what goes wrong before there are tests.
			}
		})
	}
	return nil
}

// inlineSuites drops what tests no inline CSI volume: whole suites, and the other kinds of volumes in the rest.
func inlineSuites(all []func() storageframework.TestSuite) []func() storageframework.TestSuite {
	var kept []func() storageframework.TestSuite
	for _, suite := range all {
		inline := inlineSuite{TestSuite: suite()}
		for _, pattern := range inline.TestSuite.GetTestSuiteInfo().TestPatterns {
			if pattern.VolType == storageframework.CSIInlineVolume {
				inline.patterns = append(inline.patterns, pattern)
			}
		}
		if len(inline.patterns) > 0 {
			kept = append(kept, func() storageframework.TestSuite { return inline })
		}
	}
	return kept
}

// inlineSuite is a suite with only those of its patterns that are of inline CSI volumes.
type inlineSuite struct {
	storageframework.TestSuite

	patterns []storageframework.TestPattern
}

// GetTestSuiteInfo is what the suite says of itself, but for the patterns.
func (s inlineSuite) GetTestSuiteInfo() storageframework.TestSuiteInfo {
	info := s.TestSuite.GetTestSuiteInfo()
	info.TestPatterns = s.patterns
	return info
}
