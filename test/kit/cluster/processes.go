package cluster

// Processes returns the process IDs of the API server and of etcd, for measurements; zero for one that is stopped. A
// restarted API server has another.
func (c *Cluster) Processes() (apiServer, etcd int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.apiServer != nil {
		apiServer = c.apiServer.PID()
	}
	if c.etcd != nil {
		etcd = c.etcd.PID()
	}
	return apiServer, etcd
}
