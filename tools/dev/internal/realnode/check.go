package realnode

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// cniFolder is where Debian's package has the CNI plugins.
const cniFolder = "/usr/lib/cni"

// needed are the programs of the node, and the Debian packages that have them.
var needed = []struct{ program, debianPackage string }{
	{"containerd", "containerd"}, {"containerd-shim-runc-v2", "containerd"}, {"ctr", "containerd"},
	{"runc", "runc"},
	{"ip", "iproute2"}, {"nft", "nftables"}, {"iptables", "iptables"},
	{"unshare", "util-linux"},
	{"busybox", "busybox-static"},
	{cniFolder + "/bridge", "containernetworking-plugins"}, {cniFolder + "/host-local", "containernetworking-plugins"},
	{cniFolder + "/portmap", "containernetworking-plugins"}, {cniFolder + "/loopback", "containernetworking-plugins"},
}

// Programs returns PATH with the folders of administrators' programs, which not every shell has in it.
func Programs(path string) string { return path + ":/usr/local/sbin:/usr/sbin:/sbin" }

// Check returns nil where a real node can run, else one line that says why it cannot and what to do.
func Check(ctx context.Context) error {
	if os.Geteuid() != 0 {
		return errors.New("it needs root: run the command as root, or with sudo -E")
	}
	if err := os.Setenv("PATH", Programs(os.Getenv("PATH"))); err != nil {
		return fmt.Errorf("extend PATH: %w", err)
	}
	if missing := missingPackages(); len(missing) > 0 {
		return fmt.Errorf("packages are missing: apt-get install --no-install-recommends %s", strings.Join(missing, " "))
	}
	if _, err := hierarchies(); err != nil {
		return err
	}
	return tryKernel(ctx)
}

func missingPackages() []string {
	var missing []string
	for _, n := range needed {
		if _, err := exec.LookPath(n.program); err != nil {
			missing = append(missing, n.debianPackage)
		}
	}
	slices.Sort(missing)
	return slices.Compact(missing)
}

// kernelTrial tries once, in namespaces that end with it, what the node will do.
const kernelTrial = `
mount -t tmpfs tmpfs /mnt && mkdir /mnt/lower /mnt/upper /mnt/work /mnt/merged
mount -t overlay overlay -o lowerdir=/mnt/lower,upperdir=/mnt/upper,workdir=/mnt/work /mnt/merged
ip link add kapis0 type bridge
ip link add kapis1 type veth peer name kapis2
nft add table ip kapis
nft 'add chain ip kapis nat { type nat hook prerouting priority -100; }'
`

func tryKernel(ctx context.Context) error {
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, "unshare", "--mount", "--net", "--pid", "--uts", "--ipc", "--fork", "sh", "-ec", kernelTrial)
	cmd.Stderr = &said
	if err := cmd.Run(); err != nil {
		reason := strings.Join(strings.Fields(said.String()), " ")
		return fmt.Errorf("this kernel or container has no namespaces, overlay, bridge, veth, or nftables with NAT: %s (%w)", reason, err)
	}
	return nil
}

// requiredControllers are the controllers that the kubelet and runc need of version 1 of cgroups.
var requiredControllers = []string{"cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "pids"}

const cgroupRoot = "/sys/fs/cgroup"

// hierarchies returns the folders under which a cgroup is made: one of version 2, else one for each controller.
func hierarchies() ([]string, error) {
	if _, err := os.Stat(filepath.Join(cgroupRoot, "cgroup.controllers")); err == nil {
		return []string{cgroupRoot}, nil
	}
	var missing []string
	for _, name := range requiredControllers {
		if _, err := os.Stat(filepath.Join(cgroupRoot, name, "cgroup.procs")); err != nil {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("no cgroup is mounted at %s for %s", cgroupRoot, strings.Join(missing, ", "))
	}
	files, err := filepath.Glob(filepath.Join(cgroupRoot, "*", "cgroup.procs"))
	if err != nil {
		return nil, fmt.Errorf("list the cgroup hierarchies: %w", err)
	}
	var folders []string
	seen := map[string]bool{}
	for _, file := range files {
		// cpu and cpuacct are often one hierarchy by two names.
		folder, err := filepath.EvalSymlinks(filepath.Dir(file))
		if err == nil && !seen[folder] {
			seen[folder] = true
			folders = append(folders, folder)
		}
	}
	return folders, nil
}
