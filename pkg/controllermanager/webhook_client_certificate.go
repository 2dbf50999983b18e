package controllermanager

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"

	"k8s.io/client-go/util/cert"
)

// readClientCA returns the authorities in a file that sign kube-apiserver's client certificate for webhooks; nil for no file.
func readClientCA(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil //nolint:nilnil // nil is none
	}
	pool, err := cert.NewPool(file)
	if err != nil {
		return nil, fmt.Errorf("--webhook-client-ca-file: %w", err)
	}
	return pool, nil
}

// tls completes the TLS configuration of the webhooks. Connections without a client certificate are accepted, since the check of readiness
// opens such: authenticated refuses their requests.
func (h *webhooks) tls(c *tls.Config) {
	c.MinVersion, c.GetCertificate = tls.VersionTLS12, h.keeper.Certificate
	if h.clientCA != nil {
		c.ClientCAs, c.ClientAuth = h.clientCA, tls.VerifyClientCertIfGiven
	}
}

// authenticated passes on the requests of kube-apiserver only, where it has a client certificate: whatever a review says is true in reviews
// of kube-apiserver, and some reviews reserve.
func (h *webhooks) authenticated(next http.Handler) http.Handler {
	if h.clientCA == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
			http.Error(w, "kube-apiserver's client certificate is missing: see --webhook-client-ca-file", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}
