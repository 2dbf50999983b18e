package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
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
	secure, err := kubeTLS(kube, u.Hostname())
	if err != nil {
		return target{}, err
	}
	secure.NextProtos = []string{"http/1.1"}
	header := http.Header{"Accept": {"application/json"}}
	return target{addr: u.Host, tls: secure, pid: pid, path: path, header: header, status: http.StatusOK}, nil
}

// kubeTLS is how connections to kube-apiserver are secured.
func kubeTLS(kube *rest.Config, host string) (*tls.Config, error) {
	secure, err := rest.TLSConfigFor(kube)
	if err != nil {
		return nil, fmt.Errorf("the credentials for kube-apiserver: %w", err)
	}
	if secure == nil {
		secure = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if secure.ServerName == "" {
		secure.ServerName = host
	}
	return secure, nil
}

// rates compares how many GETs of one pod a second are answered through the product and by kube-apiserver itself, in turns: both over TLS, on
// connections that are kept, by HTTP/1.1 and by HTTP/2. header is that of the product's user.
func rates(ctx context.Context, header http.Header, base string, kube *rest.Config, rounds, count int) ([]figure, error) {
	u, err := url.Parse(kube.Host)
	if err != nil {
		return nil, fmt.Errorf("the address of kube-apiserver: %w", err)
	}
	path := fmt.Sprintf("/api/v1/namespaces/%s/pods/%s", podNamespace(10), podName(10))
	var figures []figure
	for _, version := range [...]struct{ name, alpn string }{{"http1", "http/1.1"}, {"http2", "h2"}} {
		secure, err := kubeTLS(kube, u.Hostname())
		if err != nil {
			return nil, err
		}
		direct := rated{base: kube.Host, path: path, header: http.Header{"Accept": header["Accept"]}, tls: secure}
		through := rated{base: base, path: path, header: header, tls: &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}} //nolint:gosec // on loopback
		var ours, theirs []float64
		for round := range rounds {
			sides := []func() error{
				func() (err error) { ours, err = through.more(ctx, ours, version.alpn, count); return err },
				func() (err error) { theirs, err = direct.more(ctx, theirs, version.alpn, count); return err },
			}
			for i := range sides {
				if err := sides[(i+round)%len(sides)](); err != nil {
					return nil, err
				}
			}
		}
		figures = append(figures, figure{
			name: "api-rate-" + version.name, value: median(ours), unit: "1/s", yardstick: "kube-apiserver", base: median(theirs), goal: "ratio >= 0.65",
		})
	}
	return figures, nil
}

// rated is a GET to one of the two that are compared by rates.
type rated struct {
	base, path string
	header     http.Header
	tls        *tls.Config
}

// more appends the requests a second of one batch over connections of its own, of one version of HTTP.
func (r rated) more(ctx context.Context, rates []float64, alpn string, count int) ([]float64, error) {
	secure := r.tls.Clone()
	secure.NextProtos = []string{alpn}
	tr := &http.Transport{TLSClientConfig: secure, MaxIdleConnsPerHost: connections, ForceAttemptHTTP2: alpn == "h2"}
	defer tr.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, batchTimeout)
	defer cancel()
	one := func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.base+r.path, nil)
		if err != nil {
			return err
		}
		req.Header = r.header
		resp, err := tr.RoundTrip(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			return err
		}
		if resp.StatusCode != http.StatusOK || (alpn == "h2") != (resp.ProtoMajor == 2) {
			return fmt.Errorf("GET %s%s: answered %s by %s", r.base, r.path, resp.Status, resp.Proto)
		}
		return nil
	}
	if err := one(ctx); err != nil { // the connection is opened, and rights are known
		return rates, err
	}
	began, done := time.Now(), atomic.Int64{}
	group, asking := errgroup.WithContext(ctx)
	for range connections {
		group.Go(func() error {
			for done.Add(1) <= int64(count) {
				if err := one(asking); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return rates, err
	}
	return append(rates, float64(count)/time.Since(began).Seconds()), nil
}
