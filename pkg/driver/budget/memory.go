package budget

import (
	"fmt"
	"math"
	"os"
	"runtime/debug"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/klog/v2"

	"github.com/liveconfig-csi/liveconfig/pkg/daemon/logkeys"
)

const mebibyte = 1 << 20

// How the memory of the driver's container is divided. The numbers are measured; see test/driver.
const (
	// ownMemory is what the driver needs besides the volumes: about 6 MiB of heap, the pages of its
	// program, and the answers of the API server that it reads at the time.
	ownMemory = 40 * mebibyte
	// Volumes get volumeShare of volumeParts of the rest. The other part lets the heap grow between
	// collections.
	volumeShare, volumeParts = 3, 4
	// leastLimit is the smallest limit of a container with which the driver starts.
	leastLimit = 56 * mebibyte
	// outsideHeap is the memory of the container that neither the heap nor the volumes use: the
	// pages of the program, and what the kernel holds for the process.
	outsideHeap = 28 * mebibyte
	// leastHeap is the smallest limit of the heap. With less, the garbage collector would run all
	// the time.
	leastHeap = 12 * mebibyte
	// ownHeap is the size of the heap without objects. Between two collections the heap may grow by
	// ownHeap, and by the size of the objects divided by objectParts. Objects are bytes without
	// pointers, so a collection does not look at them.
	ownHeap, objectParts = 6 * mebibyte, 32
	// The growth of the heap is a multiple of growthStep percent: each change stops the process for
	// a moment.
	growthStep = 5
	// answerMemory is the container's memory for each large answer of the API server that is read
	// at a time. One answer takes about 5 MiB, some of it until the next collection.
	answerMemory              = 16 * mebibyte
	leastAnswers, mostAnswers = 2, 16
	// Where the container has no limit, volumes get one of nodeParts of the node's memory.
	nodeParts = 4
)

// Memory is the memory of the driver's container, divided between the heap and the volumes.
type Memory struct {
	*Budget       // The memory of the volumes.
	limit   int64 // Of the container; zero for none.
	// Files is the memory of the volumes' file systems, and Objects that of objects in the heap.
	Files, Objects *Part
}

// NewMemory divides the memory of the container. Volumes get the given number of bytes, or a share
// if it is zero. NewMemory sets the limit of the heap, unless GOMEMLIMIT is set.
func NewMemory(given int64, logger klog.Logger) (*Memory, error) {
	limit, err := containerLimit(logger)
	if err != nil {
		return nil, err
	}
	size, err := volumeMemory(given, limit, nodeMemory)
	if err != nil {
		return nil, err
	}
	b := New(size)
	m := &Memory{Budget: b, limit: limit, Objects: b.Part(newHeapGrowth().follow), Files: b.Part(func(int64) {})}
	if limit > 0 && debug.SetMemoryLimit(-1) == math.MaxInt64 {
		m.Files = b.Part(func(used int64) { debug.SetMemoryLimit(heapLimit(limit, used)) })
		debug.SetMemoryLimit(heapLimit(limit, 0))
	}
	logger.Info("The memory for volumes is limited", logkeys.Room, quantity(size), logkeys.Limit, quantity(limit))
	return m, nil
}

// heapGrowth sets by how many percent the heap grows between two collections.
type heapGrowth struct {
	percent int
	isGiven bool // By GOGC, which decides then.
}

func newHeapGrowth() *heapGrowth {
	_, isGiven := os.LookupEnv("GOGC")
	return &heapGrowth{percent: heapGrowthWith(0), isGiven: isGiven}
}

// follow sets the growth for a heap with so many bytes of objects.
func (g *heapGrowth) follow(objects int64) {
	percent := heapGrowthWith(objects)
	if g.isGiven || percent == g.percent {
		return
	}
	g.percent = percent
	debug.SetGCPercent(percent)
}

// heapGrowthWith returns the growth for a heap with so many bytes of objects.
func heapGrowthWith(objects int64) int {
	percent := 100 * (ownHeap + objects/objectParts) / (ownHeap + objects)
	return int(max(1, percent/growthStep) * growthStep)
}

// LargeAnswers returns how many large answers of the API server the driver may read at a time.
func (m *Memory) LargeAnswers() int {
	if m.limit == 0 {
		return mostAnswers
	}
	return int(min(max((m.limit-ownMemory)/answerMemory, leastAnswers), mostAnswers))
}

// ParseSize parses a size such as 128Mi, of at least 1Mi. An empty text is zero.
func ParseSize(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return 0, err
	}
	if q.Value() < mebibyte {
		return 0, fmt.Errorf("%s is less than 1Mi", text)
	}
	return q.Value(), nil
}

// containerLimit returns the memory limit of the control group, or zero without a limit. It logs a
// limit that it cannot read and returns zero: for that case there is --volume-memory.
func containerLimit(logger klog.Logger) (int64, error) {
	limit, err := cgroupLimit("/proc/self")
	switch {
	case err != nil:
		logger.Error(err, "The driver cannot read the memory limit of its container; set --volume-memory")
		return 0, nil
	case limit > 0 && limit < leastLimit:
		return 0, fmt.Errorf("the container's memory limit (with MemoryQoS: memory.high) is %s: the driver needs %s for "+
			"itself and for volumes together, and more where pods mount much; raise resources.limits.memory",
			quantity(limit), quantity(leastLimit))
	}
	return limit, nil
}

// volumeMemory returns how much memory volumes may use: the given number of bytes, or a share of
// the container's limit, or of the node's memory if both are zero.
func volumeMemory(given, limit int64, node func() (int64, error)) (int64, error) {
	switch {
	case given > 0:
		return given, nil
	case limit > 0:
		return (limit - ownMemory) / volumeParts * volumeShare, nil
	}
	total, err := node()
	if err != nil {
		return 0, fmt.Errorf("find out how much memory the node has (or set --volume-memory): %w", err)
	}
	return total / nodeParts, nil
}

// heapLimit returns the limit of the heap while files use so many bytes.
func heapLimit(limit, files int64) int64 { return max(leastHeap, limit-outsideHeap-files) }

// quantity returns a size as Kubernetes writes it.
func quantity(n int64) string { return resource.NewQuantity(n, resource.BinarySI).String() }
