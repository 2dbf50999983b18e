package kube

import (
	"cmp"
	"fmt"
	"os"
	"strings"

	"k8s.io/client-go/rest"
)

// Endpoint returns where users reach the kube-apiserver of cluster, and the PEM certificates of its CAs, for their kubeconfigs: at address,
// or, where that is empty, where this program does.
func Endpoint(cluster *rest.Config, address string) (server string, authority []byte, err error) {
	server = strings.TrimSuffix(cmp.Or(address, cluster.Host), "/")
	if !strings.HasPrefix(server, "https://") {
		return "", nil, fmt.Errorf("%q is no https URL: set kubeconfig.kubernetesServer to where people reach kube-apiserver", server)
	}
	if len(cluster.CAData) > 0 || cluster.CAFile == "" {
		return server, cluster.CAData, nil
	}
	if authority, err = os.ReadFile(cluster.CAFile); err != nil {
		return "", nil, fmt.Errorf("read who vouches for kube-apiserver, for kubeconfigs: %w", err)
	}
	return server, authority, nil
}
