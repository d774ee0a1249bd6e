package main

import (
	"errors"
	"fmt"
	"math"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/daemon/logkeys"
	"github.com/liveconfig-csi/liveconfig/pkg/driver/budget"
)

const mebi = 1 << 20

// How the memory of the driver's container is divided. Measured, see test/driver.
const (
	// ownMemory is what the driver needs besides the volumes: some 6 MiB of its own, its program's pages, and what is under
	// way between the API server and the volumes.
	ownMemory = 40 * mebi
	// Of the rest, volumes get a share. The other one is for the heap to grow between collections.
	volumeShare, volumeParts = 3, 4
	// leastLimit is what a container must have to be of any use.
	leastLimit = 56 * mebi
	// outsideHeap is what of the container's memory is neither the heap's nor the volumes': the program's pages and what
	// the kernel holds for the process.
	outsideHeap = 28 * mebi
	// leastHeap is what the collector is left with at least: with less it would run all the time.
	leastHeap = 12 * mebi
	// answerMemory is the container's memory for each large answer of the API server that is under way. One takes about
	// 5 MiB, some of it until the next collection.
	answerMemory              = 16 * mebi
	leastAnswers, mostAnswers = 2, 16
	// nodeParts is of how many parts of the node's memory volumes get one where the container has no limit.
	nodeParts = 4
)

// memory is where the bytes of the node's volumes, and of the objects in them, are taken from.
type memory struct {
	*budget.Budget
	limit int64 // Of the container; zero for none.
	// files are on the volumes' file systems, and objects in the heap.
	files, objects *budget.Part
}

// newMemory divides what there is. Volumes get what is given, if anything; GOMEMLIMIT, if set, stays as it is.
func newMemory(flag string) (*memory, error) {
	given, err := parseVolumeMemory(flag)
	if err != nil {
		return nil, err
	}
	logger := klog.Background()
	limit, err := containerLimit(logger)
	if err != nil {
		return nil, err
	}
	size, err := volumeMemory(given, limit, memlimit.FromSystem)
	if err != nil {
		return nil, err
	}
	b := budget.New(size)
	m := &memory{Budget: b, limit: limit, objects: b.Part(func(int64) {}), files: b.Part(func(int64) {})}
	if limit > 0 && debug.SetMemoryLimit(-1) == math.MaxInt64 {
		m.files = b.Part(func(used int64) { debug.SetMemoryLimit(heapLimit(limit, used)) })
		debug.SetMemoryLimit(heapLimit(limit, 0))
	}
	logger.Info("The memory for volumes is limited", logkeys.Room, quantity(size), logkeys.Limit, quantity(limit))
	return m, nil
}

// containerLimit returns the memory limit of the control group, or zero where there is none. One that cannot be found out
// is said and counts as none: --volume-memory is there for that.
func containerLimit(logger klog.Logger) (int64, error) {
	limit, err := memlimit.FromCgroup()
	switch {
	case errors.Is(err, memlimit.ErrNoLimit), errors.Is(err, memlimit.ErrNoCgroup):
		return 0, nil
	case err != nil:
		logger.Error(err, "The driver cannot read the memory limit of its container; set --volume-memory")
		return 0, nil
	case limit < leastLimit:
		return 0, fmt.Errorf("the container's memory limit is %s: the driver needs %s for itself and for volumes together, and more where "+
			"pods mount much; raise resources.limits.memory", quantity(int64(limit)), quantity(leastLimit))
	case limit > math.MaxInt64:
		return 0, nil
	}
	return int64(limit), nil
}

// volumeMemory returns how much volumes may take: what is given, or a share of the container's limit, or, where that is
// zero, of the node's memory.
func volumeMemory(given, limit int64, node func() (uint64, error)) (int64, error) {
	switch {
	case given > 0:
		return given, nil
	case limit > 0:
		return (limit - ownMemory) / volumeParts * volumeShare, nil
	}
	total, err := node()
	if err != nil {
		return 0, fmt.Errorf("find out how much memory the node has (or say what volumes may take with --volume-memory): %w", err)
	}
	return int64(total / nodeParts), nil //nolint:gosec // No node has as much.
}

// heapLimit returns when the collector has to get to work in earnest, with so much of the limit used by files.
func heapLimit(limit, files int64) int64 { return max(leastHeap, limit-outsideHeap-files) }

// largeAnswers returns how many large answers of the API server may be under way at a time.
func (m *memory) largeAnswers() int {
	if m.limit == 0 {
		return mostAnswers
	}
	return int(min(max((m.limit-ownMemory)/answerMemory, leastAnswers), mostAnswers))
}

// quantity returns a size as Kubernetes writes it.
func quantity(n int64) string { return resource.NewQuantity(n, resource.BinarySI).String() }

// parseVolumeMemory returns the size that a flag says, and zero for none.
func parseVolumeMemory(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return 0, err
	}
	n := q.Value()
	return n, mistake(n < mebi, "%s is less than 1Mi", text)
}
