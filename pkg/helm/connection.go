package helm

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"k8s.io/client-go/rest"
)

// Connection is a connection to a cluster, with the user that objects are read and written as.
type Connection struct {
	Host       string `json:"host"`
	CA         []byte `json:"ca,omitempty"`
	ServerName string `json:"serverName,omitempty"`
	// The credential is a token or a certificate. It has to be allowed to impersonate User and Groups, and to manage the Secrets of the
	// release's records.
	Token       string `json:"token,omitempty"`
	Certificate []byte `json:"certificate,omitempty"`
	Key         []byte `json:"key,omitempty"`
	// User and Groups are impersonated. Without a user a request is refused: no chart is applied with this program's own rights.
	User   string   `json:"user"`
	Groups []string `json:"groups,omitempty"`
}

// ConnectionOf returns the connection of a config as it is now, with the content of its files.
func ConnectionOf(cfg *rest.Config, user string, groups []string) (Connection, error) {
	if cfg.ExecProvider != nil || cfg.AuthProvider != nil || cfg.Username != "" {
		return Connection{}, errors.New("connection of a Helm operation: the config has neither a token nor a client certificate")
	}
	if cfg.Insecure {
		return Connection{}, errors.New("connection of a Helm operation: the config does not verify the certificate of kube-apiserver")
	}
	c := Connection{Host: cfg.Host, CA: cfg.CAData, ServerName: cfg.ServerName, User: user, Groups: groups,
		Token: cfg.BearerToken, Certificate: cfg.CertData, Key: cfg.KeyData}
	for _, f := range []struct {
		path string
		set  func([]byte)
	}{
		{cfg.CAFile, func(b []byte) { c.CA = b }},
		{cfg.CertFile, func(b []byte) { c.Certificate = b }},
		{cfg.KeyFile, func(b []byte) { c.Key = b }},
		{cfg.BearerTokenFile, func(b []byte) { c.Token = strings.TrimSpace(string(b)) }},
	} {
		if f.path == "" {
			continue
		}
		raw, err := os.ReadFile(f.path)
		if err != nil {
			return Connection{}, fmt.Errorf("connection of a Helm operation: %w", err)
		}
		f.set(raw)
	}
	return c, nil
}

// Config returns the config of the connection; as says whether the user is impersonated.
func (c Connection) Config(as bool) *rest.Config {
	cfg := &rest.Config{Host: c.Host, BearerToken: c.Token, QPS: 50, Burst: 100, Timeout: time.Minute,
		TLSClientConfig: rest.TLSClientConfig{CAData: c.CA, CertData: c.Certificate, KeyData: c.Key, ServerName: c.ServerName}}
	if as {
		cfg.Impersonate = rest.ImpersonationConfig{UserName: c.User, Groups: c.Groups}
	}
	return cfg
}
