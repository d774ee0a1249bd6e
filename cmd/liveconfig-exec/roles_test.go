package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// playCommand is a program that liveconfig-exec starts, and returns its exit code.
func playCommand(role string, args []string) int {
	switch role {
	case "exit":
		code, _ := strconv.Atoi(args[0])
		return code
	case "die":
		fmt.Println(unix.Exec("/bin/sh", []string{"sh", "-c", "kill -" + args[0] + " $$"}, nil))
		return 1
	case "who":
		fmt.Println(os.Getpid())
		return 0
	case "show":
		showVariables(args)
		return serve()
	case "deaf":
		return deaf(args)
	case "leave":
		return leave()
	case "stubborn":
		return stubborn(args)
	case "drain":
		return drain(args[0], args[1:])
	case "descendants":
		return descendants(args)
	case "pair":
		fmt.Println(os.Getenv("A") == os.Getenv("B") && os.Getenv("A") == os.Getenv("C"), os.Getenv("A"))
		return serve()
	}
	return 99
}

// showVariables prints them.
func showVariables(names []string) {
	var all []string
	for _, name := range names {
		value, ok := os.LookupEnv(name)
		if !ok {
			value = "(unset)"
		}
		all = append(all, name+"="+value)
	}
	fmt.Println("ready", strings.Join(all, " "))
}

// serve prints the signals that come until it is asked to end.
func serve() int {
	signals := make(chan os.Signal, 100)
	signal.Notify(signals)
	fmt.Println("serving")
	for sig := range signals {
		if sig == unix.SIGURG { // The Go runtime's own.
			continue
		}
		fmt.Println(sig)
		if sig == unix.SIGTERM {
			return 0
		}
	}
	return 98
}

// deaf does not end when it is asked to by SIGTERM.
func deaf(args []string) int {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGINT, unix.SIGQUIT)
	signal.Ignore(unix.SIGTERM)
	showVariables(args)
	if <-signals == unix.SIGINT {
		return 12
	}
	return 13
}

// drain plays a server with a worker process, such as nginx. After the signal stop it ends when the worker has ended. After
// SIGTERM it ends at once. It only prints other signals.
func drain(stop string, names []string) int {
	signals, ended := make(chan os.Signal, 100), make(chan error, 1)
	signal.Notify(signals)
	worker := exec.Command("/bin/sleep", "1000") //nolint:noctx // A role has no context.
	if err := worker.Start(); err != nil {
		fmt.Println(err)
		return 1
	}
	go func() { ended <- worker.Wait() }()
	showVariables(names)
	fmt.Println("serving")
	for stopping := false; ; {
		select {
		case <-ended:
			fmt.Println("drained")
			return map[bool]int{true: 0, false: 97}[stopping]
		case sig := <-signals:
			if sig == unix.SIGURG || sig == unix.SIGCHLD {
				continue
			}
			fmt.Println(sig)
			stopping = stopping || sig == unix.SignalNum(stop)
			if sig == unix.SIGTERM {
				_ = worker.Process.Kill()
				return 0
			}
		}
	}
}

// stubborn ends by SIGKILL alone.
func stubborn(names []string) int {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals)
	showVariables(names)
	for range signals { // It hears them, and that is all.
	}
	return 96
}

// leave starts processes that outlive their parents: many that end soon and one that does not. It reports that and stays.
func leave() int {
	for i := range 21 {
		script := "/bin/sh -c 'exit 3' & exit 0"
		if i == 20 {
			script = "/bin/sleep 1000 & exit 0"
		}
		if err := exec.Command("/bin/sh", "-c", script).Run(); err != nil { //nolint:noctx // A role has no context.
			fmt.Println(err)
			return 1
		}
	}
	fmt.Println("left")
	return serve()
}

// descendants starts a process that does not end with its parent, in the same group or outside, and prints its number.
func descendants(args []string) int {
	child := exec.Command("/bin/sleep", "1000") //nolint:noctx // A role has no context.
	if slices.Contains(args, "deaf") {
		child = exec.Command("/bin/sh", "-c", "trap '' TERM; exec /bin/sleep 1000") //nolint:noctx // A role has no context.
	}
	if err := child.Start(); err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println(child.Process.Pid)
	return serve()
}
