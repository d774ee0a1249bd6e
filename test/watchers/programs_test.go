package watchers

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/liveconfig-csi/liveconfig/test/kit/process"
)

// askedPrograms are the programs of docs/reload.md that there are packages or modules of, by their names in its table.
func askedPrograms() map[string]askedProgram {
	return map[string]askedProgram{
		"nginx":        nginxAsked(),
		"HAProxy":      haproxyAsked(),
		"Prometheus":   prometheusAsked(),
		"Alertmanager": alertmanagerAsked(),
		"Caddy":        caddyAsked(),
		"CoreDNS":      corednsAsked(),
		"PostgreSQL":   postgresAsked(),
		"Redis":        redisAsked(),
		"rsyslog":      rsyslogAsked(),
	}
}

func (r asked) config() string { return filepath.Join(r.view, r.program.file) }

// atPath asks the program at a path.
func atPath(path string) func(asked) (string, error) {
	return func(r asked) (string, error) { return ask("http://" + r.address + path) }
}

func nginxAsked() askedProgram {
	return askedProgram{
		file: "nginx.conf",
		text: func(r asked, version string) string {
			return strings.Join([]string{
				"user root;", "worker_processes 1;", "pid pid;", "daemon off;", "events {}", "http {", "access_log off;",
				"client_body_temp_path t1;", "proxy_temp_path t2;", "fastcgi_temp_path t3;", "uwsgi_temp_path t4;", "scgi_temp_path t5;",
				"server {", "listen " + r.address + ";", fmt.Sprintf("location / { return 200 %q; }", version), "}", "}", "",
			}, "\n")
		},
		refused: "http { unheard of; }\n",
		command: func(r asked) []string {
			return []string{r.root + "/sbin/nginx", "-e", "stderr", "-p", r.dir, "-c", r.config()}
		},
		flags: []string{"--command", "sh", "-c", "nginx -t && nginx -s reload"},
		in: func(r asked) []string {
			nginx := strings.Join([]string{r.root + "/sbin/nginx", "-e", "stderr", "-p", r.dir, "-c", r.config(), "-"}, " ")
			return []string{"nginx -", nginx}
		},
		answer: atPath("/"),
		reason: "sh: exit status 1",
	}
}

func haproxyAsked() askedProgram {
	return askedProgram{
		file: "haproxy.cfg",
		text: func(r asked, version string) string {
			return strings.Join([]string{
				"defaults", "  mode http", "  timeout client 10s", "frontend web", "  bind " + r.address,
				fmt.Sprintf("  http-request return status 200 content-type text/plain string %q", version), "",
			}, "\n")
		},
		refused: "frontend web\n  unheard of\n",
		command: func(r asked) []string {
			return []string{r.root + "/sbin/haproxy", "-W", "-db", "-p", r.dir + "/pid", "-f", r.config()}
		},
		flags: []string{"--command", "sh", "-c", "haproxy -c -f /etc/haproxy/haproxy.cfg && kill -USR2 $(cat /run/haproxy/pid)"},
		in: func(r asked) []string {
			return []string{
				"haproxy -c", r.root + "/sbin/haproxy -c", "/etc/haproxy/haproxy.cfg", r.config(), "/run/haproxy/pid", r.dir + "/pid",
			}
		},
		answer: atPath("/"),
		reason: "sh: exit status 1",
	}
}

func prometheusAsked() askedProgram {
	return askedProgram{
		file: "prometheus.yml",
		text: func(_ asked, version string) string {
			return fmt.Sprintf("global: {external_labels: {config: %q}}\n", version)
		},
		refused: "global: {unheard: of}\n",
		command: func(r asked) []string {
			return []string{
				r.root + "/bin/prometheus", "--config.file=" + r.config(), "--storage.tsdb.path=" + r.dir + "/data",
				"--web.enable-lifecycle", "--web.listen-address=" + r.address,
			}
		},
		flags: []string{
			"--http=POST http://127.0.0.1:9090/-/reload", "--verify=http://127.0.0.1:9090/metrics",
			"--verify-contains=prometheus_config_last_reload_successful 1",
		},
		in:     func(r asked) []string { return []string{"127.0.0.1:9090", r.address} },
		answer: atPath("/api/v1/status/config"),
		reason: "POST http://127.0.0.1:9090/-/reload: the answer is 500",
	}
}

func alertmanagerAsked() askedProgram {
	return askedProgram{
		file: "alertmanager.yml",
		text: func(_ asked, version string) string {
			return fmt.Sprintf("route: {receiver: %q}\nreceivers: [{name: %q}]\n", version, version)
		},
		refused: "route: {receiver: nobody}\n",
		command: func(r asked) []string {
			return []string{
				r.root + "/bin/prometheus-alertmanager", "--config.file=" + r.config(), "--storage.path=" + r.dir + "/data",
				"--cluster.listen-address=", "--web.listen-address=" + r.address,
			}
		},
		flags: []string{
			"--http=POST http://127.0.0.1:9093/-/reload", "--verify=http://127.0.0.1:9093/metrics",
			"--verify-contains=alertmanager_config_last_reload_successful 1",
		},
		in:     func(r asked) []string { return []string{"127.0.0.1:9093", r.address} },
		answer: atPath("/api/v2/receivers"),
		shares: true,
		reason: "POST http://127.0.0.1:9093/-/reload: the answer is 500",
	}
}

func caddyAsked() askedProgram {
	return askedProgram{
		file: "Caddyfile",
		text: func(r asked, version string) string {
			return fmt.Sprintf("{\n\tadmin %s\n\tauto_https off\n}\nhttp://%s {\n\trespond %q\n}\n", r.other, r.address, version)
		},
		refused: "http://127.0.0.1 {\n\tunheard of\n}\n",
		command: func(r asked) []string {
			return []string{r.root + "/bin/caddy", "run", "--config", r.config(), "--adapter", "caddyfile"}
		},
		env: func(r asked) []string {
			return []string{"XDG_DATA_HOME=" + r.dir + "/data", "XDG_CONFIG_HOME=" + r.dir + "/data"}
		},
		flags: []string{"--command", "caddy", "reload", "--config", "/etc/caddy/Caddyfile"},
		in: func(r asked) []string {
			return []string{"/etc/caddy/Caddyfile", r.config(), "caddy", r.root + "/bin/caddy"}
		},
		answer: atPath("/"),
		reason: "caddy: exit status 1",
	}
}

// corednsAsked answers each name with an address whose last number is the version.
func corednsAsked() askedProgram {
	return askedProgram{
		file: "Corefile",
		text: func(r asked, version string) string {
			host, port, _ := net.SplitHostPort(r.address)
			number := strings.TrimPrefix(version, "version ")
			const server = ".:%s {\n\tbind %s\n\thosts {\n\t\t192.0.2.%s config.example\n\t}\n\terrors\n}\n"
			return fmt.Sprintf(server, port, host, number)
		},
		refused: ". {\n\tunheard of\n}\n",
		command: func(r asked) []string {
			return []string{filepath.Join("..", "..", "bin", "tools", "coredns"), "-conf", r.config()}
		},
		flags: []string{"--signal=USR1", "--process=coredns"},
		in:    func(asked) []string { return nil },
		answer: func(r asked) (string, error) {
			resolver := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "udp", r.address)
			}}
			addresses, err := resolver.LookupHost(context.Background(), "config.example.")
			return strings.ReplaceAll(strings.Join(addresses, " "), "192.0.2.", "version "), err
		},
		log: "Unknown directive 'unheard'",
	}
}

// postgresAsked has a setting whose number is the version. The program does not run as root.
func postgresAsked() askedProgram {
	const programs = "/lib/postgresql/15/bin/"
	return askedProgram{
		file: "postgresql.conf",
		text: func(r asked, version string) string {
			host, port, _ := net.SplitHostPort(r.address)
			number := strings.TrimPrefix(version, "version ")
			return fmt.Sprintf("listen_addresses = '%s'\nport = %s\nunix_socket_directories = ''\nstatement_timeout = '%smin'\n", host, port, number)
		},
		refused: "statement_timeout = 'for ever'\n",
		command: func(r asked) []string {
			script := `initdb --no-sync --auth=trust --username=postgres --locale=C -D data/db && exec postgres -D data/db -c config_file="$1"`
			return []string{
				"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
				"sh", "-c", `cd "$2" && PATH=$3:$PATH && ` + script, "sh", r.config(), r.dir, r.root + programs,
			}
		},
		env: func(r asked) []string {
			_, port, _ := net.SplitHostPort(r.address)
			return []string{"PGPORT=" + port}
		},
		flags: []string{
			"--command", "psql", "-h", "127.0.0.1", "-U", "postgres", "-v", "ON_ERROR_STOP=1",
			"-c", "select 1 / (count(*) = 0)::int from pg_file_settings where error is not null", "-c", "select pg_reload_conf()",
		},
		in: func(r asked) []string {
			host, _, _ := net.SplitHostPort(r.address)
			return []string{"psql", r.root + programs + "psql", "127.0.0.1", host}
		},
		answer: func(r asked) (string, error) {
			host, _, _ := net.SplitHostPort(r.address)
			text := new(strings.Builder)
			cmd := exec.CommandContext(context.Background(), r.root+programs+"psql",
				"-XAt", "-h", host, "-U", "postgres", "-c", "show statement_timeout")
			cmd.Env, cmd.Stdout, cmd.Stderr = r.environment(), text, text
			err := process.RunBeside(cmd, r.process.PID())
			return "version " + text.String(), err
		},
		reason: "psql: exit status 1",
	}
}
