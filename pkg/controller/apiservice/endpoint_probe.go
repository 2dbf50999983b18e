package apiservice

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"

	queryv1alpha1 "kapis.dev/ks-apiserver/pkg/api/query/v1alpha1"
)

const (
	// patience bounds the question to one endpoint, and mostAsked how many are asked in one round.
	patience  = 2 * time.Second
	mostAsked = 20
)

// endpoints are what kube-apiserver would connect to.
type endpoints struct{ client kubernetes.Interface }

// bundle returns the authorities of the Secret that ks-apiserver keeps its serving certificate in.
func (e *endpoints) bundle(ctx context.Context) ([]byte, error) {
	s, err := e.client.CoreV1().Secrets(queryv1alpha1.ServiceNamespace).Get(ctx, queryv1alpha1.ServingSecret, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, errNoBundle
	case err != nil:
		return nil, fmt.Errorf("read the authority of the serving certificate: %w", err)
	}
	return trimmed(s.Data["ca.crt"])
}

// answer asks the endpoints of the Service one after the other until one answers.
func (e *endpoints) answer(ctx context.Context, bundle []byte) error {
	slices, err := e.client.DiscoveryV1().EndpointSlices(queryv1alpha1.ServiceNamespace).List(ctx, metav1.ListOptions{
		LabelSelector: labels.Set{discoveryv1.LabelServiceName: queryv1alpha1.Service}.String(),
	})
	if err != nil {
		return fmt.Errorf("list the endpoints of the Service %s: %w", queryv1alpha1.Service, err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(bundle) {
		return errNoBundle
	}
	addresses := addressesOf(slices.Items)
	if len(addresses) == 0 {
		return fmt.Errorf("the Service %s has no ready endpoint", queryv1alpha1.Service)
	}
	last := error(nil)
	for _, address := range addresses[:min(len(addresses), mostAsked)] {
		if last = ask(ctx, address, roots); last == nil {
			return nil
		}
	}
	return fmt.Errorf("none of %d endpoints answers; the last one: %w", len(addresses), last)
}

// addressesOf returns the addresses of the ready endpoints.
func addressesOf(slices []discoveryv1.EndpointSlice) []string {
	var out []string
	for _, s := range slices {
		for _, port := range s.Ports {
			if port.Port == nil {
				continue
			}
			for _, e := range s.Endpoints {
				if len(e.Addresses) > 0 && (e.Conditions.Ready == nil || *e.Conditions.Ready) {
					out = append(out, net.JoinHostPort(e.Addresses[0], strconv.Itoa(int(*port.Port))))
				}
			}
		}
	}
	return out
}

// ask returns nil where an endpoint says that it can answer the front proxy: /readyz of the aggregated API.
func ask(ctx context.Context, address string, roots *x509.CertPool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+"/readyz", nil)
	if err != nil {
		return err
	}
	client := &http.Client{
		Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{
			RootCAs: roots, ServerName: queryv1alpha1.ServerName, MinVersion: tls.VersionTLS12,
		}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return errors.New("a redirect") },
	}
	res, err := client.Do(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 1<<10))
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", address, res.Status)
	}
	return nil
}
