package mountns

import (
	"os"
	"strings"
)

// switches are the system settings known to forbid namespaces, each with the value that does so.
func switches() [][3]string {
	return [][3]string{
		{"/proc/sys/user/max_user_namespaces", "0", "sysctl -w user.max_user_namespaces=10000"},
		{"/proc/sys/user/max_mnt_namespaces", "0", "sysctl -w user.max_mnt_namespaces=10000"},
		{"/proc/sys/kernel/unprivileged_userns_clone", "0", "sysctl -w kernel.unprivileged_userns_clone=1"},
		{
			"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1",
			"sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
		},
	}
}

// advice ends a message about namespaces that were refused: it names the settings in the way, or,
// where none is found, what else may be.
func advice() string {
	var commands []string
	for _, s := range switches() {
		value, err := os.ReadFile(s[0])
		if err == nil && strings.TrimSpace(string(value)) == s[1] {
			commands = append(commands, s[2])
		}
	}
	if len(commands) > 0 {
		return "; to allow it, run as root: " + strings.Join(commands, "; ")
	}
	return "; to allow it, run as root with CAP_SYS_ADMIN, or, in a container, without its seccomp and AppArmor " +
		"profiles (docker run --privileged)"
}
