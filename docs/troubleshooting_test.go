package docs_test

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestTextsThatPeopleSearchFor: troubleshooting.md has each of them as somebody sees it on a screen and pastes it into a
// search, in one line.
func TestTextsThatPeopleSearchFor(t *testing.T) {
	t.Parallel()
	page := string(read(t, "docs/troubleshooting.md"))
	for name, text := range map[string]string{
		"a deleted pod of an uninstalled driver": "`Completed` or `Error`",
		"a driver that hangs":                    "failed to determine if the node service has VOLUME_MOUNT_GROUP capability",
		"a driver that hangs, at the end":        "error reading server preface",
		"a driver that does not run":             "connect: connection refused",
		"a driver that never ran":                "connect: no such file or directory",
		"a node without the driver":              "driver name csi.liveconfig.internal not found in the list of registered CSI drivers",
		"a cluster without the driver":           `volume mode "Ephemeral" not supported by driver csi.liveconfig.internal (no CSIDriver object)`,
		"a foreign CSIDriver object":             `volume mode "Ephemeral" not supported by driver csi.liveconfig.internal (only supports`,
		"a pod that waits":                       "Unable to attach or mount volumes: unmounted volumes=",
		"a link in the kubelet's directory":      "is a symbolic link to",
		"a kubelet with another directory":       "is not a clean path below the kubelet's directory",
		"a full node":                            "the node's volumes have no room left for a new one",
		"a missing ConfigMap":                    `configmap "NAME" not found`,
		"a missing key of a ConfigMap":           "configmap references non-existent config key: KEY",
		"a missing key of a Secret":              "references non-existent secret key: KEY",
		"an account without a right":             "cannot list resource",
		"a driver without an answer":             "context deadline exceeded",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !strings.Contains(page, text) {
				t.Errorf("docs/troubleshooting.md does not have %q in one line", text)
			}
		})
	}
}

// TestWhatAPodShowsAfterAnUninstall: all pages that speak of the pods of an uninstalled driver name what kubectl prints.
// A pod whose containers have ended is not listed as Terminating.
func TestWhatAPodShowsAfterAnUninstall(t *testing.T) {
	t.Parallel()
	for _, page := range []string{"deploy/README.md", "deploy/chart/templates/NOTES.txt", "docs/troubleshooting.md"} {
		text := strings.Join(strings.Fields(strings.ReplaceAll(string(read(t, page)), "`", "")), " ")
		if !strings.Contains(text, "Completed or Error") || !strings.Contains(text, "no Event") {
			t.Errorf("%s does not say that such a pod shows Completed or Error, and no Event", page)
		}
		if strings.Contains(text, "Terminating") {
			t.Errorf("%s speaks of Terminating, which such a pod does not show", page)
		}
	}
}

// TestTextsOfTheDriverAreItsTexts: what the first column of the table of FailedMount Events quotes is in the code, unless
// it is a text of Kubernetes or gRPC. A message that was changed is changed on the page too.
func TestTextsOfTheDriverAreItsTexts(t *testing.T) {
	t.Parallel()
	page := string(read(t, "docs/troubleshooting.md"))
	_, table, found := strings.Cut(page, "| code and text |")
	table, _, _ = strings.Cut(table, "\n\n")
	code, quoted := texts(t), 0
	for _, row := range strings.Split(table, "\n")[2:] {
		first, _, _ := strings.Cut(strings.TrimPrefix(row, "|"), " | ")
		for _, span := range regexp.MustCompile("`[^`]+`").FindAllString(first, -1) {
			quoted++
			text := strings.Trim(span, "`")
			if !strings.Contains(code, text) && !slices.Contains(textsOfOthers(), text) {
				t.Errorf("docs/troubleshooting.md quotes %q, which neither the driver nor others say", text)
			}
		}
	}
	if !found || quoted < 30 {
		t.Errorf("the table quotes %d texts, want 30 or more", quoted)
	}
}

// textsOfOthers are those of the kubelet, the API server and gRPC, and the driver's with a placeholder.
func textsOfOthers() []string {
	return []string{
		"InvalidArgument", "FailedPrecondition", "PermissionDenied", "ResourceExhausted", "Unavailable", "Aborted", "AlreadyExists",
		"NotFound", "Internal", "DeadlineExceeded", "is forbidden", "cannot list resource", "Unauthorized", "context deadline exceeded",
		"kubernetes.io/csi: mounter.SetUpAt failed to determine if the node service has VOLUME_MOUNT_GROUP capability",
		"error reading server preface", "connect: connection refused", "connect: no such file or directory",
		"driver name csi.liveconfig.internal not found in the list of registered CSI drivers",
		`volume mode "Ephemeral" not supported by driver csi.liveconfig.internal (no CSIDriver object)`,
		`volume mode "Ephemeral" not supported by driver csi.liveconfig.internal (only supports ["Persistent"])`,
		"Unable to attach or mount volumes: unmounted volumes=[config]",
		`configmap "NAME" not found`, `secret "NAME" not found`, "configmap references non-existent config key: KEY",
		"cannot be a file and, for PATH, a directory", "references non-existent secret key: KEY",
	}
}

// texts returns the code of the driver, with texts that continue on the next line in one piece.
func texts(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(filepath.Join(repo, "pkg"), func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
			all.Write(read(t, strings.TrimPrefix(path, repo)))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile(`" \+\s*"`).ReplaceAllString(all.String(), "")
}
