package volumefs

import (
	"errors"
	"sync"

	"golang.org/x/sys/unix"
)

// option is one that a tmpfs may have. A flag has no value.
type option struct{ name, value string }

// wanted are the options that volumes have where the kernel takes them. With noswap, pages, which
// may be secrets, are never swapped; kernels before 6.4 and in user namespaces refuse it. With
// huge=never a file of a few bytes does not take a page of 2 MiB or more, whatever the kernel does
// with other file systems.
func wanted() []option { return []option{{name: "noswap"}, {name: "huge", value: "never"}} }

func (o option) set(ctx int) error {
	set, text := func() error { return unix.FsconfigSetFlag(ctx, o.name) }, o.name
	if o.value != "" {
		set, text = func() error { return unix.FsconfigSetString(ctx, o.name, o.value) }, o.name+"="+o.value
	}
	err := set()
	if err == nil || errors.Is(err, unix.EINVAL) {
		return err
	}
	return configError(ctx, text, err)
}

// options remembers what the kernel refused, which spares later volumes the attempt. It is for
// concurrent use.
type options struct{ refused sync.Map }

// set sets the wanted options, without those that the kernel does not know.
func (o *options) set(set func(option) error) error {
	for _, next := range wanted() {
		if _, isRefused := o.refused.Load(next); isRefused {
			continue
		}
		err := set(next)
		switch {
		case errors.Is(err, unix.EINVAL):
			o.refused.Store(next, true)
		case err != nil:
			return err
		}
	}
	return nil
}
