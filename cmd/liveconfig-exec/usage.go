package main

// usage is what --help prints.
const usage = `liveconfig-exec starts a program with environment variables that come from files, such as those of a volume with
ConfigMaps and Secrets, and acts on their changes.

Usage:
  liveconfig-exec [--from DIR[,prefix=P_]]... [--env-file FILE]... [--key NAME=FILE[,optional]]...
                  [--on-change=ACTION] [--stop-signal SIGNAL] [--grace 30s] [--keep]
                  -- COMMAND [ARGUMENT]...
  liveconfig-exec --copy-to DIR

Where variables come from, in the order of the command line; the later one wins:
  --from DIR[,prefix=P_]        each file directly in DIR is a variable: its name, behind the prefix, and its content
  --env-file FILE               lines like NAME='value', as a POSIX shell reads them; nothing is expanded
  --key NAME=FILE[,optional]    one variable with the content of FILE; without «optional» the file must exist
  --keep                        variables that are set already stay; without it the files win

What happens when files change:
  --on-change=ignore            nothing: the program takes the place of liveconfig-exec, and nobody watches (default)
  --on-change=restart           the program is ended and started in the new environment, if that differs
  --on-change=signal:HUP        the program gets a signal, if a file differs; its variables stay as they are
  --on-change=exit              the program is ended, and liveconfig-exec with code 0, if the environment differs
  --stop-signal SIGNAL          how the program is asked to end, as in its image (STOPSIGNAL) and pod (lifecycle.stopSignal),
                                such as QUIT for nginx; without this flag TERM is sent, see below
  --grace 30s                   how long the program may take to end; then it gets SIGKILL

  --copy-to DIR                 put a copy of liveconfig-exec into DIR, for the container of another image, and start nothing
  --help                        print this
  --version                     print which build this is

A name is any printable ASCII but «=». A file of --from with another name, with a NUL byte, or with more than the kernel
allows for one variable (128 KiB) is skipped and reported, and so is the file of a --key with «optional». Names that begin with
two dots are the volume's own. A volume with a link ..data is read as one set, never half before and half after a change. While
files cannot be read, or the file of a --key is missing or cannot be a variable, the program goes on as it is.

Signals are passed on to the program, and its exit code is the one of liveconfig-exec: 128 and the number of the signal, if
it died of one. Other codes are 125 if the command line or the files are wrong, 126 if the program cannot be run, and 127 if
it is not found. Values of variables are never printed.

A program that somebody else asks to end is not started again, and no change disturbs it while it ends. SIGTERM always asks for
that, and so does the signal of --stop-signal. Without --stop-signal, the signals INT, QUIT, USR1 and WINCH may ask for it too:
they stop some programs, and have others rotate their logs or print their threads. After the first of each kind, a change
waits for the time of --grace. If the program still runs then, the change is acted on, and that signal delays no other change.
Give --stop-signal, TERM for most programs, and no change waits.

Example:
  liveconfig-exec --from /etc/web --key TOKEN=/etc/secrets/token,optional --on-change=restart -- /bin/server --port 8080
`
