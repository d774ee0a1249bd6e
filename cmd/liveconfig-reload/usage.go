package main

// usage is what --help prints.
const usage = `liveconfig-reload has the program beside it in a pod read its files again when they have changed, finds out whether the
program works with them, and reports that: /readyz fails while it does not.

Usage:
  liveconfig-reload --watch DIR --http METHOD URL [FLAGS]
  liveconfig-reload --watch DIR --signal SIGNAL --process NAME [FLAGS]
  liveconfig-reload --watch DIR [FLAGS] --command COMMAND [ARGUMENT]...
  liveconfig-reload --copy-to DIR

What is watched:
  --watch DIR                   the directory of a volume; its files, and those below it, are one set
  --settle 100ms                how long nothing must change before the program reads the files
  --at-start                    the files at the start are a change too

What is done when the content has changed, one of these:
  --http METHOD URL             send a request; see --header and --expect
  --signal SIGNAL               send a signal to --process or --pid-file
  --command COMMAND...          run a command of this container; the command line ends with it

  --header 'NAME: VALUE'        a header of all requests; may be repeated
  --expect 200-299              the status codes that mean yes
  --process NAME                the oldest process of the pod with this name; the pod needs shareProcessNamespace: true
  --pid-file FILE               a file with the number of the process
  --allow-remote                URLs may lead out of the pod

How it is known that the program works with the files:
  --verify URL                  ask this URL after that, until it answers as it must
  --verify-contains TEXT        the answer must have this text, or this line of metrics; may be repeated
  --verify-lacks TEXT           the answer must not have it; may be repeated

When something fails:
  --timeout 5s                  how long one attempt may take, with its verification
  --retries 2                   how often an action that failed is tried again before /readyz fails; after that there are pauses
  --initial-wait 1m             how long the program may take to be up first

Who learns of it:
  --listen :9533                where /healthz, /readyz, /metrics and /statusz are; empty for nowhere
  --report-file FILE            write the status as JSON whenever it changes

  --copy-to DIR                 copy liveconfig-reload into DIR, for the container of another image, and watch nothing
  --help                        print this text
  --version                     print the version of this build

A change while the program reads its files is one more reload. What fails is tried again for as long as nothing newer is there.
SIGTERM ends liveconfig-reload at once. Nothing that is in files, and nothing that the program or the command answers but a status
or an exit code, is in the log, the metrics or the status.

Example:
  liveconfig-reload --watch /etc/prometheus --http POST http://127.0.0.1:9090/-/reload \
    --verify http://127.0.0.1:9090/metrics --verify-contains 'prometheus_config_last_reload_successful 1'
`
