package plane

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
)

const (
	// nodeAnnotation marks the nodes that kwok plays; tests may add more, with it or without.
	nodeAnnotation      = "kwok.x-k8s.io/node"
	nodeAnnotationValue = "fake"

	nodeCount = 3
	// kubernetesVersion is what the simulated kubelets claim; build.sh says the same of the real components.
	kubernetesVersion = "v1.37.1"
)

type object = map[string]any

// node describes a simulated machine whose kubelet is kwok at the given loopback port.
func node(name string, kubeletPort int) object {
	capacity := object{
		"cpu": "64", "memory": "512Gi", "ephemeral-storage": "1Ti", "pods": "5000", "hugepages-2Mi": "0",
	}
	return object{
		"apiVersion": "v1", "kind": "Node",
		"metadata": object{
			"name":        name,
			"annotations": object{nodeAnnotation: nodeAnnotationValue},
			"labels": object{
				"kubernetes.io/hostname":         name,
				"kubernetes.io/os":               "linux",
				"kubernetes.io/arch":             runtime.GOARCH,
				"node-role.kubernetes.io/worker": "",
				"type":                           "simulated",
			},
		},
		"status": object{
			"capacity":    capacity,
			"allocatable": capacity,
			"addresses": []object{
				{"type": "InternalIP", "address": "127.0.0.1"},
				{"type": "Hostname", "address": name},
			},
			"daemonEndpoints": object{"kubeletEndpoint": object{"Port": kubeletPort}},
			"nodeInfo": object{
				"architecture": runtime.GOARCH, "operatingSystem": "linux", "osImage": "simulated",
				"kernelVersion": "simulated", "containerRuntimeVersion": "kwok://v0.8.0",
				"kubeletVersion": kubernetesVersion, "kubeProxyVersion": "",
				"machineID": name, "systemUUID": name, "bootID": name,
			},
		},
	}
}

func nodeName(i int) string { return fmt.Sprintf("dev-node-%d", i) }

func leasePath(i int) string {
	return "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/" + nodeName(i)
}

// ensureNodes creates the simulated nodes, and updates the kubelet's address of those of an earlier run. Their leases are removed, as
// kwok leaves nodes alone whose lease another process holds, and its own earlier process is another one.
func ensureNodes(ctx context.Context, c *client, kubeletPort int) error {
	for i := range nodeCount {
		n := node(nodeName(i), kubeletPort)
		err := c.do(ctx, http.MethodPost, "/api/v1/nodes", "application/json", n, nil)
		if code(err) == http.StatusConflict {
			err = c.do(ctx, http.MethodPatch, "/api/v1/nodes/"+nodeName(i)+"/status", "application/strategic-merge-patch+json",
				object{"status": n["status"]}, nil)
		}
		if err != nil {
			return fmt.Errorf("create the simulated nodes: %w", err)
		}
		err = c.do(ctx, http.MethodDelete, leasePath(i), "", nil, nil)
		if err != nil && code(err) != http.StatusNotFound {
			return fmt.Errorf("release the simulated nodes: %w", err)
		}
	}
	return nil
}

// code returns the status that a server has answered with, or 0.
func code(err error) int {
	var status *statusError
	if errors.As(err, &status) {
		return status.code
	}
	return 0
}

type nodeList struct {
	Items []listedNode `json:"items"`
}

// listedNode is what is read of a Node.
type listedNode struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Taints []struct {
			Key string `json:"key"`
		} `json:"taints"`
	} `json:"spec"`
	Status struct {
		Conditions []struct {
			Type   string `json:"type"`
			Status string `json:"status"`
		} `json:"conditions"`
	} `json:"status"`
}

func (n listedNode) ready() bool {
	for _, c := range n.Status.Conditions {
		if c.Type == "Ready" && c.Status == "True" {
			return true
		}
	}
	return false
}

// usable returns nil when enough nodes are ready and accept pods.
func (l nodeList) usable() error {
	usable := 0
	for _, n := range l.Items {
		if n.ready() && len(n.Spec.Taints) == 0 {
			usable++
		}
	}
	if usable < nodeCount {
		return fmt.Errorf("%d of %d nodes are ready", usable, nodeCount)
	}
	return nil
}

// usable returns nil once pods can be created and would be started: what users may rely on after READY.
func usable(c *client) func(context.Context) error {
	return func(ctx context.Context) error {
		var nodes nodeList
		if err := c.do(ctx, http.MethodGet, "/api/v1/nodes", "", nil, &nodes); err != nil {
			return err
		}
		if err := nodes.usable(); err != nil {
			return err
		}
		for i := range nodeCount { // a lease says that kwok has taken the node over
			if err := c.do(ctx, http.MethodGet, leasePath(i), "", nil, nil); err != nil {
				return err
			}
		}
		return c.do(ctx, http.MethodGet, "/api/v1/namespaces/default/serviceaccounts/default", "", nil, nil)
	}
}
