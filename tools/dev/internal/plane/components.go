package plane

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"

	"kapis.dev/ks-apiserver/tools/dev/internal/pki"
	"kapis.dev/ks-apiserver/tools/dev/internal/process"
	"kapis.dev/ks-apiserver/tools/dev/internal/realnode"
)

// instance is one control plane with all of its settings.
type instance struct {
	layout
	ports  ports
	claims portClaims
	// real is the real node, or nil.
	real *realnode.Config
}

// self is this program, which is every component. The link in /proc stays right when a new build replaces the file.
const self = "/proc/self/exe"

// components lists what is started, in order.
func (i instance) components(c clients) []process.Component {
	return []process.Component{
		i.component("etcd", i.etcdFlags(), c.etcd.ready("/readyz")),
		i.component("kube-apiserver", i.apiserverFlags(), c.kube.ready("/readyz")),
		i.component("kube-controller-manager", i.controllerManagerFlags(),
			c.kube.at(i.ports.ControllerManager).ready("/healthz")),
		i.component("kube-scheduler", i.schedulerFlags(), c.kube.at(i.ports.Scheduler).ready("/healthz")),
		i.component("kubelet", i.kubeletFlags(), c.kubelet.ready("/healthz")),
		i.component("kwok", i.kwokFlags(), c.kube.at(i.ports.Kwok).ready("/healthz")),
	}
}

func (i instance) component(name string, flags []string, ready func(context.Context) error) process.Component {
	return process.Component{
		Name: name,
		Command: func() *exec.Cmd {
			if name == "etcd" {
				if err := i.adoptRestored(); err != nil {
					fmt.Fprintln(os.Stderr, "dev:", err) // etcd goes on with the data that it has
				}
			}
			cmd := exec.Command(self, append([]string{name}, flags...)...) //nolint:noctx // the supervisor ends it, in order
			cmd.Args[0] = "dev"                                            // what ps shows
			cmd.Dir = i.pods()                                             // a relative path given by mistake is in there
			cmd.Env = i.environment()
			return cmd
		},
		Log:   i.log(name),
		Ready: ready,
	}
}

// environment is short: no proxy settings, no credentials, and no home with configuration of the user, since commands in simulated
// containers see it too.
func (i instance) environment() []string {
	// A laptop has little memory: more garbage collection makes the heaps of these components a third smaller. Tests, which start many control
	// planes where there is more, ask for less of it.
	env := []string{i.mark(), "HOME=" + i.pods(), "GOGC=" + cmp.Or(os.Getenv("DEV_GOGC"), "50")}
	for _, name := range []string{"PATH", "TMPDIR", "TZ", "LANG"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

func (i instance) etcdFlags() []string {
	client, peer := "https://"+loopback(i.ports.Etcd), "https://"+loopback(i.ports.EtcdPeer)
	return []string{
		"--name=dev",
		"--data-dir=" + i.etcd(),
		"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=dev=" + peer,
		"--cert-file=" + i.pki("etcd.crt"), "--key-file=" + i.pki("etcd.key"),
		"--client-cert-auth", "--trusted-ca-file=" + i.pki("etcd-ca.crt"),
		"--peer-cert-file=" + i.pki("etcd.crt"), "--peer-key-file=" + i.pki("etcd.key"),
		"--peer-client-cert-auth", "--peer-trusted-ca-file=" + i.pki("etcd-ca.crt"),
		// The data of a development cluster may be lost when the machine (not just a process) crashes; not waiting for the disk makes
		// it quick on a laptop.
		"--unsafe-no-fsync",
		"--log-level=warn",
	}
}

func (i instance) apiserverFlags() []string {
	// An Endpoints object may not name a loopback address, so there is none for the kubernetes Service without a real node.
	advertised, reconciler := "127.0.0.1", "none"
	if i.real != nil {
		advertised, reconciler = i.real.HostIP(), "lease"
	}
	return []string{
		"--bind-address=127.0.0.1", "--advertise-address=" + advertised, fmt.Sprintf("--secure-port=%d", i.ports.APIServer),
		"--endpoint-reconciler-type=" + reconciler,
		"--etcd-servers=https://" + loopback(i.ports.Etcd),
		"--etcd-cafile=" + i.pki("etcd-ca.crt"),
		"--etcd-certfile=" + i.pki("etcd-client.crt"), "--etcd-keyfile=" + i.pki("etcd-client.key"),
		"--tls-cert-file=" + i.pki("kube-apiserver.crt"), "--tls-private-key-file=" + i.pki("kube-apiserver.key"),
		"--client-ca-file=" + i.pki("ca.crt"),
		"--authorization-mode=Node,RBAC",
		"--allow-privileged",
		"--service-cluster-ip-range=10.96.0.0/16",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + i.pki(serviceAccountKey+".pub"),
		"--service-account-signing-key-file=" + i.pki(serviceAccountKey),
		"--requestheader-client-ca-file=" + i.pki("front-proxy-ca.crt"),
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-uid-headers=X-Remote-Uid",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + i.pki("front-proxy-client.crt"),
		"--proxy-client-key-file=" + i.pki("front-proxy-client.key"),
		"--enable-aggregator-routing",
		"--kubelet-preferred-address-types=InternalIP",
		"--kubelet-certificate-authority=" + i.pki("ca.crt"),
		"--kubelet-client-certificate=" + i.pki("kubelet-client.crt"),
		"--kubelet-client-key=" + i.pki("kubelet-client.key"),
		"--audit-policy-file=" + i.conf("audit-policy.yaml"),
		"--audit-log-path=" + i.log("kube-audit"),
		"--audit-log-maxsize=32", "--audit-log-maxbackup=1",
		"--profiling=false",
	}
}

func (i instance) controllerManagerFlags() []string {
	kubeconfig := i.conf("kube-controller-manager.kubeconfig")
	return []string{
		"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", i.ports.ControllerManager),
		"--tls-cert-file=" + i.pki("kube-controller-manager.crt"),
		"--tls-private-key-file=" + i.pki("kube-controller-manager.key"),
		"--client-ca-file=" + i.pki("ca.crt"),
		"--leader-elect=false", // there is only one
		// Each controller with the rights of its own role: the shared identity may not create ReplicaSets.
		"--use-service-account-credentials",
		"--service-account-private-key-file=" + i.pki(serviceAccountKey),
		"--root-ca-file=" + i.pki("ca.crt"),
		"--cluster-signing-cert-file=" + i.pki("ca.crt"), "--cluster-signing-key-file=" + i.pki("ca.key"),
		"--kube-api-qps=300", "--kube-api-burst=600",
		"--node-monitor-grace-period=2m", // a machine that is busy with builds and tests is not a dead node
		"--profiling=false",
	}
}

func (i instance) schedulerFlags() []string {
	kubeconfig := i.conf("kube-scheduler.kubeconfig")
	return []string{
		"--config=" + i.conf("kube-scheduler.yaml"),
		"--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", i.ports.Scheduler),
		"--tls-cert-file=" + i.pki("kube-scheduler.crt"), "--tls-private-key-file=" + i.pki("kube-scheduler.key"),
		"--client-ca-file=" + i.pki("ca.crt"),
	}
}

func (i instance) kubeletFlags() []string {
	return []string{
		"--address=" + loopback(i.ports.Kubelet),
		"--cert-file=" + i.pki("kubelet.crt"), "--key-file=" + i.pki("kubelet.key"),
		"--client-ca-file=" + i.pki("ca.crt"), "--client-name=" + kubeletClient,
		"--dir=" + i.pods(),
		"--log=" + i.path("pods", containerLog),
		"--previous-log=" + i.path("pods", previousContainerLog),
	}
}

func (i instance) kwokFlags() []string {
	return []string{
		"--config=" + i.conf("kwok.yaml"),
		"--kubeconfig=" + i.conf("kwok.kubeconfig"),
		"--server-address=" + loopback(i.ports.Kwok), // health and metrics
		"--node-ip=127.0.0.1", fmt.Sprintf("--node-port=%d", i.ports.Kubelet),
		"--tls-cert-file=" + i.pki("kwok.crt"), "--tls-private-key-file=" + i.pki("kwok.key"),
		"--manage-nodes-with-annotation-selector=" + nodeAnnotation + "=" + nodeAnnotationValue,
		"--node-lease-duration-seconds=10", // which is also how long a kwok that is started again does nothing
		"--cidr=10.244.0.0/16",
	}
}

const schedulerConfig = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection:
  kubeconfig: %q
  qps: 300
  burst: 600
leaderElection:
  leaderElect: false
enableProfiling: false
`

// auditPolicy records who did what, not with which content; reads of leases and health by the components are left out.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  resources:
  - group: coordination.k8s.io
    resources: [leases]
- level: None
  nonResourceURLs: ["/healthz*", "/livez*", "/readyz*"]
- level: Metadata
`

// writeConfigs writes the configuration files that the flags name.
func (i instance) writeConfigs() error {
	kwok, err := i.kwokConfig()
	if err != nil {
		return err
	}
	for name, content := range map[string]string{
		"kube-scheduler.yaml": fmt.Sprintf(schedulerConfig, i.conf("kube-scheduler.kubeconfig")),
		"audit-policy.yaml":   auditPolicy,
		"kwok.yaml":           kwok,
	} {
		if err := pki.WriteFile(i.conf(name), []byte(content), 0o600); err != nil {
			return err
		}
	}
	if err := componentKubeconfigs(i.layout, i.ports); err != nil {
		return err
	}
	return i.writeRealNode()
}
