package reloaders

import (
	"fmt"
	"net"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// program is the name of the file that containers run, wherever it is copied to.
const program = "liveconfig-reload"

// defaultListen is the value of --listen where the flag is not written.
const defaultListen = ":9533"

// Reloader is a container that runs liveconfig-reload.
type Reloader struct {
	Container string
	// Volume is the pod's volume that the reloader watches; empty if no mount shows that.
	Volume string

	listen string
}

// In returns the reloaders of a pod: containers, and init containers that run beside them.
func In(spec *corev1.PodSpec) (found []Reloader) {
	for _, c := range spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			found = appendReloader(found, c)
		}
	}
	for _, c := range spec.Containers {
		found = appendReloader(found, c)
	}
	return found
}

func appendReloader(found []Reloader, c corev1.Container) []Reloader {
	words := flagsOf(c)
	watch, watches := flag(words, "--watch")
	if _, copies := flag(words, "--copy-to"); !watches || copies {
		return found
	}
	listen, isGiven := flag(words, "--listen")
	if !isGiven {
		listen = defaultListen
	}
	return append(found, Reloader{Container: c.Name, Volume: volumeAt(c.VolumeMounts, watch), listen: listen})
}

// flagsOf returns the flags of liveconfig-reload in a container; none if the container does not run
// it. Without a command, the image decides what runs, and only its name is known.
func flagsOf(c corev1.Container) []string {
	words := slices.Concat(c.Command, c.Args)
	at := slices.IndexFunc(words, func(w string) bool { return !strings.HasPrefix(w, "-") && path.Base(w) == program })
	isImage := len(c.Command) == 0 && nameOf(c.Image) == program
	if at < 0 && !isImage {
		return nil
	}
	words = words[at+1:]
	if end := slices.Index(words, "--command"); end >= 0 {
		words = words[:end] // The rest is another program's.
	}
	return words
}

// nameOf returns the last part of an image's repository.
func nameOf(image string) string {
	image, _, _ = strings.Cut(path.Base(image), "@")
	name, _, _ := strings.Cut(image, ":")
	return name
}

// flag returns the value of a flag, of which the last counts.
func flag(words []string, name string) (value string, found bool) {
	for i, word := range words {
		text, given := strings.CutPrefix(word, name+"=")
		switch {
		case given:
			value, found = text, true
		case word == name && i+1 < len(words):
			value, found = words[i+1], true
		}
	}
	return value, found
}

// volumeAt returns the volume that a path is in. The longest mount path decides.
func volumeAt(mounts []corev1.VolumeMount, at string) (volume string) {
	longest, at := 0, path.Clean("/"+at)
	for _, m := range mounts {
		place := path.Clean("/" + m.MountPath)
		isIn := at == place || strings.HasPrefix(at, strings.TrimSuffix(place, "/")+"/")
		if isIn && len(place) > longest {
			volume, longest = m.Name, len(place)
		}
	}
	return volume
}

// port returns where a reloader can be asked from outside its pod, or why that is impossible.
func (r Reloader) port(pod *corev1.Pod) (port int, u *Unavailable) {
	host, text, err := net.SplitHostPort(r.listen)
	port, errOfPort := strconv.Atoi(text)
	const mostPort = 1<<16 - 1
	switch {
	case r.listen == "":
		return 0, r.unavailable(pod, "it answers nobody, because its --listen is empty")
	case err != nil || errOfPort != nil || port < 1 || port > mostPort:
		return 0, r.unavailable(pod, "its --listen "+shown(r.listen)+" has no port that is known here")
	case isLocal(host):
		u := r.unavailable(pod, fmt.Sprintf("it answers in its pod only, by its --listen; forward the port and ask "+
			"http://127.0.0.1:%d/statusz", port))
		u.Type = fmt.Sprintf("kubectl -n %s port-forward pod/%s %d", pod.Namespace, pod.Name, port)
		return 0, u
	case !runs(pod, r.Container):
		u := r.unavailable(pod, "its container does not run")
		u.Type = fmt.Sprintf("kubectl -n %s describe pod %s", pod.Namespace, pod.Name)
		return 0, u
	}
	return port, nil
}

func isLocal(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.IsLoopback()
}

// runs reports whether a container runs. One that runs beside init containers runs before its pod
// does.
func runs(pod *corev1.Pod, container string) bool {
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if s.Name == container {
			return s.State.Running != nil
		}
	}
	return pod.Status.Phase == corev1.PodRunning
}
