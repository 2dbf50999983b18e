package registry

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"kapis.dev/ks-apiserver/pkg/status"
)

// InsecureAnnotation on a Secret, with the value true, says that its registries may be reached without TLS, or with a certificate that
// can't be verified.
const InsecureAnnotation = "secret.kubesphere.io/force-insecure"

// dockerHub is the name under which Docker Hub serves its registry.
const dockerHub = "index.docker.io"

// maxRegistries is how many registries one Secret may name.
const maxRegistries = 16

// Account is a user name and a password; the zero Account is anonymous. It does not show its password in any format.
type Account struct {
	Username, Password string
}

// String hides the password.
func (a Account) String() string { return "account of " + a.Username }

// GoString hides the password.
func (a Account) GoString() string { return a.String() }

// Credentials are accounts by the registries that they are for. The zero Credentials has none.
type Credentials struct {
	// Insecure says that the registries may be reached without verified TLS.
	Insecure bool

	accounts map[string]Account
}

// String hides the accounts.
func (c Credentials) String() string { return "credentials for " + strings.Join(c.Registries(), ", ") }

// GoString hides the accounts.
func (c Credentials) GoString() string { return c.String() }

// Registries returns the addresses of the registries, sorted.
func (c Credentials) Registries() []string { return slices.Sorted(maps.Keys(c.accounts)) }

// Account returns the account for a registry.
func (c Credentials) Account(registry string) Account { return c.accounts[normal(registry)] }

// entry is an account as Secrets have it.
type entry struct {
	Username string `json:"username"`
	Password string `json:"password"`
	Auth     []byte `json:"auth"`
}

// ParseSecret reads the accounts of a Secret of type kubernetes.io/dockerconfigjson or
// kubernetes.io/dockercfg. Its errors are a Status of code 400, and show nothing of the Secret's data.
func ParseSecret(s *corev1.Secret) (*Credentials, error) {
	entries, err := parseEntries(s)
	if err != nil {
		return nil, status.BadRequestf("the Secret %q is not one of container registries: %v", s.Name, err)
	}
	if len(entries) > maxRegistries {
		return nil, status.BadRequestf("the Secret %q has %d registries; at most %d are tried", s.Name, len(entries), maxRegistries)
	}
	c := &Credentials{Insecure: s.Annotations[InsecureAnnotation] == "true", accounts: make(map[string]Account, len(entries))}
	for _, key := range slices.Sorted(maps.Keys(entries)) { // of several for one host, the shortest key
		e, host := entries[key], normal(key)
		if host == "" {
			return nil, status.BadRequestf("the Secret %q names a registry without an address", s.Name)
		}
		a := Account{e.Username, e.Password}
		if a == (Account{}) && len(e.Auth) > 0 {
			user, password, ok := strings.Cut(string(e.Auth), ":")
			if !ok {
				return nil, status.BadRequestf("the Secret %q has an auth that is not user:password in base64", s.Name)
			}
			a = Account{user, strings.TrimRight(password, "\x00")}
		}
		if _, ok := c.accounts[host]; !ok {
			c.accounts[host] = a
		}
	}
	return c, nil
}

func parseEntries(s *corev1.Secret) (map[string]entry, error) {
	read := func(key string) ([]byte, bool) {
		if text, ok := s.StringData[key]; ok { // as kube-apiserver reads it
			return []byte(text), true
		}
		raw, ok := s.Data[key]
		return raw, ok
	}
	if raw, ok := read(corev1.DockerConfigJsonKey); ok {
		var file struct {
			Auths map[string]entry `json:"auths"`
		}
		if json.Unmarshal(raw, &file) != nil || len(file.Auths) == 0 {
			return nil, fmt.Errorf("its %s has no auths", corev1.DockerConfigJsonKey)
		}
		return file.Auths, nil
	}
	if raw, ok := read(corev1.DockerConfigKey); ok {
		var auths map[string]entry
		if json.Unmarshal(raw, &auths) != nil || len(auths) == 0 {
			return nil, fmt.Errorf("its %s has no registries", corev1.DockerConfigKey)
		}
		return auths, nil
	}
	return nil, errors.New("it has no " + corev1.DockerConfigJsonKey)
}

// normal returns the address of a registry from the forms that people and tools write: with a scheme, with a path after it, and one of
// the names of Docker Hub.
func normal(registry string) string {
	host := strings.TrimSpace(registry)
	if _, rest, ok := strings.Cut(host, "://"); ok {
		host = rest
	}
	host, _, _ = strings.Cut(host, "/")
	host = strings.ToLower(host)
	switch host {
	case "docker.io", "registry-1.docker.io", "registry.hub.docker.com", "hub.docker.com", "registry.docker.io":
		return dockerHub
	}
	return host
}

// UnmarshalJSON reads an entry; an auth may lack its padding.
func (e *entry) UnmarshalJSON(b []byte) error {
	var raw struct{ Username, Password, Auth string }
	if err := json.Unmarshal(b, &raw); err != nil {
		return errors.New("not an account") // the cause would quote it
	}
	e.Username, e.Password = raw.Username, raw.Password
	auth, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(raw.Auth, "="))
	if err != nil {
		return errors.New("an auth that is not base64")
	}
	e.Auth = auth
	return nil
}
