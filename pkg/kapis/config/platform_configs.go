package config

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	restful "github.com/emicklei/go-restful/v3"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"kapis.dev/ks-apiserver/pkg/caller"
	"kapis.dev/ks-apiserver/pkg/setting"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/web"
)

const (
	group          = "config.kubesphere.io"
	apiVersion     = group + "/v1alpha2"
	kindPlatform   = "GenericPlatformConfiguration"
	kindConnection = "ClusterConnectionConfiguration"
	// maxConfig bounds the body of a configuration: what a Secret holds (1 MiB), and room for its encoding.
	maxConfig = 2 << 20
)

var (
	platformConfigs   = schema.GroupResource{Group: group, Resource: "platformconfigs"}
	connectionConfigs = schema.GroupResource{Group: group, Resource: "clusterconnectionconfigurations"}
)

// configuration is a configuration, as it is written and answered.
type configuration struct {
	Kind       string            `json:"kind"`
	APIVersion string            `json:"apiVersion"`
	Metadata   metav1.ObjectMeta `json:"metadata"`
	Data       json.RawMessage   `json:"data,omitempty"`
}

func shown(kind string, c *setting.Config) configuration {
	out := configuration{Kind: kind, APIVersion: apiVersion, Metadata: c.Object, Data: c.Data}
	out.Metadata.Name = c.Name
	return out
}

func (s *Settings) connections(*restful.Request) (any, error) {
	all, err := s.Settings.Connections()
	if err != nil {
		return nil, err
	}
	out := make([]configuration, 0, len(all))
	for _, c := range all {
		out = append(out, shown(kindConnection, c))
	}
	return out, nil
}

func (s *Settings) connection(r *restful.Request) (any, error) {
	name := r.PathParameter("config")
	c, err := s.Settings.Connection(name)
	if err != nil {
		return nil, err
	}
	if c == nil {
		return nil, apierrors.NewNotFound(connectionConfigs, name)
	}
	return shown(kindConnection, c), nil
}

func (s *Settings) get(r *restful.Request) (any, error) {
	name := r.PathParameter("config")
	c, err := s.Settings.Platform(name)
	if err != nil {
		return nil, err
	}
	if c == nil {
		return nil, apierrors.NewNotFound(platformConfigs, name)
	}
	return shown(kindPlatform, c), nil
}

// readConfiguration reads a body. Its kind and version must be right where they are given; with must they must be given.
func readConfiguration(r *restful.Request, must bool) (*configuration, error) {
	body, err := web.ReadBody(r.Request, maxConfig)
	if err != nil {
		return nil, err
	}
	var c configuration
	if err := json.Unmarshal(body, &c); err != nil {
		return nil, apierrors.NewBadRequest("the body has to be a " + kindPlatform + " as JSON")
	}
	switch {
	case c.Kind != kindPlatform && (must || c.Kind != ""):
		return nil, status.BadRequestf("kind has to be %s, not %q", kindPlatform, c.Kind)
	case c.APIVersion != apiVersion && (must || c.APIVersion != ""):
		return nil, status.BadRequestf("apiVersion has to be %s, not %q", apiVersion, c.APIVersion)
	case len(c.Data) > 0 && c.Data[0] != '{' && string(c.Data) != "null":
		return nil, apierrors.NewBadRequest("data has to be an object")
	}
	return &c, nil
}

func (s *Settings) create(r *restful.Request) (any, error) {
	c, err := readConfiguration(r, true)
	if err != nil {
		return nil, err
	}
	name := c.Metadata.Name
	if wrong := validation.IsDNS1123Label(name); len(wrong) > 0 {
		return nil, apierrors.NewBadRequest("metadata.name: " + wrong[0])
	}
	secret, err := s.Settings.PlatformObject(name, orEmpty(c.Data))
	if err != nil {
		return nil, err
	}
	return s.write(r.Request.Context(), name, http.MethodPost, "", secret)
}

func orEmpty(data json.RawMessage) json.RawMessage {
	if len(data) == 0 || string(data) == "null" {
		return json.RawMessage("{}")
	}
	return data
}

func (s *Settings) update(r *restful.Request) (any, error) {
	c, err := readConfiguration(r, false)
	if err != nil {
		return nil, err
	}
	name := r.PathParameter("config")
	if c.Metadata.Name != name {
		return nil, status.BadRequestf("metadata.name is %q, and the path names %q", c.Metadata.Name, name)
	}
	if c.Data == nil {
		return nil, apierrors.NewBadRequest("data is missing: all of it is replaced")
	}
	return s.change(r.Request.Context(), name, c.Metadata.ResourceVersion,
		func(json.RawMessage) (json.RawMessage, error) { return orEmpty(c.Data), nil })
}

func (s *Settings) patch(r *restful.Request) (any, error) {
	c, err := readConfiguration(r, false)
	if err != nil {
		return nil, err
	}
	name := r.PathParameter("config")
	if c.Metadata.Name != "" && c.Metadata.Name != name {
		return nil, status.BadRequestf("metadata.name is %q, and the path names %q", c.Metadata.Name, name)
	}
	return s.change(r.Request.Context(), name, c.Metadata.ResourceVersion, func(old json.RawMessage) (json.RawMessage, error) {
		if c.Data == nil {
			return old, nil
		}
		next, err := jsonpatch.MergePatch(old, orEmpty(c.Data))
		if err != nil {
			return nil, apierrors.NewBadRequest("data can't be merged with what is there")
		}
		return next, nil
	})
}

// change writes a new state of a configuration. With a version, the configuration must still have it; without one, a concurrent change
// is kept.
func (s *Settings) change(ctx context.Context, name, version string, of func(old json.RawMessage) (json.RawMessage, error)) (any, error) {
	var now *setting.Config
	return caller.Change(ctx, caller.Seen{Resource: platformConfigs, Name: name, Version: version},
		func(ctx context.Context) (*metav1.ObjectMeta, error) {
			var err error
			if now, err = s.now(ctx, name); err != nil {
				return nil, err
			}
			return &now.Object, nil
		},
		func(ctx context.Context, live *metav1.ObjectMeta) (any, error) {
			data, err := of(now.Data)
			if err != nil {
				return nil, err
			}
			next, err := s.Settings.PlatformObject(name, data)
			if err != nil {
				return nil, err
			}
			// The type can't be changed: so only configurations are. The version makes sure that it is this one.
			next.ResourceVersion, next.UID = live.ResourceVersion, live.UID
			return s.write(ctx, name, http.MethodPatch, "/"+next.Name, next)
		})
}

// now reads the present configuration from kube-apiserver.
func (s *Settings) now(ctx context.Context, name string) (*setting.Config, error) {
	if len(validation.IsDNS1123Label(name)) > 0 {
		return nil, apierrors.NewNotFound(platformConfigs, name)
	}
	c, err := s.Settings.PlatformNow(ctx, name)
	if err == nil && c == nil {
		err = apierrors.NewNotFound(platformConfigs, name)
	}
	return c, err
}

// write sends a Secret to kube-apiserver, as the caller, and returns the resulting configuration.
func (s *Settings) write(ctx context.Context, name, method, below string, secret any) (any, error) {
	body, err := json.Marshal(secret)
	if err != nil {
		return nil, fmt.Errorf("write the platform configuration %q: %w", name, err)
	}
	o := caller.Order{Method: method, Path: s.Settings.SecretsPath() + below, Body: body, Implied: true}
	if method == http.MethodPatch {
		o.Type = typeMergePatch
	}
	answer, err := s.AsCaller.Do(implied(ctx, groupConfigs), o)
	if err != nil {
		return nil, named(err, name)
	}
	c, err := s.Settings.TookPlatform([]byte(answer.Unredacted()))
	if err != nil {
		return nil, err
	}
	return shown(kindPlatform, c), nil
}

// named rewords an error of kube-apiserver for the route: the caller asked for no Secret.
func named(err error, name string) error {
	switch {
	case apierrors.IsNotFound(err):
		return apierrors.NewNotFound(platformConfigs, name)
	case apierrors.IsAlreadyExists(err):
		return apierrors.NewAlreadyExists(platformConfigs, name)
	case apierrors.IsConflict(err):
		return apierrors.NewConflict(platformConfigs, name, errors.New("it has been modified meanwhile: try again"))
	}
	return fmt.Errorf("write the platform configuration %q: %w", name, err)
}

func (s *Settings) remove(r *restful.Request) (any, error) {
	ctx, name := r.Request.Context(), r.PathParameter("config")
	now, err := s.now(ctx, name)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(metav1.DeleteOptions{
		TypeMeta: metav1.TypeMeta{Kind: "DeleteOptions", APIVersion: "v1"}, Preconditions: &metav1.Preconditions{UID: &now.Object.UID},
	})
	if err != nil {
		return nil, fmt.Errorf("delete the platform configuration %q: %w", name, err)
	}
	o := caller.Order{Method: http.MethodDelete, Path: s.Settings.SecretsPath() + "/" + setting.PlatformPrefix + name, Body: body,
		Implied: true}
	if _, err := s.AsCaller.Do(implied(ctx, groupConfigs), o); err != nil {
		return nil, named(err, name)
	}
	s.Settings.ForgetPlatform(name)
	return done, nil
}
