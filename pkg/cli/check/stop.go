package check

import (
	"path"
	"strings"
	"syscall"

	"github.com/liveconfig-csi/liveconfig/pkg/exec/signals"
	"github.com/liveconfig-csi/liveconfig/pkg/manifest"
)

// stopSignals warns of containers with a stop signal that their liveconfig-exec does not have. No
// process sees the stop signal of its container.
func (r *podSpec) stopSignals() {
	for _, list := range []string{"initContainers", "containers"} {
		for i, container := range manifest.Objects(r.spec.Data[list]) {
			r.stopSignal(r.spec.Path.Field(list).Index(i).Field("lifecycle", "stopSignal"), container)
		}
	}
}

func (r *podSpec) stopSignal(at manifest.Path, container map[string]any) {
	lifecycle, _ := container["lifecycle"].(map[string]any)
	text, _ := lifecycle["stopSignal"].(string)
	wanted := signals.Parse(text)
	flags := flagsOfExec(append(texts(container["command"]), texts(container["args"])...))
	if action := flags["on-change"]; wanted == 0 || action == "" || action == "ignore" {
		return // Without an action, the program itself gets the signals.
	}
	name := strings.TrimPrefix(strings.ToUpper(text), "SIG")
	given, hasFlag := flags["stop-signal"]
	switch {
	case !hasFlag && wanted != syscall.SIGTERM:
		r.warning(at, "liveconfig-exec does not see this field, and ends the program by SIGTERM: add --stop-signal=%s "+
			"to its flags", name)
	case hasFlag && signals.Parse(given) != wanted:
		r.warning(at, "liveconfig-exec does not see this field, and ends the program by SIG%s: write --stop-signal=%s "+
			"in its flags", strings.TrimPrefix(strings.ToUpper(given), "SIG"), name)
	}
}

// flagsOfExec returns the flags of liveconfig-exec in a command line; nil if that is not in it.
func flagsOfExec(words []string) map[string]string {
	for len(words) > 0 && path.Base(words[0]) != "liveconfig-exec" {
		words = words[1:]
	}
	if len(words) == 0 {
		return nil
	}
	flags := map[string]string{}
	for words = words[1:]; len(words) > 0 && words[0] != "--"; words = words[1:] {
		name, value, hasValue := strings.Cut(strings.TrimPrefix(words[0], "--"), "=")
		if !hasValue && len(words) > 1 {
			value = words[1] // Of a flag without a value, this is the next flag, and nobody asks for it.
		}
		flags[name] = value
	}
	return flags
}

// texts returns the texts of a list; other items are empty.
func texts(value any) []string {
	list, _ := value.([]any)
	words := make([]string, len(list))
	for i, item := range list {
		words[i], _ = item.(string)
	}
	return words
}
