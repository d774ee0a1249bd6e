package budget

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"k8s.io/klog/v2"
)

const (
	secondMount = "30 23 0:26 / TOP/sys rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
	firstMount  = "35 31 0:32 / TOP/memory rw,relatime - cgroup cgroup rw,memory\n"
	otherMounts = "22 1 254:1 / / rw shared:1 - ext4 /dev/root rw\n32 31 0:29 / TOP/cpu rw - cgroup cgroup rw,cpu,cpuacct\n31 23 0:28 / TOP rw - tmpfs  rw\n"
	none        = "9223372036854771712\n" // What version 1 has for no limit.
)

// TestCgroupLimit reads trees of files as the kernel shows them. TOP is the directory of the test.
func TestCgroupLimit(t *testing.T) {
	t.Parallel()
	const pod, container = "sys/kubepods.slice/pod1.slice", "sys/kubepods.slice/pod1.slice/cri-1.scope"
	const inPod = "0::/kubepods.slice/pod1.slice/cri-1.scope\n"
	type files = map[string]string
	for name, tt := range map[string]struct {
		groups, mounts string
		files          files
		want           int64
		wantErr        string
	}{
		"version 2, in the group's own namespace":     {groups: "0::/\n", mounts: secondMount, files: files{"sys/memory.max": "134217728\n"}, want: 128 * mebibyte},
		"version 2 without a limit":                   {groups: "0::/\n", mounts: secondMount, files: files{"sys/memory.max": "max\n"}},
		"the root of version 2, which has no file":    {groups: "0::/\n", mounts: secondMount, files: files{"sys/cgroup.procs": ""}},
		"the group's limit":                           {groups: inPod, mounts: secondMount, files: files{container + "/memory.max": "100\n", pod + "/memory.max": "max\n"}, want: 100},
		"the pod's limit, which is smaller":           {groups: inPod, mounts: secondMount, files: files{container + "/memory.max": "100\n", pod + "/memory.max": "99\n"}, want: 99},
		"a lower bound at which the kernel throttles": {groups: inPod, mounts: secondMount, files: files{container + "/memory.max": "100\n", container + "/memory.high": "90\n"}, want: 90},
		"a bound of the pod, without a limit":         {groups: inPod, mounts: secondMount, files: files{container + "/memory.max": "max\n", pod + "/memory.high": "80\n"}, want: 80},
		"a bound above the limit":                     {groups: inPod, mounts: secondMount, files: files{container + "/memory.max": "100\n", container + "/memory.high": "101\n"}, want: 100},
		"a bound of none":                             {groups: inPod, mounts: secondMount, files: files{container + "/memory.max": "100\n", container + "/memory.high": "max\n"}, want: 100},
		"a limit far above":                           {groups: inPod, mounts: secondMount, files: files{container + "/memory.max": "max\n", "sys/kubepods.slice/memory.max": "7\n"}, want: 7},
		"more than there can be":                      {groups: "0::/\n", mounts: secondMount, files: files{"sys/memory.max": "18446744073709551615\n"}},
		"a mount that shows a part of the hierarchy":  {groups: "0::/pods/a/b\n", mounts: "30 23 0:26 /pods/a TOP/sys rw - cgroup2 cgroup2 rw\n", files: files{"sys/b/memory.max": "8\n"}, want: 8},
		"a mount of the group itself, and the parent": {groups: "0::/pods/a\n", mounts: "30 23 0:26 /pods/a TOP/sys rw - cgroup2 c rw\n" + "30 23 0:26 /pods TOP/more rw - cgroup2 c rw\n", files: files{"sys/memory.max": "8\n", "more/a/memory.max": "8\n", "more/memory.max": "6\n"}, want: 6},
		"a mount of another group":                    {groups: "0::/pods/a\n", mounts: "30 23 0:26 /pods/other TOP/sys rw - cgroup2 cgroup2 rw\n", files: files{"sys/memory.max": "8\n"}, wantErr: "no mount shows the control group /pods/a"},
		"a group outside of the namespace":            {groups: "0::/../other\n", mounts: secondMount, files: files{"sys/memory.max": "8\n"}, wantErr: "no mount shows the control group /../other"},
		"a group that is gone":                        {groups: "0::/gone\n", mounts: secondMount, files: files{"sys/memory.max": "8\n"}, wantErr: "no mount shows the control group /gone"},
		"no mount":                                    {groups: "0::/\n", wantErr: "no mount shows the control group /"},
		"no number":                                   {groups: "0::/\n", mounts: secondMount, files: files{"sys/memory.max": "much\n"}, wantErr: `memory.max: strconv.ParseUint: parsing "much"`},
		"no number above a limit":                     {groups: "0::/a\n", mounts: secondMount, files: files{"sys/a/memory.max": "9\n", "sys/memory.max": "much\n"}, want: 9},

		"version 1": {groups: "5:cpu,cpuacct:/a\n4:memory:/a\n", mounts: firstMount, files: files{"memory/a/memory.limit_in_bytes": "67108864\n"}, want: 64 * mebibyte},
		"version 1 without a limit": {
			groups: "4:memory:/\n", mounts: firstMount, files: files{"memory/memory.limit_in_bytes": none, "memory/memory.stat": "cache 1\nhierarchical_memory_limit " + none},
		},
		"version 1 without a limit, with pages of 64 KiB": {groups: "4:memory:/\n", mounts: firstMount, files: files{"memory/memory.limit_in_bytes": "9223372036854710272\n"}},
		"version 1, and a limit above that no mount shows": {
			groups: "4:memory:/pod/a\n", mounts: strings.Replace(firstMount, " / ", " /pod/a ", 1),
			files: files{"memory/memory.limit_in_bytes": none, "memory/memory.stat": "cache 1\nhierarchical_memory_limit 50\nrss 2\n"}, want: 50,
		},
		"both versions, with memory in the first": {
			groups: "4:cpu,memory:/a\n0::/b\n", mounts: firstMount + secondMount, files: files{"memory/a/memory.limit_in_bytes": "5\n", "sys/b/memory.max": "4\n"}, want: 5,
		},
		"both versions, with memory in the second": {
			groups: "4:cpu:/a\n1:name=systemd:/x\n0::/b\n", mounts: firstMount + secondMount, files: files{"memory/a/memory.limit_in_bytes": "5\n", "sys/b/memory.max": "4\n"}, want: 4,
		},
		"no groups":          {},
		"no group of memory": {groups: "4:cpu:/a\n1:name=systemd:/x\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			top := t.TempDir()
			put(t, top, "proc/cgroup", tt.groups)
			put(t, top, "proc/mountinfo", otherMounts+tt.mounts)
			for file, text := range tt.files {
				put(t, top, file, text)
			}
			got, err := cgroupLimit(filepath.Join(top, "proc"))
			if got != tt.want || (err == nil) != (tt.wantErr == "") || err != nil && !strings.Contains(err.Error(), tt.wantErr) {
				t.Errorf("cgroupLimit = %d, %v, want %d, %q", got, err, tt.want, tt.wantErr)
			}
		})
	}
	if _, err := cgroupLimit(t.TempDir()); err == nil {
		t.Error("cgroupLimit = nil without /proc, want an error")
	}
}

func put(t *testing.T, top, file, text string) {
	t.Helper()
	path := filepath.Join(top, file)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(text, "TOP", top)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// inGroup has TestPrintLimit print the limits, in the process that TestRealCgroup starts.
const inGroup = "LIVECONFIG_PRINT_LIMIT"

// TestPrintLimit is the process of TestRealCgroup, and nothing else.
func TestPrintLimit(t *testing.T) {
	if os.Getenv(inGroup) == "" {
		return
	}
	m, err := NewMemory(0, klog.Background())
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("container", m.limit, "heap", debug.SetMemoryLimit(-1))
}

// TestRealCgroup reads the limit of a group that the kernel has made. An ordinary user may not make one: then the log shows it,
// and test/driver starts the driver in one.
func TestRealCgroup(t *testing.T) {
	t.Parallel()
	const want = 96 * mebibyte
	top, file := "/sys/fs/cgroup", "memory.max"
	if _, err := os.Stat("/sys/fs/cgroup/memory/memory.limit_in_bytes"); err == nil {
		top, file = "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
	}
	dir := filepath.Join(top, fmt.Sprintf("liveconfig-budget-%d", os.Getpid()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Logf("no real control group was read, because this user cannot make one: %v", err)
		return
	}
	t.Cleanup(func() {
		if err := os.Remove(dir); err != nil {
			t.Errorf("remove the control group: %v", err)
		}
	})
	below := filepath.Join(dir, "below")
	if err := os.Mkdir(below, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(below) })
	if err := os.WriteFile(filepath.Join(dir, file), []byte(strconv.Itoa(want)), 0o600); err != nil {
		t.Logf("no real control group was read, because this machine limits no memory of one: %v", err)
		return
	}
	heap := heapLimit(want, 0)
	for name, tt := range map[string]struct {
		dir, variable string
		wantHeap      int64
	}{
		"the group":                  {dir: dir, variable: "GOMEMLIMIT=", wantHeap: heap},
		"a group below it":           {dir: below, variable: "GOMEMLIMIT=", wantHeap: heap},
		"the group, with GOMEMLIMIT": {dir: dir, variable: "GOMEMLIMIT=50MiB", wantHeap: 50 * mebibyte},
	} {
		command := exec.CommandContext(t.Context(), "/bin/sh", "-c", `echo $$ > "$0/cgroup.procs" && exec "$@"`,
			tt.dir, os.Args[0], "-test.run=^TestPrintLimit$", "-test.v")
		command.Env = append(os.Environ(), inGroup+"=1", tt.variable)
		out, err := command.CombinedOutput()
		if text := fmt.Sprintln("container", want, "heap", tt.wantHeap); err != nil || !strings.Contains(string(out), text) {
			t.Errorf("%s: %v, want %sgot:\n%s", name, err, text, out)
		}
	}
}
