package plane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"kapis.dev/ks-apiserver/tools/dev/internal/pki"
	"kapis.dev/ks-apiserver/tools/dev/internal/process"
	"kapis.dev/ks-apiserver/tools/dev/internal/realnode"
)

const (
	// nodeReal is the value of --node that asks for a real node.
	nodeReal = "real"
	// realNodeTimeout bounds the wait for the real node; the rest of the control plane starts without it.
	realNodeTimeout = 3 * time.Minute
)

// realNode is the folder of the real node, which is removed as a whole.
func (l layout) realNode() string { return l.path("node") }

// realNodeConfig exists while the control plane runs with a real node.
func (l layout) realNodeConfig() string { return l.conf("real-node.json") }

// siblingPrograms returns the folder of this program, where the real node's programs are too.
func siblingPrograms() (string, error) {
	exe, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this program: %w", err)
	}
	return filepath.Dir(exe), nil
}

// claimRealNode returns the claim to a real node's number, or why there can be no real node.
func claimRealNode(ctx context.Context) (*realnode.Claim, error) {
	if err := realnode.Check(ctx); err != nil {
		return nil, err
	}
	bin, err := siblingPrograms()
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"node", "pause"} {
		if _, err := os.Stat(filepath.Join(bin, name)); err != nil {
			return nil, fmt.Errorf("%s is not built: tools/dev/build.sh %s node", filepath.Join(bin, name), bin)
		}
	}
	return realnode.ClaimIndex()
}

// realNodeOf describes the real node with the given number.
func (i instance) realNodeOf(index int) *realnode.Config {
	return &realnode.Config{
		Index: index, Dir: i.realNode(), Logs: i.path("log"), APIServerPort: i.ports.APIServer,
		ClientCA: i.pki("ca.crt"), Cert: i.pki("real-kubelet.crt"), Key: i.pki("real-kubelet.key"),
		KubeletKubeconfig: i.conf("real-kubelet.kubeconfig"), ProxyKubeconfig: i.conf("kube-proxy.kubeconfig"),
	}
}

// readRealNode returns the real node of the control plane that runs in l, or nil.
func readRealNode(l layout) (*realnode.Config, error) {
	c, err := realnode.ReadConfig(l.realNodeConfig())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return &c, err
}

// realNodeCertificates lists the certificates of the real node's programs.
func realNodeCertificates(c realnode.Config) []certificate {
	return []certificate{
		{clusterCA, "real-kubelet", pki.Request{
			CommonName: "system:node:" + realnode.Name, Groups: []string{"system:nodes"}, Names: []string{c.NodeIP(), realnode.Name},
		}},
		{clusterCA, "kube-proxy", pki.Request{CommonName: "system:kube-proxy"}},
	}
}

// writeRealNode writes the files of the real node's programs, or removes those of an earlier one.
func (i instance) writeRealNode() error {
	if i.real == nil {
		if err := os.Remove(i.realNodeConfig()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("forget the real node: %w", err)
		}
		return nil
	}
	authority, err := pki.LoadAuthority(i.path("pki"), clusterCA)
	if err != nil {
		return err
	}
	for cert, file := range map[string]string{
		"real-kubelet": i.real.KubeletKubeconfig,
		"kube-proxy":   i.real.ProxyKubeconfig,
	} {
		pair, err := pki.ReadPair(i.path("pki"), cert)
		if err != nil {
			return err
		}
		v := kubeconfigValues{Server: i.real.Server(), User: cert, CA: authority.Cert, Pair: pair}
		if err := writeKubeconfig(file, v); err != nil {
			return err
		}
	}
	data, err := json.Marshal(i.real)
	if err != nil {
		return fmt.Errorf("encode the configuration of the real node: %w", err)
	}
	return pki.WriteFile(i.realNodeConfig(), data, 0o600)
}

const realNodePath = "/api/v1/nodes/" + realnode.Name

// kubeletAdmin lets kube-apiserver read logs and run commands on a kubelet that asks it who may.
var kubeletAdmin = object{
	"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
	"metadata": object{"name": "kapis:kubelet-api-admin"},
	"roleRef":  object{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:kubelet-api-admin"},
	"subjects": []object{{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": kubeletClient}},
}

// ofRealNode are the objects of an earlier run with a real node: the Node, and where pods found kube-apiserver.
var ofRealNode = []string{
	realNodePath,
	"/api/v1/namespaces/default/endpoints/kubernetes",
	"/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes",
}

// admitRealNode prepares the cluster for the real node. Where there is none, the objects of an earlier run are deleted; with the Node,
// Kubernetes removes the pods that were on it.
func (i instance) admitRealNode(ctx context.Context, c *client) error {
	if i.real == nil {
		for _, path := range ofRealNode {
			if err := c.do(ctx, http.MethodDelete, path, "", nil, nil); err != nil && code(err) != http.StatusNotFound {
				return fmt.Errorf("delete what an earlier run with a real node left: %w", err)
			}
		}
		return nil
	}
	err := c.do(ctx, http.MethodPost, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", "application/json", kubeletAdmin, nil)
	if err != nil && code(err) != http.StatusConflict {
		return fmt.Errorf("let kube-apiserver use the kubelet: %w", err)
	}
	// The node's former conditions no longer hold, until its kubelet reports again.
	unknown := object{"status": object{"conditions": []object{{
		"type": "Ready", "status": "Unknown", "reason": "Starting", "message": "the real node is starting",
	}}}}
	err = c.do(ctx, http.MethodPatch, realNodePath+"/status", "application/strategic-merge-patch+json", unknown, nil)
	if err != nil && code(err) != http.StatusNotFound {
		return fmt.Errorf("mark the real node as starting: %w", err)
	}
	return nil
}

// realNodeComponent is the program that runs the real node.
func (i instance) realNodeComponent(c *client) (process.Component, error) {
	bin, err := siblingPrograms()
	if err != nil {
		return process.Component{}, err
	}
	component := i.component("real-node", nil, i.realNodeReady(c))
	component.Command = func() *exec.Cmd {
		cmd := exec.Command(filepath.Join(bin, "node"), "up", i.realNodeConfig()) //nolint:noctx // the supervisor ends it
		cmd.Dir = i.pods()
		cmd.Env = i.environment()
		return cmd
	}
	return component, nil
}

// realNodeReady returns a function that returns nil once pods can run on the node.
func (l layout) realNodeReady(c *client) func(context.Context) error {
	return func(ctx context.Context) error {
		if _, err := os.Stat(realnode.ReadyFile(l.realNode())); err != nil {
			return errors.New("its programs are starting")
		}
		var n listedNode
		if err := c.do(ctx, http.MethodGet, realNodePath, "", nil, &n); err != nil {
			return err
		}
		if !n.ready() {
			return errors.New("the node is not Ready")
		}
		return c.do(ctx, http.MethodGet, realNodePath+"/proxy/healthz", "", nil, nil) // as logs and exec reach it
	}
}

// startRealNode starts the real node. A failure is printed, and the control plane continues without it.
func (i instance) startRealNode(ctx context.Context, s *process.Supervisor, c *client, logf func(string, ...any)) error {
	component, err := i.realNodeComponent(c)
	if err != nil {
		return err
	}
	starting, cancel := context.WithTimeoutCause(ctx, realNodeTimeout, fmt.Errorf("not ready within %s", realNodeTimeout))
	defer cancel()
	err = s.Start(starting, component)
	switch {
	case ctx.Err() != nil:
		return err
	case err != nil:
		logf("no real node: %v; its log is %s%s", err, component.Log, lastLines(component.Log))
	default:
		logf("node %s is ready: real containers, image %s", realnode.Name, realnode.BusyboxImage)
	}
	return nil
}
