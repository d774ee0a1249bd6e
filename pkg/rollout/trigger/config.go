package trigger

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

// Config maps each trigger of a workload to the copy that the pods use. An object that does not
// exist, and need not, has the empty name. An object that the pod template does not name has the
// Uncopied version.
type Config map[api.Ref]string

// uncopied stands in front of a version that has no copy. No name of an object has a colon.
const uncopied = "uncopied:"

// Uncopied returns what a config has for an object that triggers a workload and that its pod
// template does not name: the version of the object, as the name that a copy of it would have.
func Uncopied(version string) string { return uncopied + version }

// ParseConfig reads the value of ConfigAnnotation. It returns none of it with an error.
func ParseConfig(text string) (Config, error) {
	var c Config
	if err := c.UnmarshalJSON([]byte(text)); err != nil {
		return nil, fmt.Errorf("the annotation %s of the pod template: %w", ConfigAnnotation, err)
	}
	return c, nil
}

// UnmarshalJSON reads what String returns, and the kinds of objects as users may write them.
func (c *Config) UnmarshalJSON(text []byte) error {
	var read map[string]string
	if err := json.Unmarshal(text, &read); err != nil {
		return fmt.Errorf("not an object of texts: %w", err)
	}
	if len(read) > MaxObjects {
		return fmt.Errorf("has %d entries, more than %d", len(read), MaxObjects)
	}
	config := make(Config, len(read))
	for _, key := range slices.Sorted(maps.Keys(read)) {
		if err := config.add(key, read[key]); err != nil {
			return err
		}
	}
	*c = config
	return nil
}

// add takes in one entry of an annotation, in which people may have been.
func (c Config) add(key, name string) error {
	object, err := ParseObject(key)
	if err != nil {
		return err
	}
	if _, found := c[object]; found {
		return fmt.Errorf("%s is there under two spellings", object) // Either could win.
	}
	version, isUncopied := strings.CutPrefix(name, uncopied)
	if problems := validation.IsDNS1123Subdomain(version); (version != "" || isUncopied) && len(problems) > 0 {
		return fmt.Errorf("%.300q is not a name of a copy of %s: %s", name, object, strings.Join(problems, "; "))
	}
	c[object] = name
	return nil
}

// String returns the value of ConfigAnnotation: the same text for the same config.
func (c Config) String() string {
	texts := make(map[string]string, len(c))
	for object, name := range c {
		texts[object.String()] = name
	}
	text, err := json.Marshal(texts)
	if err != nil {
		panic(err) // A map of texts has no way not to be JSON.
	}
	return string(text)
}

// MarshalJSON returns String.
func (c Config) MarshalJSON() ([]byte, error) { return []byte(c.String()), nil }

// Objects returns what the config has names for, in order.
func (c Config) Objects() []api.Ref { return slices.SortedFunc(maps.Keys(c), Compare) }

// Copies returns for each object that has a copy the name of it.
func (c Config) Copies() map[api.Ref]string {
	copies := maps.Clone(c)
	maps.DeleteFunc(copies, func(_ api.Ref, name string) bool { return name == "" || strings.HasPrefix(name, uncopied) })
	return copies
}

// Uncopied returns for each object that the template does not name its version.
func (c Config) Uncopied() map[api.Ref]string {
	versions := map[api.Ref]string{}
	for object, name := range c {
		if version, found := strings.CutPrefix(name, uncopied); found {
			versions[object] = version
		}
	}
	return versions
}

// sum is a short digest, which is enough for the few configs of one workload. A version has the
// same sum with and without a copy: a template that begins to name an object, or stops, is not an
// edit of the object.
func (c Config) sum() string {
	versions := make(Config, len(c))
	for object, name := range c {
		versions[object] = strings.TrimPrefix(name, uncopied)
	}
	digest := sha256.Sum256([]byte(versions.String()))
	return hex.EncodeToString(digest[:8])
}

// Mark is the value of the RolloutLabel. The zero value is the mark of a workload that nothing was
// rolled out to.
type Mark struct {
	// rolled is the sum of the config that was rolled out last; undone that of the one that took
	// its place, if it was noticed.
	rolled, undone string
}

// nothing stands for rolled where that is empty: the value of a label cannot begin with a dot. No
// sum is written so.
const nothing = "none"

// MarkOf is the mark of a workload to which a config was rolled out.
func MarkOf(c Config) Mark { return Mark{rolled: c.sum()} }

// ParseMark reads the value of RolloutLabel. A value that no controller can have written is a mark
// that fits no config.
func ParseMark(value string) Mark {
	rolled, undone, _ := strings.Cut(value, ".")
	if rolled == nothing {
		rolled = ""
	}
	return Mark{rolled: rolled, undone: undone}
}

// String returns the value of RolloutLabel.
func (m Mark) String() string {
	if m.undone == "" {
		return m.rolled
	}
	return cmp.Or(m.rolled, nothing) + "." + m.undone
}

// IsFor reports whether the config is the one that was rolled out last.
func (m Mark) IsFor(c Config) bool { return m.rolled == c.sum() }

// IsUndoneFor reports whether it was noticed that the config took the place of the one that was
// rolled out last.
func (m Mark) IsUndoneFor(c Config) bool { return m.undone == c.sum() }

// IsUndone reports whether it was noticed that any other config took the place of the one that was
// rolled out last.
func (m Mark) IsUndone() bool { return m.undone != "" }

// Again returns the mark of a workload that has the config again that was rolled out last.
func (m Mark) Again() Mark { return Mark{rolled: m.rolled} }

// UndoneFor returns the mark of a config that was undone.
func (m Mark) UndoneFor(c Config) Mark { return Mark{rolled: m.rolled, undone: c.sum()} }

// Moved returns the mark after a template's config became another and no rollout or undo happened.
func (m Mark) Moved(from, to Config) Mark {
	if m.IsFor(from) {
		m.rolled = to.sum()
	}
	if m.IsUndoneFor(from) {
		m.undone = to.sum()
	}
	return m
}

// Undone records for people what was undone.
type Undone struct {
	// At is when it was noticed.
	At time.Time `json:"at"`
	// Config is what the pods use since, as in ConfigAnnotation.
	Config Config `json:"config"`
}
