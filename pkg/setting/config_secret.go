package setting

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/yaml"
)

// The Secrets of configurations. Their type says what they are: a Secret of another type is none, under any name.
const (
	PlatformType   = "config.kubesphere.io/generic-platform-config"
	connectionType = "config.kubesphere.io/cluster-connection-config"
	// PlatformPrefix is the prefix of the names of the Secrets of platform configurations.
	PlatformPrefix = "io.kubesphere.config.platformconfig."
	configKey      = "configuration.yaml"
)

// Config is a configuration. It is never changed: a change makes a new one.
type Config struct {
	// Name is its name, and Object the rest of what identifies it.
	Name   string
	Object metav1.ObjectMeta
	// Data is a JSON object.
	Data json.RawMessage
}

// configs are configurations of one kind, by name of the Secret.
type configs struct {
	prefix string

	mu sync.RWMutex
	by map[string]*Config
}

func (c *configs) set(s *corev1.Secret, typ string, older olderFunc) {
	config, err := readConfig(s, typ, c.prefix)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		klog.ErrorS(err, "A configuration can't be read; the others are not affected", "secret", s.Name)
		delete(c.by, s.Name)
		return
	}
	if c.by == nil {
		c.by = map[string]*Config{}
	}
	if now := c.by[s.Name]; now != nil && now.Object.UID == s.UID && older(s.ResourceVersion, now.Object.ResourceVersion) {
		return
	}
	c.by[s.Name] = config
}

func (c *configs) forget(secret string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.by, secret)
}

func (c *configs) get(name string) *Config {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.by[c.prefix+name]
}

// readConfig reads the configuration of a Secret. Its errors hold no value.
func readConfig(s *corev1.Secret, typ, prefix string) (*Config, error) {
	name, named := strings.CutPrefix(s.Name, prefix)
	switch {
	case string(s.Type) != typ:
		return nil, fmt.Errorf("its type has to be %q", typ)
	case !named:
		return nil, fmt.Errorf("its name has to begin with %q", prefix)
	}
	data, err := yaml.YAMLToJSON(s.Data[configKey])
	if err != nil {
		return nil, errors.New("its " + configKey + " is no YAML")
	}
	switch {
	case string(data) == "null":
		data = []byte("{}")
	case data[0] != '{':
		return nil, errors.New("its " + configKey + " has to be keys with values")
	}
	return &Config{Name: name, Object: metav1.ObjectMeta{UID: s.UID, ResourceVersion: s.ResourceVersion,
		CreationTimestamp: s.CreationTimestamp}, Data: data}, nil
}

// Platform returns a platform configuration, nil where there is none. Its error is a 503 while the settings are being read.
func (s *Store) Platform(name string) (*Config, error) { return s.config(&s.platform, name) }

// Connection returns how a cluster is connected, nil where there is none of that name.
func (s *Store) Connection(name string) (*Config, error) { return s.config(&s.connections, name) }

func (s *Store) config(of *configs, name string) (*Config, error) {
	if err := s.loaded(); err != nil {
		return nil, err
	}
	return of.get(name), nil
}

// Connections returns how clusters are connected, by name.
func (s *Store) Connections() ([]*Config, error) {
	if err := s.loaded(); err != nil {
		return nil, err
	}
	c := &s.connections
	c.mu.RLock()
	defer c.mu.RUnlock()
	out := make([]*Config, 0, len(c.by))
	for _, config := range c.by {
		out = append(out, config)
	}
	slices.SortFunc(out, func(a, b *Config) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

// PlatformNow reads a platform configuration from kube-apiserver, before a change of it; nil where there is none.
func (s *Store) PlatformNow(ctx context.Context, name string) (*Config, error) {
	list, err := s.client.CoreV1().Secrets(s.namespace).List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + PlatformPrefix + name +
		",type=" + PlatformType})
	if err != nil {
		return nil, fmt.Errorf("read the platform configuration %q: %w", name, err)
	}
	for i := range list.Items {
		if secret := &list.Items[i]; secret.Name == PlatformPrefix+name && secret.Type == PlatformType {
			return readConfig(secret, PlatformType, PlatformPrefix)
		}
	}
	return nil, nil
}

// PlatformObject returns the Secret of a platform configuration. It has no labels: some make a Secret an OAuth client or an identity
// provider.
func (s *Store) PlatformObject(name string, data json.RawMessage) (*corev1.Secret, error) {
	text, err := yaml.JSONToYAML(data)
	if err != nil {
		return nil, fmt.Errorf("write a platform configuration: %w", err)
	}
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{Kind: "Secret", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{Name: PlatformPrefix + name, Namespace: s.namespace},
		Type:       PlatformType,
		Data:       map[string][]byte{configKey: text},
	}, nil
}

// TookPlatform stores kube-apiserver's answer to a write, so that a client that reads back what it wrote finds it.
func (s *Store) TookPlatform(written []byte) (*Config, error) {
	var secret corev1.Secret
	if err := json.Unmarshal(written, &secret); err != nil {
		return nil, errors.New("kube-apiserver's answer to the write of a platform configuration is no Secret") // the error may quote it
	}
	config, err := readConfig(&secret, PlatformType, PlatformPrefix)
	if err == nil {
		s.platform.set(&secret, PlatformType, older)
	}
	return config, err
}

// ForgetPlatform records that a platform configuration was deleted.
func (s *Store) ForgetPlatform(name string) { s.platform.forget(PlatformPrefix + name) }

// SecretsPath returns the path of the platform's Secrets at kube-apiserver.
func (s *Store) SecretsPath() string { return "/api/v1/namespaces/" + s.namespace + "/secrets" }
