// Package configsecret checks the Secrets of OAuth clients and identity providers before they are stored, so that a mistake is
// reported to the user who makes it.
package configsecret

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/yaml"
)

const (
	// LabelType is the label that says what a Secret configures.
	LabelType = "config.kubesphere.io/type"

	oauthClient      = "oauthclient"
	identityProvider = "identityprovider"

	file = "configuration.yaml"
	// maxFile bounds the file, in bytes.
	maxFile = 64 << 10
	// leastAge is the shortest lifetime of tokens that a client may configure, in seconds.
	leastAge = 600
	// secretBytes is the length of a generated client secret: 256 bits.
	secretBytes = 32
)

// settings are the checked settings of either type.
type settings struct {
	Name       string `json:"name"`
	Secret     string `json:"secret"`
	Trusted    bool   `json:"trusted"`
	Grant      string `json:"grantMethod"`
	MaxAge     int64  `json:"accessTokenMaxAgeSeconds"`
	Inactivity int64  `json:"accessTokenInactivityTimeoutSeconds"`
}

// read returns the type of a Secret and its settings. Errors show nothing of the file: it may contain a secret.
func read(raw []byte) (*corev1.Secret, *settings, error) {
	s := &corev1.Secret{}
	if err := json.Unmarshal(raw, s); err != nil {
		return nil, nil, errors.New("the Secret can't be read")
	}
	if kind := s.Labels[LabelType]; kind != oauthClient && kind != identityProvider {
		return s, nil, nil
	}
	text := s.Data[file]
	if len(text) == 0 || len(text) > maxFile {
		return s, nil, fmt.Errorf("%s has %d bytes; 1 to %d are expected", file, len(text), maxFile)
	}
	if _, err := yaml.YAMLToJSONStrict(text); err != nil { // ks-apiserver reads it so
		return s, nil, fmt.Errorf("%s is not YAML, or has a key twice", file)
	}
	out := &settings{}
	if err := yaml.Unmarshal(text, out); err != nil {
		return s, nil, fmt.Errorf("%s is not YAML whose keys have values of their types", file)
	}
	return s, out, nil
}

// Defaulter generates a secret for a trusted OAuth client that has none. A client that is not trusted may have none: then it is public.
type Defaulter struct {
	// Random is the source of secrets: crypto/rand.Reader.
	Random io.Reader
}

// Handle implements admission.Handler.
func (d *Defaulter) Handle(_ context.Context, req admission.Request) admission.Response {
	if req.Operation != admissionv1.Create && req.Operation != admissionv1.Update {
		return admission.Allowed("")
	}
	s, set, err := read(req.Object.Raw)
	if err != nil || set == nil || s.Labels[LabelType] != oauthClient || !set.Trusted || set.Secret != "" {
		return admission.Allowed("") // the Validator reports what is wrong
	}
	fresh := make([]byte, secretBytes)
	if _, err := io.ReadFull(d.Random, fresh); err != nil {
		return admission.Errored(http.StatusInternalServerError, fmt.Errorf("generate a client secret: %w", err))
	}
	keys := map[string]any{}
	if err := yaml.Unmarshal(s.Data[file], &keys); err != nil {
		return admission.Allowed("")
	}
	keys["secret"] = base64.RawURLEncoding.EncodeToString(fresh)
	text, err := yaml.Marshal(keys)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, errors.New("encode the client"))
	}
	object := map[string]any{}
	dec := json.NewDecoder(bytes.NewReader(req.Object.Raw))
	dec.UseNumber()
	if err := dec.Decode(&object); err != nil {
		return admission.Errored(http.StatusBadRequest, errors.New("the Secret can't be read"))
	}
	data, _ := object["data"].(map[string]any) //nolint:errcheck // read found the file in it
	data[file] = base64.StdEncoding.EncodeToString(text)
	raw, err := json.Marshal(object)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, errors.New("encode the Secret"))
	}
	return admission.PatchResponseFromRaw(req.Object.Raw, raw)
}

// Validator refuses a missing name or one that another Secret of the type has, and warns about short lifetimes of tokens.
type Validator struct {
	// Secrets reads Secrets without the cache, which has none.
	Secrets client.Reader
}

// Handle implements admission.Handler.
func (v *Validator) Handle(ctx context.Context, req admission.Request) admission.Response {
	if req.Operation != admissionv1.Create && req.Operation != admissionv1.Update {
		return admission.Allowed("")
	}
	s, set, err := read(req.Object.Raw)
	if err == nil && set == nil {
		return admission.Allowed("")
	}
	if err == nil {
		err = set.check()
	}
	if err != nil {
		return admission.Errored(http.StatusUnprocessableEntity, err)
	}
	var all corev1.SecretList
	if err := v.Secrets.List(ctx, &all, client.InNamespace(req.Namespace), client.MatchingLabels{LabelType: s.Labels[LabelType]}); err != nil {
		return admission.Errored(http.StatusServiceUnavailable, fmt.Errorf("see whether the name is taken: %w", err))
	}
	for i := range all.Items {
		other := &all.Items[i]
		var its settings
		if other.Name != req.Name && yaml.Unmarshal(other.Data[file], &its) == nil && its.Name == set.Name {
			return admission.Errored(http.StatusConflict, fmt.Errorf("name: the Secret %q has one of the name %.100q already", other.Name, set.Name))
		}
	}
	return admission.Allowed("").WithWarnings(set.warnings()...)
}

// warnings returns warnings about valid settings with a cost: below leastAge the console refreshes before every call.
func (s *settings) warnings() []string {
	if s.MaxAge > 0 && s.MaxAge < leastAge {
		return []string{fmt.Sprintf("accessTokenMaxAgeSeconds: below %d some clients refresh their tokens before every call", leastAge)}
	}
	return nil
}

func (s *settings) check() error {
	if s.Name == "" {
		return errors.New("name: it is missing")
	}
	for key, seconds := range map[string]int64{"accessTokenMaxAgeSeconds": s.MaxAge, "accessTokenInactivityTimeoutSeconds": s.Inactivity} {
		if seconds < 0 {
			return fmt.Errorf("%s: it has to be 0, for the server's own, or more", key)
		}
	}
	switch s.Grant {
	case "", "auto", "prompt", "deny":
		return nil
	}
	return errors.New("grantMethod: it is none of auto, prompt, deny")
}
