package plane

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"kapis.dev/ks-apiserver/tools/dev/internal/pki"
)

// maxAnswer bounds what is read of one answer.
const maxAnswer = 16 << 20

// client sends JSON to one server with a certificate of ours. The few requests made here do not justify the size of a Kubernetes
// client library in this package.
type client struct {
	http   *http.Client
	server string
}

// newClient authenticates with the stored certificate cert, and trusts the stored authority only.
func newClient(l layout, authority, cert, server string) (*client, error) {
	roots := x509.NewCertPool()
	ca, err := os.ReadFile(l.pki(authority + ".crt"))
	if err != nil {
		return nil, fmt.Errorf("read the authority of %s: %w", server, err)
	}
	if !roots.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("%s holds no certificate", l.pki(authority+".crt"))
	}
	pair, err := pki.ReadPair(l.path("pki"), cert)
	if err != nil {
		return nil, err
	}
	identity, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		return nil, fmt.Errorf("use certificate %s: %w", cert, err)
	}
	return &client{
		server: server,
		http: &http.Client{
			Timeout: 10 * time.Second,
			Transport: &http.Transport{ // without Proxy: loopback needs none
				TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{identity}, MinVersion: tls.VersionTLS12},
			},
		},
	}, nil
}

// statusError is an answer other than 2xx.
type statusError struct {
	code int
	text string
}

func (e *statusError) Error() string {
	return fmt.Sprintf("%d %s: %s", e.code, http.StatusText(e.code), e.text)
}

// ready returns a function that returns nil once a GET of path succeeds.
func (c *client) ready(path string) func(context.Context) error {
	return func(ctx context.Context) error { return c.do(ctx, http.MethodGet, path, "", nil, nil) }
}

// do sends in as JSON, where it is not nil, and reads the answer into out, where that is not nil.
func (c *client) do(ctx context.Context, method, path, contentType string, in, out any) error {
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("%s %s: encode: %w", method, path, err)
		}
		body = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.server+path, body)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return err // names method and URL itself
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("%s %s: read the answer: %w", method, path, err)
	}
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s: %w", method, path, &statusError{resp.StatusCode, excerpt(data)})
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("%s %s: decode the answer: %w", method, path, err)
	}
	return nil
}

// excerpt returns the end of an answer, on one line: a failing /readyz says there what fails.
func excerpt(data []byte) string {
	text := strings.Join(strings.Fields(string(data)), " ")
	const most = 300
	if len(text) > most {
		text = "..." + text[len(text)-most:]
	}
	return text
}

// at is the same client speaking to another loopback port.
func (c *client) at(port int) *client {
	return &client{http: c.http, server: "https://" + loopback(port)}
}

// clients are the clients for the state of the components.
type clients struct {
	kube, etcd, kubelet *client
}

func newClients(l layout, p ports) (c clients, err error) {
	if c.kube, err = newClient(l, clusterCA, "admin", p.server()); err != nil {
		return clients{}, err
	}
	if c.etcd, err = newClient(l, etcdCA, "etcd-client", "https://"+loopback(p.Etcd)); err != nil {
		return clients{}, err
	}
	c.kubelet, err = newClient(l, clusterCA, "kubelet-client", "https://"+loopback(p.Kubelet))
	return c, err
}
