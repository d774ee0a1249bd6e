// Command coredns is CoreDNS with the few of its plugins that tests need: all of them would take
// minutes to build.
package main

import (
	"github.com/coredns/coredns/coremain"

	// Plugins add themselves.
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/hosts"
)

func main() { coremain.Run() }
