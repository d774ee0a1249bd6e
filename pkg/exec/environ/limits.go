package environ

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Limits are what the kernel takes for one program.
type Limits struct {
	// One is the largest variable, with its name and the NUL byte that ends it.
	One int
	// All is for all arguments and variables together, with a NUL byte and a pointer for each.
	All int
}

// pointer is what each string takes besides its bytes, on machines of 64 bits.
const pointer = 8

// The kernel's numbers: a quarter of the stack, but three quarters of 8 MiB at most, and 128 KiB at
// least.
const (
	pagesOfOne = 32
	leastOfAll = 128 << 10
	mostOfAll  = 6 << 20
)

// LimitsFor returns the limits for a stack of so many bytes and pages of that size.
func LimitsFor(stack uint64, page int) Limits {
	all := min(stack/4, mostOfAll)
	return Limits{One: pagesOfOne * page, All: max(int(all), leastOfAll)}
}

// Check returns an error if the kernel would not start a command with these variables. It names
// them, and the largest.
func (l Limits) Check(command, variables []string) error {
	for _, v := range variables {
		name, value, _ := strings.Cut(v, "=")
		if err := l.checkOne(name, value); err != nil {
			return err
		}
	}
	total := sizeOf(command) + sizeOf(variables)
	if len(command) > 0 {
		total += len(command[0]) + 1 // The program's path is there a second time.
	}
	if total > l.All {
		return fmt.Errorf("all variables and arguments take %d bytes, and the kernel allows %d; the largest are %s: "+
			"have the program read files instead, or raise the limit of the stack (ulimit -s)", total, l.All, largest(variables))
	}
	return nil
}

// checkOne returns an error if the kernel would not take a variable.
func (l Limits) checkOne(name, value string) error {
	size := len(name) + len(value) + len("=\x00")
	if size <= l.One {
		return nil
	}
	return unusable(fmt.Sprintf("%s takes %d bytes, and the kernel allows %d for one variable: have the program read "+
		"the file instead",
		name, size, l.One))
}

func sizeOf(texts []string) int {
	size := 0
	for _, t := range texts {
		size += len(t) + 1 + pointer
	}
	return size
}

func nameOf(variable string) string {
	name, _, _ := strings.Cut(variable, "=")
	return name
}

// largest names the three largest variables, with their sizes.
func largest(variables []string) string {
	sorted := slices.SortedFunc(slices.Values(variables), func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	var named []string
	for _, v := range sorted[:min(len(sorted), 3)] {
		named = append(named, fmt.Sprintf("%s (%d)", nameOf(v), len(v)))
	}
	return strings.Join(named, ", ")
}
