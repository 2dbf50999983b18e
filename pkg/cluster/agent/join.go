package agent

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/cluster/join"
)

// identify returns the identity of this cluster. It joins the fleet, or renews the certificate, where that is due.
func (a *Agent) identify(ctx context.Context) (*identity, error) {
	a.joining.Lock()
	defer a.joining.Unlock()
	id := a.identity.Load()
	if id == nil {
		var err error
		if id, err = a.load(ctx); err != nil {
			return nil, err
		}
	}
	if id != nil && a.Now().Before(a.renewAt(id)) {
		a.identity.Store(id)
		return id, nil
	}
	next, err := a.ask(ctx, id)
	switch {
	case err == nil:
		a.identity.Store(next)
		return next, nil
	case id != nil && a.Now().Before(id.certificate.Leaf.NotAfter):
		klog.ErrorS(err, "The certificate of this cluster in the fleet was not renewed; it is tried again",
			"expires", id.certificate.Leaf.NotAfter)
		return id, nil
	}
	// What this cluster was counts again: a hub that says that its Cluster is gone may be wrong, and then nobody has a token for it.
	a.forgotten.Store(nil)
	return nil, err
}

// ask asks the hub for a certificate: by a token, or for the next one by the one that this cluster has.
func (a *Agent) ask(ctx context.Context, id *identity) (*identity, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		return nil, fmt.Errorf("make a certificate request: %w", err)
	}
	r := &join.Request{CSR: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})), UID: a.UID,
		KubernetesVersion: a.KubernetesVersion, Version: a.Version}
	if err := a.prove(r, id); err != nil {
		return nil, err
	}
	answer, err := a.send(ctx, r)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("write the key: %w", err)
	}
	data := map[string][]byte{
		"hub": []byte(a.Hub.String()), keyUID: []byte(answer.UID), keyCA: []byte(answer.Authorities),
		corev1.TLSCertKey:       []byte(answer.Certificate),
		corev1.TLSPrivateKeyKey: pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private}),
	}
	next, err := newIdentity(answer.UID, data[corev1.TLSPrivateKeyKey], data[corev1.TLSCertKey], data[keyCA])
	if err != nil {
		return nil, err
	}
	if err := a.store(ctx, data); err != nil {
		return nil, err
	}
	klog.InfoS("This cluster is in the fleet", "hub", a.Hub.Host, "cluster", answer.Cluster, "expires", next.certificate.Leaf.NotAfter)
	return next, nil
}

// prove adds the proof to a request to join: the token, or a signature with the present certificate.
func (a *Agent) prove(r *join.Request, id *identity) (err error) {
	if id != nil && a.Now().Before(id.certificate.Leaf.NotAfter) {
		sum := sha256.Sum256([]byte(r.CSR))
		signature, err := ecdsa.SignASN1(rand.Reader, id.key, sum[:])
		r.Certificate, r.Signature = string(id.pem), base64.StdEncoding.EncodeToString(signature)
		return err
	}
	if r.Token, err = a.Token(); err == nil && r.Token == "" {
		err = errors.New("this cluster has not joined, and has no join token: create a Cluster of type proxy at the hub, and apply" +
			" what its agent/deployment answers")
	}
	return err
}

// send sends a request to join.
func (a *Agent) send(ctx context.Context, r *join.Request) (*join.Answer, error) {
	raw, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	at := *a.Hub
	at.Path = strings.TrimSuffix(at.Path, "/") + join.PathJoin
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at.String(), bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := a.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("join the fleet: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("join the fleet: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		s := &metav1.Status{}
		_ = json.Unmarshal(body, s) //nolint:errcheck // the code says enough
		return nil, fmt.Errorf("join the fleet: the hub answers %d %.300s", resp.StatusCode, s.Message)
	}
	answer := &join.Answer{}
	if err := json.Unmarshal(body, answer); err != nil {
		return nil, fmt.Errorf("join the fleet: the hub's answer can't be read: %w", err)
	}
	return answer, nil
}

// Join joins, or renews the certificate where that is due.
func (a *Agent) Join(ctx context.Context) error {
	_, err := a.identify(ctx)
	return err
}
