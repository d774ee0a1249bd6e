package watchers

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/liveconfig-csi/liveconfig/test/kit/process"
)

// redisAsked has a user whose name is the version, in the file of users.
func redisAsked() askedProgram {
	const user = "user %s on nopass ~* +get\n"
	users := func(version string) string {
		return "user default on nopass ~* &* +@all\n" + fmt.Sprintf(user, strings.ReplaceAll(version, " ", "-"))
	}
	return askedProgram{
		file:    "users.acl",
		text:    func(_ asked, version string) string { return users(version) },
		refused: users("version 0") + "user other +unheard-of\n",
		command: func(r asked) []string {
			host, port, _ := net.SplitHostPort(r.address)
			return []string{
				r.root + "/bin/redis-server", "--bind", host, "--port", port, "--dir", r.dir + "/data", "--save", "", "--aclfile", r.config(),
			}
		},
		flags: []string{"--command", "redis-cli", "-u", "redis://127.0.0.1:6379", "-e", "acl", "load"},
		in: func(r asked) []string {
			return []string{"redis-cli", r.root + "/bin/redis-cli", "127.0.0.1:6379", r.address}
		},
		answer: func(r asked) (string, error) {
			text := new(strings.Builder)
			cmd := exec.CommandContext(context.Background(), r.root+"/bin/redis-cli", "-u", "redis://"+r.address, "-e", "acl", "users")
			cmd.Env, cmd.Stdout, cmd.Stderr = r.environment(), text, text
			err := process.RunBeside(cmd, r.process.PID())
			return strings.ReplaceAll(text.String(), "version-", "version "), err
		},
		reason: "redis-cli: exit status 1",
	}
}

// rsyslogAsked has a lookup table with the version, which rsyslog writes for each message that it gets.
func rsyslogAsked() askedProgram {
	return askedProgram{
		file: "versions.json",
		text: func(_ asked, version string) string {
			return fmt.Sprintf(`{"version": 1, "nomatch": "", "type": "string", "table": [{"index": "of", "value": %q}]}`+"\n", version)
		},
		refused: `{"version": 1, "type": "unheard of"}` + "\n",
		command: func(r asked) []string {
			host, port, _ := net.SplitHostPort(r.address)
			config := strings.Join([]string{
				`module(load="imudp")`,
				fmt.Sprintf(`input(type="imudp" address="%s" port="%s")`, host, port),
				fmt.Sprintf(`lookup_table(name="versions" file="%s" reloadOnHUP="on")`, r.config()),
				`template(name="version" type="string" string="%$.version%\n")`,
				`if $syslogtag contains "rsyslogd" then { action(type="omfile" file="/dev/stderr") stop }`,
				`set $.version = lookup("versions", "of");`,
				fmt.Sprintf(`action(type="omfile" file="%s/data/versions" template="version")`, r.dir), "",
			}, "\n")
			const script = `printf %s "$1" >"$2/rsyslog.conf" && exec "$3/sbin/rsyslogd" -n -f "$2/rsyslog.conf" -i "$2/pid" -M "$(echo "$3"/lib/*/rsyslog)"`
			return []string{"sh", "-c", script, "sh", config, r.dir, r.root}
		},
		flags: []string{"--signal=HUP", "--process=rsyslogd"},
		in:    func(asked) []string { return nil },
		answer: func(r asked) (string, error) {
			conn, err := new(net.Dialer).DialContext(context.Background(), "udp", r.address)
			if err != nil {
				return "", err
			}
			defer conn.Close()
			if _, err := conn.Write([]byte("<13>test: a message\n")); err != nil {
				return "", err
			}
			<-time.After(100 * time.Millisecond) // The message of before may be the last one yet: then it is asked again.
			text, err := os.ReadFile(filepath.Join(r.dir, "data", "versions"))
			lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
			return lines[len(lines)-1], err
		},
		log: "lookup table 'versions' could not be reloaded",
	}
}
