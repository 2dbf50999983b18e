package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/url"

	"k8s.io/client-go/rest"
)

// passed compares what a GET of one pod through the product costs the product with what the same GET costs kube-apiserver. kubePID 0
// means that kube-apiserver is not on this machine, so that there is nothing to compare with.
func passed(ctx context.Context, c client, kube *rest.Config, kubePID, rounds, count int) ([]figure, error) {
	path := fmt.Sprintf("/api/v1/namespaces/%s/pods/%s", podNamespace(10), podName(10))
	ours, err := c.at(path, http.StatusOK)
	if err != nil {
		return nil, err
	}
	match := contest{
		name: "proxy-get", conns: connections, product: side{target: ours, count: count}, beside: "kube-apiserver",
		measures: []measure{cpu("ratio <= 0.5")},
	}
	if kubePID != 0 {
		direct, err := kubeTarget(kube, kubePID, path)
		if err != nil {
			return nil, err
		}
		match.yardstick = &side{target: direct, count: count}
	}
	return match.run(ctx, rounds)
}

// kubeTarget sends requests to kube-apiserver itself. HTTP/1.1, as on the other side: HTTP/2 would cost kube-apiserver more.
func kubeTarget(kube *rest.Config, pid int, path string) (target, error) {
	u, err := url.Parse(kube.Host)
	if err != nil {
		return target{}, fmt.Errorf("the address of kube-apiserver: %w", err)
	}
	secure, err := rest.TLSConfigFor(kube)
	if err != nil {
		return target{}, fmt.Errorf("the credentials for kube-apiserver: %w", err)
	}
	if secure == nil {
		secure = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if secure.ServerName == "" {
		secure.ServerName = u.Hostname()
	}
	secure.NextProtos = []string{"http/1.1"}
	header := http.Header{"Accept": {"application/json"}}
	return target{addr: u.Host, tls: secure, pid: pid, path: path, header: header, status: http.StatusOK}, nil
}
