package backends

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/certificate"
)

const (
	namespace = "kubesphere-system"
	// secretOfProof has the authority and the client certificate.
	secretOfProof = "ks-apiserver-extension-client"
	// ConfigMapOfProof is the name of the ConfigMap that says to backends how to verify the certificate, with the keys that Kubernetes has for
	// its own (k8s.io/apiserver, --requestheader-*). The installation has it, empty.
	ConfigMapOfProof = "extension-apiserver-authentication"
	// commonName is whose the certificate is: the only name that a backend has to allow.
	commonName = "ks-apiserver"
	// every is how often the ConfigMap is looked at, and how soon something that has failed is tried again.
	every = time.Minute
)

// ClientCertificate is what this server proves itself with to the backends of extensions that ask for it. Its authority signs for nothing
// else: neither kube-apiserver nor any program that trusts kube-apiserver's proxies takes it for one of those.
type ClientCertificate struct {
	keeper atomic.Pointer[certificate.Keeper]
}

// Get returns the certificate for a backend that trusts its authority, and none for others (tls.Config.GetClientCertificate).
func (c *ClientCertificate) Get(asked *tls.CertificateRequestInfo) (*tls.Certificate, error) {
	keeper := c.keeper.Load()
	if keeper == nil {
		return &tls.Certificate{}, nil
	}
	own, err := keeper.Certificate(nil)
	if err != nil || asked.SupportsCertificate(own) != nil {
		return &tls.Certificate{}, err
	}
	return own, nil
}

// Run keeps the certificate, and what backends verify it by, until ctx ends. Until it can be read, backends are asked without one.
func (c *ClientCertificate) Run(ctx context.Context, client kubernetes.Interface) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if err := c.Keep(ctx, client); err != nil && ctx.Err() == nil {
			klog.ErrorS(err, "Backends of extensions may not be able to verify this server")
		}
	}, every)
}

// Keep reads the certificate, renews it where that is due, and writes the ConfigMap where it says something else.
func (c *ClientCertificate) Keep(ctx context.Context, client kubernetes.Interface) error {
	keeper := c.keeper.Load()
	var err error
	if keeper == nil {
		keeper, err = certificate.Open(ctx, certificate.Options{Secrets: client.CoreV1().Secrets(namespace), Name: secretOfProof, Client: true,
			CommonName: commonName, Now: time.Now})
	} else {
		err = keeper.Renew(ctx)
	}
	if err != nil {
		return err
	}
	// First what backends trust, then the certificate.
	if err := publish(ctx, client.CoreV1().ConfigMaps(namespace), keeper.Bundle()); err != nil {
		return fmt.Errorf("write the ConfigMap %s/%s: %w", namespace, ConfigMapOfProof, err)
	}
	c.keeper.Store(keeper)
	return nil
}

// publish writes what backends verify the certificate by, where it is not there.
func publish(ctx context.Context, configMaps corev1client.ConfigMapInterface, bundle []byte) error {
	want := map[string]string{"requestheader-client-ca-file": string(bundle)}
	for key, list := range map[string][]string{
		"requestheader-allowed-names":        {commonName},
		"requestheader-username-headers":     {"X-Remote-User"},
		"requestheader-uid-headers":          {"X-Remote-Uid"},
		"requestheader-group-headers":        {"X-Remote-Group"},
		"requestheader-extra-headers-prefix": {"X-Remote-Extra-"},
	} {
		text, err := json.Marshal(list)
		if err != nil {
			return err
		}
		want[key] = string(text)
	}
	is, err := configMaps.Get(ctx, ConfigMapOfProof, metav1.GetOptions{})
	if apierrors.IsNotFound(err) { // a right to create one would be one to create any ConfigMap there
		return errors.New("it is not there: apply config/rbac/ks-apiserver.yaml again, which has it")
	}
	if err == nil && !maps.Equal(is.Data, want) {
		is = is.DeepCopy()
		is.Data = want
		if _, err = configMaps.Update(ctx, is, metav1.UpdateOptions{}); apierrors.IsConflict(err) { // another replica was faster
			err = nil
		}
	}
	return err
}
