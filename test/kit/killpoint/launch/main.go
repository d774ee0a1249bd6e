// Command launch replaces itself by a program on a kill point:
//
//	launch SOCKET PROGRAM [ARGUMENT...]
//
// It does not know the program.
package main

import (
	"fmt"
	"os"

	"github.com/liveconfig-csi/liveconfig/test/kit/killpoint"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: launch SOCKET PROGRAM [ARGUMENT...]")
		os.Exit(2)
	}
	if err := killpoint.Exec(os.Args[1], os.Args[2], os.Args[3:]); err != nil {
		fmt.Fprintln(os.Stderr, "launch:", err)
		os.Exit(1)
	}
}
