package volumes

import (
	"fmt"
	"io/fs"
	"regexp"
	"strconv"
	"strings"

	"github.com/liveconfig-csi/liveconfig/pkg/api"
)

// ParseItem reads an item as a person types it: KEY=PATH, KEY=PATH:MODE, and KEY or KEY:MODE for a
// key under its own name. The part after the last colon is a mode if it has three or four octal
// digits, and else a part of the path.
func ParseItem(text string) (api.Item, error) {
	rest, mode, err := cutMode(text)
	if err != nil {
		return api.Item{}, err
	}
	key, at, found := strings.Cut(rest, "=")
	if !found {
		at = key
	}
	if key == "" || at == "" {
		return api.Item{}, fmt.Errorf("item %.60q is not KEY=PATH or KEY=PATH:MODE, such as tls.key=certs/key:0400", text)
	}
	return api.Item{Key: key, Path: at, Mode: mode}, nil
}

func cutMode(text string) (rest string, mode *fs.FileMode, err error) {
	octal := regexp.MustCompile(`^(.*):(?:0o)?([0-9]{3,4})$`)
	found := octal.FindStringSubmatch(text)
	if found == nil {
		return text, nil, nil
	}
	bits, err := strconv.ParseUint(found[2], 8, 32)
	if err != nil || bits > 0o777 {
		return "", nil, fmt.Errorf("item %.60q has the mode %s, which is not an octal number from 0000 to 0777", text, found[2])
	}
	return found[1], new(fs.FileMode(bits)), nil
}
