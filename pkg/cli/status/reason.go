package status

import (
	"regexp"
	"strings"
)

// remedy is where the driver's message about a denied source goes on with the manifest of a Role.
const remedy = "; to allow it, apply:\n"

// generalizer leaves out of reasons the names that differ from pod to pod, so that the reasons of
// many pods are equal.
type generalizer struct{ object, account, namespace *regexp.Regexp }

func newGeneralizer() generalizer {
	return generalizer{
		object: regexp.MustCompile(`\b(configmaps?|secrets?)([ /])("?)([a-z0-9-]+/)?([a-z0-9.-]*[a-z0-9])"?`),
		account: regexp.MustCompile(
			`(system:serviceaccount:|serviceaccount |service account )[a-z0-9-]+([:/ ])[a-z0-9.-]+`),
		namespace: regexp.MustCompile(`(namespace )"[a-z0-9-]+"`),
	}
}

// reason returns why a pod is not current, for any pod.
func (g generalizer) reason(s *sourceStatus, p podStatus) string {
	why, _, isDenied := strings.Cut(p.Why, remedy)
	if isDenied {
		why += "; kubectl liveconfig grant prints the Role"
	}
	for _, name := range []string{p.Has, s.Version} {
		if strings.HasPrefix(name, s.Name+"-") {
			why = strings.ReplaceAll(why, name, "COPY")
		}
	}
	why = strings.ReplaceAll(why, "pod/"+p.Pod, "pod/NAME")
	why = g.object.ReplaceAllStringFunc(why, func(text string) string { return g.withoutName(text, s.Name) })
	why = g.account.ReplaceAllStringFunc(why, g.withoutAccount)
	return g.namespace.ReplaceAllString(why, "${1}NAME")
}

// withoutName returns what names an object. After a kind and a space, a word may be any: only the
// name of the source is a name there.
func (g generalizer) withoutName(text, source string) string {
	part := g.object.FindStringSubmatch(text)
	kind, separator, quote, namespace, name := part[1], part[2], part[3], part[4], part[5]
	if separator+quote+namespace == " " && name != source {
		return text
	}
	return kind + separator + "NAME"
}

// withoutAccount returns what names a service account. A bare name is that of the pod's account.
func (g generalizer) withoutAccount(text string) string {
	part := g.account.FindStringSubmatch(text)
	if kind, separator := part[1], part[2]; separator == " " {
		_, after, _ := strings.Cut(strings.TrimPrefix(text, kind), separator)
		return kind + "NAME " + after
	}
	return part[1] + "NAME"
}
