// Storage-e2e runs Kubernetes' own storage tests against the driver, on a cluster that runs it.
//
//	storage-e2e --suite=inline --kubeconfig=FILE [--junit=FILE]    runs the tests of inline CSI volumes
//	storage-e2e --suite=volumes ...                                runs those of volumes of ConfigMaps and Secrets
//	storage-e2e --suite=control ...                                runs the latter with the kubelet's own volumes
//	storage-e2e --suite=... --only=REGEXP --but=REGEXP             runs those that match the first and not the second
//	storage-e2e --suite=... --images                               prints the images that the node must have
//
// Inline.yaml and volumes.yaml say which tests these are, which of them skip themselves, and which are left out. The program
// fails when a test fails, and when what happened is not what the file says. It does not know how the cluster was made.
package main

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/reporters"
	"github.com/onsi/gomega"
	"k8s.io/component-base/logs"
	"k8s.io/kubernetes/test/e2e/framework"
	"k8s.io/kubernetes/test/e2e/framework/config"
	// What a failed test's namespace held is printed, above all its Events.
	_ "k8s.io/kubernetes/test/e2e/framework/debug/init"
	// The tests are in these packages, among many that are left alone.
	_ "k8s.io/kubernetes/test/e2e/common/storage"
	_ "k8s.io/kubernetes/test/e2e/storage"
	imageutils "k8s.io/kubernetes/test/utils/image"

	"github.com/liveconfig-csi/liveconfig/test/tools/kubernetes/storage-e2e/plan"
)

//go:embed inline.yaml
var inlineTests []byte

//go:embed volumes.yaml
var volumeTests []byte

// suite is a set of tests with what they need.
type suite struct {
	tests  []byte
	images []imageutils.ImageID
	// before is run before the tests.
	before func(context.Context)
}

// suites returns all suites by their names.
func suites() map[string]suite {
	volumes := []imageutils.ImageID{imageutils.Agnhost, imageutils.BusyBox}
	return map[string]suite{
		"inline":  {inlineTests, []imageutils.ImageID{imageutils.BusyBox}, makeReadOnly},
		"volumes": {volumeTests, volumes, convertVolumes},
		"control": {volumeTests, volumes, func(context.Context) {}},
	}
}

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "storage-e2e:", err)
		os.Exit(1)
	}
}

func run(out io.Writer) error {
	name := flag.String("suite", "", "which tests: inline, volumes or control")
	images := flag.Bool("images", false, "print the images that the node must have, and stop")
	only := flag.String("only", "", "regular expression of the tests to run; empty: all")
	but := flag.String("but", "", "regular expression of tests to leave out; empty: none")
	junit := flag.String("junit", "", "file that is to be the report for machines; empty: none")
	config.CopyFlags(config.Flags, flag.CommandLine)
	framework.RegisterCommonFlags(flag.CommandLine)
	framework.RegisterClusterFlags(flag.CommandLine)
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("nothing but flags is expected, got %q", flag.Args())
	}
	chosen, isKnown := suites()[*name]
	if !isKnown {
		return fmt.Errorf("--suite is %q, want inline, volumes or control", *name)
	}
	if *images {
		for _, image := range chosen.images {
			fmt.Fprintln(out, imageutils.GetE2EImage(image))
		}
		return nil
	}

	planned, err := plan.Parse(chosen.tests)
	if err != nil {
		return fmt.Errorf("read the tests of %s: %w", *name, err)
	}
	match, err := expression("only", *only)
	if err != nil {
		return err
	}
	exclude, err := expression("but", *but)
	if err != nil {
		return err
	}
	planned = planned.Only(match, exclude)
	folder, err := os.MkdirTemp("", "storage-e2e-")
	if err != nil {
		return fmt.Errorf("make a folder for the definitions of the driver: %w", err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	if err := define(folder); err != nil {
		return err
	}
	ginkgo.BeforeSuite(chosen.before)
	return runSpecs(out, planned, *junit)
}

// expression returns nil for no expression.
func expression(name, text string) (*regexp.Regexp, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // As it says.
	}
	read, err := regexp.Compile(text)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", name, err)
	}
	return read, nil
}

// registerReports has a run fail that ended otherwise than planned, and then has it reported to people and machines.
func registerReports(out io.Writer, planned plan.Plan, junit string) {
	ginkgo.ReportAfterSuite("the plan is true", func(report ginkgo.Report) {
		if differences := planned.Compare(report.SpecReports); len(differences) > 0 {
			ginkgo.Fail("what happened is not what is planned:\n  " + strings.Join(differences, "\n  "))
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
