package watchers

import "path/filepath"

// emulated marks the rows of programs that this test does not run: a stand-in makes the same system calls.
const emulated = " (same system calls)"

// rows are the rows of the table.
func rows() []row {
	const file, directory = watchedFile, "."
	python := []string{"/usr/bin/python3", filepath.Join("testdata", "watch.py")} // Debian's, for which the package is.
	node := []string{"/usr/bin/node", filepath.Join("testdata", "watch.js")}
	return []row{
		{"fsnotify (Go), the file", followByTask(file, "fsnotify")},
		{"fsnotify (Go), the directory", followByTask(directory, "fsnotify")},
		{"fsnotify (Go), `..data`", followByTask("..data", "fsnotify")},
		{"`inotifywait -m`, the file", followByTask(file, "inotifywait")},
		{"`inotifywait -m`, the directory", followByTask(directory, "inotifywait")},
		{"`while inotifywait`, the file", followByTask(file, "inotifywait in a loop")},
		{"watchdog (Python), the file", follow(file, python...)},
		{"watchdog (Python), the directory", follow(directory, python...)},
		{"chokidar (Node.js), the file", follow(file, node...)},
		{"chokidar (Node.js), the directory", follow(directory, node...)},
		{"Java `WatchService`, the directory", follow(directory, "java", filepath.Join("testdata", "Watch.java"))},
		{"Prometheus, `file_sd_configs`", prometheus},
		{"Envoy, `path` of xDS" + emulated, followByTask(directory, "envoy file")},
		{"Envoy, `watched_directory` of xDS and SDS" + emulated, followByTask(directory, "envoy directory")},
		{"nginx, `nginx -s reload`", nginx},
		{"HAProxy, SIGUSR2", haproxy},
		{"the script [below](#reload-by-a-command)", script},
		{"a program that polls the file's mtime", followByTask(file, "poll times")},
		{"a program that polls the file's content", followByTask(file, "poll contents")},
	}
}
