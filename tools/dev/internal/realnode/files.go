package realnode

import (
	"bytes"
	"fmt"
	"os"
	"text/template"

	"kapis.dev/ks-apiserver/tools/dev/internal/pki"
)

// files are the configuration files of the node. Paths are written with %q, which TOML and YAML both read.
var files = map[string]string{
	"containerd.toml": `version = 2
root = {{.Path "containerd" | printf "%q"}}
state = "/run/containerd"
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.devmapper"]
[grpc]
  address = {{.Socket | printf "%q"}}
[plugins."io.containerd.internal.v1.opt"]
  path = {{.Path "opt" | printf "%q"}}
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = {{.PauseImage | printf "%q"}}
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"
  # Root may lack CAP_SYS_RESOURCE, as in some virtual machines: a lower score than one's own is then refused.
  restrict_oom_score_adj = true
  tolerate_missing_hugetlb_controller = true
  # A profile would stay in the kernel.
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = {{.CNIFolder | printf "%q"}}
    conf_dir = {{.Path "cni" | printf "%q"}}
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
`,
	"cni/10-kapis.conflist": `{
  "cniVersion": "1.0.0",
  "name": "kapis",
  "plugins": [
    {
      "type": "bridge", "bridge": "{{.Link}}", "isGateway": true, "isDefaultGateway": true, "hairpinMode": true,
      "ipam": {
        "type": "host-local", "dataDir": "/run/cni",
        "ranges": [[{"subnet": "{{.PodCIDR}}", "gateway": "{{.NodeIP}}", "rangeStart": "{{.FirstPodIP}}"}]]
      }
    },
    {"type": "portmap", "capabilities": {"portMappings": true}}
  ]
}
`,
	"kubelet.yaml": `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: {{.NodeIP}}
port: {{.KubeletPort}}
healthzBindAddress: 127.0.0.1
healthzPort: 10248
authentication:
  anonymous:
    enabled: false
  webhook:
    enabled: true
  x509:
    clientCAFile: {{.ClientCA | printf "%q"}}
authorization:
  mode: Webhook
tlsCertFile: {{.Cert | printf "%q"}}
tlsPrivateKeyFile: {{.Key | printf "%q"}}
containerRuntimeEndpoint: {{.Socket | printf "unix://%s" | printf "%q"}}
# Version 1 of cgroups is refused unless this says otherwise.
failCgroupV1: false
cgroupDriver: cgroupfs
cgroupRoot: /{{.Cgroup}}
registerWithTaints:
- key: {{.TaintKey}}
  effect: NoSchedule
# Images were imported: no registry has them.
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
# 0% is no threshold. The disk and the memory are the machine's, which others use too: no pod of this node ends for what they take.
evictionHard:
  memory.available: 0%
  nodefs.available: 0%
  nodefs.inodesFree: 0%
  imagefs.available: 0%
  imagefs.inodesFree: 0%
failSwapOn: false
clusterDNS: [{{.NodeIP}}]
clusterDomain: cluster.local
oomScoreAdj: 0
podLogsDir: {{.Path "pods" | printf "%q"}}
volumePluginDir: {{.Path "volumeplugins" | printf "%q"}}
resolvConf: {{.Path "resolv.conf" | printf "%q"}}
`,
	// Nothing answers DNS queries here, and none may leave the machine.
	"resolv.conf": "nameserver {{.NodeIP}}\n",
	"kube-proxy.yaml": `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
clientConnection:
  kubeconfig: {{.ProxyKubeconfig | printf "%q"}}
clusterCIDR: {{.PodCIDR}}
bindAddress: {{.NodeIP}}
healthzBindAddress: 127.0.0.1:10256
metricsBindAddress: 127.0.0.1:10249
nodePortAddresses: [{{.PodCIDR}}]
hostnameOverride: {{.NodeName}}
oomScoreAdj: 0
nftables:
  masqueradeAll: {{.MasqueradeAll}}
# The limits of the connection table are the machine's, and not for a namespace to set.
conntrack:
  maxPerCore: 0
  min: 0
  tcpEstablishedTimeout: 0s
  tcpCloseWaitTimeout: 0s
`,
}

// fileValues are what the files name.
type fileValues struct {
	Config
	Socket, Cgroup, Link, PodCIDR, FirstPodIP string
	PauseImage, CNIFolder, TaintKey, NodeName string
	KubeletPort                               int
	// MasqueradeAll sends answers from pod to pod back through the node, where a kernel without br_netfilter would not.
	MasqueradeAll bool
}

// Path returns the path of a file of the node.
func (v fileValues) Path(name string) string { return v.path(name) }

func (c Config) writeFiles() error {
	for _, folder := range []string{"cni", "sysctl", "images"} {
		if err := os.MkdirAll(c.path(folder), 0o700); err != nil {
			return fmt.Errorf("make a folder of the real node: %w", err)
		}
	}
	_, err := os.Stat("/proc/sys/net/" + bridgeFilter)
	values := fileValues{
		Config: c, Socket: c.socket(), Cgroup: c.cgroup(), Link: c.link(), PodCIDR: c.podCIDR(),
		FirstPodIP: fmt.Sprintf("10.245.%d.10", c.Index), PauseImage: pauseImage, CNIFolder: cniFolder, TaintKey: taintKey,
		NodeName: Name, KubeletPort: KubeletPort, MasqueradeAll: err != nil,
	}
	for name, text := range files {
		parsed, err := template.New(name).Parse(text)
		if err != nil {
			return fmt.Errorf("read the template of %s: %w", name, err)
		}
		var b bytes.Buffer
		if err := parsed.Execute(&b, values); err != nil {
			return fmt.Errorf("fill in %s: %w", name, err)
		}
		if err := pki.WriteFile(c.path(name), b.Bytes(), 0o600); err != nil {
			return err
		}
	}
	return nil
}

func (c Config) kubeletFlags() []string {
	return []string{
		"kubelet",
		"--config=" + c.path("kubelet.yaml"),
		"--kubeconfig=" + c.KubeletKubeconfig,
		"--hostname-override=" + Name,
		"--node-ip=" + c.NodeIP(),
		"--node-labels=type=real",
		"--root-dir=" + c.path("kubelet"),
	}
}

func (c Config) proxyFlags() []string {
	return []string{"kube-proxy", "--config=" + c.path("kube-proxy.yaml")}
}
