package main

// usage is what --help prints.
const usage = `liveconfig-exec starts a program with environment variables that come from files, such as those of a volume with
ConfigMaps and Secrets, and acts on their changes.

Usage:
  liveconfig-exec [--from DIR[,prefix=P_]]... [--env-file FILE]... [--key NAME=FILE[,optional]]...
                  [--on-change=ACTION] [--stop-signal SIGNAL] [--grace 30s] [--keep]
                  [--ready-file PATH[,after=9s]]
                  -- COMMAND [ARGUMENT]...
  liveconfig-exec --copy-to DIR

Where variables come from, in the order of the command line; the later one wins:
  --from DIR[,prefix=P_]        each file directly in DIR is a variable: its name, with the prefix before it, and its content
  --env-file FILE               lines like NAME='value', as a POSIX shell reads them; nothing is expanded
  --key NAME=FILE[,optional]    one variable with the content of FILE; without «optional» the file must exist
  --keep                        variables that are already set win; without this flag the files win

What happens when files change:
  --on-change=ignore            nothing: the program replaces liveconfig-exec (default)
  --on-change=restart           liveconfig-exec ends the program and starts it in the new environment, if that differs
  --on-change=signal:HUP        liveconfig-exec sends the program a signal, if a file differs; the variables stay as they are
  --on-change=exit              liveconfig-exec ends the program and exits with code 0, if the environment differs
  --stop-signal SIGNAL          the signal that asks the program to end, as in its image (STOPSIGNAL) and pod
                                (lifecycle.stopSignal), such as QUIT for nginx; without this flag TERM, see below
  --grace 30s                   how long the program may take to end; then liveconfig-exec sends SIGKILL
  --ready-file PATH[,after=9s]  a probe can look for this file: liveconfig-exec makes it when the program has run for that time
                                since its last start, at once without «after», and removes it before the program is asked to end

  --copy-to DIR                 copy liveconfig-exec into DIR, for the container of another image, and start nothing
  --help                        print this text
  --version                     print the version of this build

A name is any printable ASCII but «=». liveconfig-exec skips and reports a file of --from with another name, with a NUL byte, or
with more than the kernel allows for one variable (128 KiB). It does the same with the file of a --key with «optional». Names that
begin with two dots belong to the volume. liveconfig-exec reads a volume with a link ..data as one set, never half before and half
after a change. While it cannot read the files, or the file of a --key is missing or cannot be a variable, the program continues
as it is.

liveconfig-exec passes signals on to the program and ends with its exit code: 128 and the number of the signal, if the program died
of one. Other codes are 125 if the command line or the files are wrong, 126 if the program cannot run, and 127 if it is not found.
liveconfig-exec never prints values of variables.

If somebody else asks the program to end, liveconfig-exec does not start it again, and no change disturbs it while it ends. SIGTERM
always asks for that, and so does the signal of --stop-signal. Without --stop-signal, the signals INT, QUIT, USR1 and WINCH may ask
for it too: they stop some programs, and make others rotate their logs or print their threads. After the first of each kind, a
change waits for the time of --grace. If the program still runs then, liveconfig-exec acts on the change, and that signal delays no
other change. With --stop-signal, TERM for most programs, no change waits.

Example:
  liveconfig-exec --from /etc/web --key TOKEN=/etc/secrets/token,optional --on-change=restart -- /bin/server --port 8080
`
