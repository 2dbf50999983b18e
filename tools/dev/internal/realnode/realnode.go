// Package realnode runs one Kubernetes node with real containers next to the simulated ones: containerd, kubelet and
// kube-proxy in namespaces of their own (process ids, mounts, network, host name, IPC).
//
// The namespaces make it clean: when their first process dies, the kernel kills every other process in them, and removes the bridge,
// the nftables rules, the sysctls and the mounts. Only cgroups and files stay, which Clean removes. The node has no route out of the
// machine: one pair of virtual interfaces connects its bridge to the machine.
package realnode

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
)

const (
	// Name is the name of the node.
	Name = "real-0"
	// KubeletPort is where the kubelet listens, at Config.NodeIP.
	KubeletPort = 10250
	// BusyboxImage is an image that is on the node without a registry.
	BusyboxImage = "kapis.dev/busybox:dev"

	taintKey   = "kapis.dev/real"
	pauseImage = "kapis.dev/pause:dev"
	// maxNodes is how many real nodes a machine may have, each of a control plane of its own.
	maxNodes = 16
	// serviceCIDR is that of the control plane's Services.
	serviceCIDR = "10.96.0.0/16"
)

// Config says where the node keeps its files and how it reaches its control plane.
type Config struct {
	// Index is the number of the node among those of this machine: it chooses the interface and the network.
	Index int
	// Dir is the folder of the node's own files, which Clean removes.
	Dir string
	// Logs is the folder of the logs.
	Logs string
	// APIServerPort is the loopback port of kube-apiserver, which pods reach at HostIP.
	APIServerPort int
	// ClientCA, Cert and Key are files: the CA of the kubelet's clients, and its serving certificate.
	ClientCA, Cert, Key string
	// KubeletKubeconfig and ProxyKubeconfig are files.
	KubeletKubeconfig, ProxyKubeconfig string
}

// ReadConfig reads the file that Write wrote.
func ReadConfig(file string) (Config, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return Config{}, fmt.Errorf("read the configuration of the real node: %w", err)
	}
	var c Config
	if err := json.Unmarshal(data, &c); err != nil {
		return Config{}, fmt.Errorf("read the configuration of the real node in %s: %w", file, err)
	}
	return c, nil
}

// NodeIP returns the address of the node: that of its bridge.
func (c Config) NodeIP() string { return fmt.Sprintf("10.245.%d.1", c.Index) }

// HostIP returns the address at which the node and its pods reach this machine.
func (c Config) HostIP() string { return hostIP(c.Index) }

// Server returns the URL of kube-apiserver as the node sees it.
func (c Config) Server() string {
	return "https://" + net.JoinHostPort(c.HostIP(), strconv.Itoa(c.APIServerPort))
}

func (c Config) podCIDR() string { return fmt.Sprintf("10.245.%d.0/24", c.Index) }

// link is the name of the machine's end of the pair of interfaces, and of the bridge in the node's namespace.
func (c Config) link() string { return linkName(c.Index) }

// cgroup is the name of the cgroup of all pods, in every hierarchy.
func (c Config) cgroup() string { return "kapis-node-" + strconv.Itoa(c.Index) }

func (c Config) path(parts ...string) string {
	return filepath.Join(append([]string{c.Dir}, parts...)...)
}

// socket is where containerd listens; it can be reached from outside the namespaces too (ctr --address).
func (c Config) socket() string { return c.path("containerd.sock") }

func (c Config) log(name string) string { return filepath.Join(c.Logs, name+".log") }

// LogNames lists the logs that the node writes.
func LogNames() []string { return []string{"real-node", "containerd", "real-kubelet", "kube-proxy"} }

// ReadyFile returns the file that exists once all programs of the node have started.
func ReadyFile(dir string) string { return filepath.Join(dir, "ready") }

func hostIP(index int) string     { return fmt.Sprintf("10.245.%d.2", index) }
func linkName(index int) string   { return "kapis" + strconv.Itoa(index) }
func claimName(index int) string  { return "@kapis-node-" + strconv.Itoa(index) }
func stateFile(dir string) string { return filepath.Join(dir, "state.json") }
