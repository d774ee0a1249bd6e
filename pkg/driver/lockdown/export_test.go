package lockdown

import "k8s.io/klog/v2"

// Needed is what [Apply] keeps.
const Needed = uint64(needed)

// ApplyKeeping is [Apply] that keeps other capabilities.
func ApplyKeeping(logger klog.Logger, keep uint64) error { return apply(logger, capabilities(keep)) }
