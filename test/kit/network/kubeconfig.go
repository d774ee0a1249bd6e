package network

import (
	"fmt"

	"k8s.io/client-go/tools/clientcmd"
)

// redirect writes a kubeconfig that is the same as another one, but names another server.
func redirect(from, to, server string) error {
	config, err := clientcmd.LoadFromFile(from)
	if err != nil {
		return fmt.Errorf("read the kubeconfig to redirect: %w", err)
	}
	for _, cluster := range config.Clusters {
		cluster.Server = server
	}
	if err := clientcmd.WriteToFile(*config, to); err != nil { // With mode 0600.
		return fmt.Errorf("write the redirected kubeconfig: %w", err)
	}
	return nil
}
