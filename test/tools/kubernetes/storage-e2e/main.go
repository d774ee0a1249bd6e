// Storage-e2e runs Kubernetes' own storage tests for inline CSI volumes against the driver, on a cluster that runs it.
//
//	storage-e2e --kubeconfig=FILE [--junit=FILE]    runs the tests
//	storage-e2e --images                            prints the images that the node must have
//
// Tests.yaml says which tests that are, which of them skip themselves, and which are left out. The program fails when a
// test fails, and when what happened is not what tests.yaml says. It does not know how the cluster was made.
package main

import (
	"cmp"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/reporters"
	"github.com/onsi/gomega"
	"k8s.io/component-base/logs"
	"k8s.io/kubernetes/test/e2e/framework"
	"k8s.io/kubernetes/test/e2e/framework/config"
	// What a failed test's namespace held is printed, above all its Events.
	_ "k8s.io/kubernetes/test/e2e/framework/debug/init"
	// The tests of the API of inline volumes are in this package, among many that are left alone.
	_ "k8s.io/kubernetes/test/e2e/storage"
	imageutils "k8s.io/kubernetes/test/utils/image"

	"github.com/liveconfig-csi/liveconfig/test/tools/kubernetes/storage-e2e/plan"
)

//go:embed tests.yaml
var tests []byte

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "storage-e2e:", err)
		os.Exit(1)
	}
}

func run(out io.Writer) error {
	images := flag.Bool("images", false, "print the images that the node must have, and stop")
	junit := flag.String("junit", "", "file that is to be the report for machines; empty: none")
	config.CopyFlags(config.Flags, flag.CommandLine)
	framework.RegisterCommonFlags(flag.CommandLine)
	framework.RegisterClusterFlags(flag.CommandLine)
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("nothing but flags is expected, got %q", flag.Args())
	}
	if *images {
		_, err := fmt.Fprintln(out, imageutils.GetE2EImage(imageutils.BusyBox))
		return err
	}

	planned, err := plan.Parse(tests)
	if err != nil {
		return fmt.Errorf("read tests.yaml: %w", err)
	}
	folder, err := os.MkdirTemp("", "storage-e2e-")
	if err != nil {
		return fmt.Errorf("make a folder for the definitions of the driver: %w", err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	if err := define(folder); err != nil {
		return err
	}
	ginkgo.BeforeSuite(makeReadOnly)
	return runSpecs(out, planned, *junit)
}

// registerReports has a run fail that ended otherwise than planned, and then has it reported to people and machines.
func registerReports(out io.Writer, planned plan.Plan, junit string) {
	ginkgo.ReportAfterSuite("tests.yaml is true", func(report ginkgo.Report) {
		if differences := planned.Compare(report.SpecReports); len(differences) > 0 {
			ginkgo.Fail("what happened is not what tests.yaml says:\n  " + strings.Join(differences, "\n  "))
		}
	})
	ginkgo.ReportAfterSuite("report", func(report ginkgo.Report) {
		report.SpecReports = planned.Relevant(report.SpecReports)
		var lines strings.Builder
		for _, spec := range report.SpecReports {
			name := cmp.Or(spec.FullText(), spec.LeafNodeType.String())
			fmt.Fprintf(&lines, "\n%-8s %5.1fs  %s", plan.End(spec), spec.RunTime.Seconds(), name)
		}
		_, err := fmt.Fprintln(out, lines.String())
		framework.ExpectNoError(err, "print the results")
		if junit != "" {
			framework.ExpectNoError(reporters.GenerateJUnitReport(report, junit), "write the report")
		}
	})
}

// runSpecs runs the tests that the plan does not leave out. Flags of ginkgo that select tests are overruled.
func runSpecs(out io.Writer, planned plan.Plan, junit string) error {
	framework.TestContext.Provider = "skeleton"
	framework.AfterReadingAllFlags(&framework.TestContext)
	registerReports(out, planned, junit) // Not sooner: the line above runs all that is registered, without the tests.
	logs.InitLogs()
	defer logs.FlushLogs()
	gomega.RegisterFailHandler(framework.Fail)

	suite, reporter := framework.CreateGinkgoConfig()
	suite.LabelFilter, suite.SkipStrings = "", nil
	suite.FocusStrings = planned.Focus()
	reporter.NoColor = true
	reporter.SilenceSkips = true
	outcome := &outcome{}
	ginkgo.RunSpecs(outcome, "Kubernetes storage tests of "+driverName, suite, reporter)
	if outcome.failed {
		return errors.New("the tests failed; what they say is above")
	}
	return nil
}

// outcome is what ginkgo reports about the whole run.
type outcome struct{ failed bool }

// Fail is called by ginkgo when anything went wrong.
func (o *outcome) Fail() { o.failed = true }
