package e2e_test

// exampleCases has what each example comes to, by its folder.
func exampleCases() map[string]exampleCase {
	return map[string]exampleCase{
		"short-form":         shortFormExample(),
		"optional-override":  optionalOverrideExample(),
		"redis":              redisExample(),
		"several-sources":    severalSourcesExample(),
		"dashboards":         dashboardsExample(),
		"tls-owner":          tlsOwnerExample(),
		"cross-namespace-ca": crossNamespaceExample(),
		"subpath-inplace":    subPathExample(),
		"replace":            replaceExample(),
		"never":              neverExample(),
		"secret-in-config":   secretInConfigExample(),
		reloadExample:        reloadCase(),
	}
}

func shortFormExample() exampleCase {
	const page, get = "/usr/share/nginx/html/index.html", "curl --silent http://localhost:8080/"
	return exampleCase{app: "web", user: "101", after: []look{
		{
			owners: map[string]string{page: "0:0 644"},
			prints: map[string]string{get + " | head -n 1": "<!doctype html>\n", get + " | wc -l": "3\n"},
		},
		{files: map[string]string{page: "<p>Changed\n"}, prints: map[string]string{get: "<p>Changed\n"}},
	}}
}

func optionalOverrideExample() exampleCase {
	const app, log = "/etc/app/app.properties", "/etc/app/log.properties"
	return exampleCase{app: "optional-override", user: "65534", after: []look{
		{
			files:  map[string]string{app: "workers=4\n", log: "level=info\n"},
			owners: map[string]string{app: "0:65534 440", log: "0:65534 440"},
			log:    []string{"workers=4\nlevel=info\n"},
		},
		{files: map[string]string{app: "workers=4\n", log: "level=debug\n"}, log: []string{"workers=4\nlevel=debug\n"}},
		{files: map[string]string{app: "workers=4\n", log: "level=info\n"}, log: []string{"level=debug\nworkers=4\nlevel=info\n"}},
	}}
}

func redisExample() exampleCase {
	const config, override = "/mnt/config/etc/redis.conf", "/mnt/config/etc/override.conf"
	const password = "/mnt/config/auth/password"
	return exampleCase{app: "redis", user: "0", secret: []string{password}, after: []look{
		{
			files:  map[string]string{password: "change-me"},
			owners: map[string]string{config: "0:0 444", password: "0:0 400"},
			gone:   []string{override},
			prints: map[string]string{"grep port " + config: "port 6379\n", "ls /mnt/config/etc": "redis.conf\n"},
			log:    []string{"port 6379\n", `requirepass "change-me"`},
		},
		{
			files:  map[string]string{override: "maxmemory 64mb\nmaxmemory-policy allkeys-lru\n"},
			owners: map[string]string{override: "0:0 644", password: "0:0 400"},
		},
		{files: map[string]string{password: "another"}, owners: map[string]string{password: "0:0 400"}},
	}}
}

func severalSourcesExample() exampleCase {
	const folder = "/etc/prometheus/"
	const config, password = folder + "prometheus.yml", folder + "password"
	const shop, billing = folder + "targets-shop.yml", folder + "targets-billing.yml"
	list := "ls " + folder
	return exampleCase{app: "prometheus", user: "65534", secret: []string{password}, after: []look{
		{
			files: map[string]string{password: "change-me"},
			owners: map[string]string{
				config: "65534:65534 444", password: "65534:65534 400", shop: "65534:65534 444", billing: "65534:65534 444",
			},
			prints: map[string]string{list: "password\nprometheus.yml\ntargets-billing.yml\ntargets-shop.yml\n"},
			log:    []string{"job_name: services", "change-me", "labels: {team: shop}", "labels: {team: billing}"},
		},
		{
			files:  map[string]string{shop: "- targets: [\"shop:8080\", \"cart:8080\"]\n"},
			prints: map[string]string{list: "password\nprometheus.yml\ntargets-billing.yml\ntargets-shop.yml\n"},
		},
		{
			files:  map[string]string{password: "change-me"},
			gone:   []string{billing},
			prints: map[string]string{list: "password\nprometheus.yml\ntargets-shop.yml\n"},
		},
	}}
}

func dashboardsExample() exampleCase {
	const orders, nodes, invoices = "/dashboards/Shop/orders.json", "/dashboards/nodes.json", "/dashboards/Billing/invoices.json"
	return exampleCase{app: "dashboards", user: "65534", after: []look{
		{
			files:  map[string]string{orders: "{\"title\": \"Orders\"}\n", nodes: "{\"title\": \"Nodes\"}\n"},
			owners: map[string]string{orders: "0:0 644", nodes: "0:0 644"},
			gone:   []string{invoices},
			log:    []string{"Orders", "Nodes"},
		},
		{files: map[string]string{invoices: "{\"title\": \"Invoices\"}\n", orders: "{\"title\": \"Orders\"}\n"}, log: []string{"Invoices"}},
		{files: map[string]string{invoices: "{\"title\": \"Invoices\"}\n", nodes: "{\"title\": \"Nodes\"}\n"}, gone: []string{orders}},
	}}
}

func tlsOwnerExample() exampleCase {
	const key, certificate = "/tls/tls.key", "/tls/tls.crt"
	// Both files are made again at the second step.
	made := look{
		owners:  map[string]string{key: "999:999 400", certificate: "999:999 400"},
		secrets: map[string]string{key: "redis-tls", certificate: "redis-tls"},
	}
	started := made
	started.log = []string{"BEGIN CERTIFICATE", "BEGIN PRIVATE KEY"}
	return exampleCase{app: "redis-tls", user: "999", secret: []string{key, certificate}, after: []look{started, made}}
}

func crossNamespaceExample() exampleCase {
	const count = "grep -c BEGIN /etc/ca/ca.crt"
	return exampleCase{app: "client", namespace: "shop", user: "65534", after: []look{
		{owners: map[string]string{"/etc/ca/ca.crt": "0:0 444"}, prints: map[string]string{count: "1\n"}, log: []string{"trusted: 1\n"}},
		{prints: map[string]string{count: "2\n"}, log: []string{"trusted: 2\n"}},
	}}
}

func subPathExample() exampleCase {
	const file = "/etc/ticker.conf"
	return exampleCase{app: "ticker", user: "65534", after: []look{
		{files: map[string]string{file: "greeting=hello\n"}, owners: map[string]string{file: "0:0 644"}, log: []string{"greeting=hello\n"}},
		{files: map[string]string{file: "greeting=good evening\n"}, log: []string{"greeting=good evening\n"}},
	}}
}

func replaceExample() exampleCase {
	const plain = "find /etc/jobs -type f | sort"
	const links = "find /etc/jobs -type l"
	return exampleCase{app: "jobs", user: "65534", after: []look{
		{
			prints: map[string]string{plain: "/etc/jobs/backup.job\n/etc/jobs/report.job\n", links: ""},
			log:    []string{"/etc/jobs/backup.job:every=1h\n", "/etc/jobs/report.job:every=24h\n"},
		},
		{
			files:  map[string]string{"/etc/jobs/backup.job": "every=2h\n", "/etc/jobs/prune.job": "every=7d\n"},
			gone:   []string{"/etc/jobs/report.job"},
			prints: map[string]string{plain: "/etc/jobs/backup.job\n/etc/jobs/prune.job\n", links: ""},
			log:    []string{"/etc/jobs/backup.job:every=2h\n", "/etc/jobs/prune.job:every=7d\n"},
		},
	}}
}

func neverExample() exampleCase {
	const startedWith, newest = "/etc/started-with/settings.conf", "/etc/newest/settings.conf"
	const both = "cat " + newest + " " + startedWith
	return exampleCase{app: "worker", user: "65534", after: []look{
		{files: map[string]string{startedWith: "model=v1\n", newest: "model=v1\n"}},
		// The one stays when the other has changed, and still when the program has noticed.
		{
			files:  map[string]string{newest: "model=v2\n"},
			log:    []string{"there are newer settings\n"},
			prints: map[string]string{both: "model=v2\nmodel=v1\n"},
		},
		{files: map[string]string{startedWith: "model=v2\n", newest: "model=v2\n"}},
	}}
}

func secretInConfigExample() exampleCase {
	const file = "/etc/orders/orders.json"
	const first = `{"user": "orders", "password": "change-me", "region": "eu", "pod": "orders"}` + "\n"
	const second = `{"user": "orders", "password": "a\"b", "region": "eu", "pod": "orders"}` + "\n"
	return exampleCase{app: "orders", user: "65534", secret: []string{file}, after: []look{
		{files: map[string]string{file: first}, owners: map[string]string{file: "65534:0 400"}, log: []string{first}},
		{files: map[string]string{file: second}, owners: map[string]string{file: "65534:0 400"}, log: []string{second}},
	}}
}

// reloadCase wants the same after the last step as before: Prometheus has refused the edit, which was taken back.
func reloadCase() exampleCase {
	const file = "/etc/prometheus/prometheus.yml"
	const ask = "wget -q -O - http://localhost:9090/api/v1/status/config"
	const first, second = "global:\n  scrape_interval: 15s\n", "global:\n  scrape_interval: 30s\n"
	return exampleCase{app: "prometheus-reload", user: "65534", after: []look{
		{files: map[string]string{file: first}, prints: map[string]string{ask: first}},
		{files: map[string]string{file: second}, prints: map[string]string{ask: second}},
		{files: map[string]string{file: second}, prints: map[string]string{ask: second}},
	}}
}
