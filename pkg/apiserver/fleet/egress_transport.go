package fleet

import (
	"net/http"
	"net/url"

	"k8s.io/client-go/rest"

	"kapis.dev/ks-apiserver/pkg/egress"
)

// dialed returns what lets requests to kube-apiservers of members dial only what users may reach: the address is a user's.
func dialed(allowLoopback bool) func(*rest.Config) {
	t := egress.NewTransport(egress.Options{AllowLoopback: allowLoopback})
	return func(c *rest.Config) {
		c.Dial, c.Proxy = t.DialContext, func(*http.Request) (*url.URL, error) { return nil, nil }
	}
}

// toEndpoints returns the transport to addresses of members. Who answers there proves itself within the link.
func toEndpoints(allowLoopback bool) *http.Transport {
	t := egress.NewTransport(egress.Options{AllowLoopback: allowLoopback, SkipVerify: true})
	t.ForceAttemptHTTP2 = false // WebSockets
	t.TLSClientConfig.NextProtos = []string{"http/1.1"}
	return t
}
