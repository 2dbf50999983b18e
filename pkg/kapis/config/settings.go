package config

import (
	"context"
	"encoding/json"
	"fmt"

	restful "github.com/emicklei/go-restful/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/caller"
	"kapis.dev/ks-apiserver/pkg/setting"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/web"
)

// Settings answers the routes of settings that change while the platform runs. Reads are answered from memory. Writes are made as the
// caller: the right to the route implies them, and they carry a synthetic group, which config/rbac/platform.yaml allows exactly these.
type Settings struct {
	Settings *setting.Store
	AsCaller caller.Client
}

// groupConfigs is the synthetic group that may write the Secrets of platform configurations.
const groupConfigs = "kapis:platform:configs"

// The bounds of a theme, which is read without a login, too.
const (
	maxThemeKeys = 64
	maxTheme     = 512 << 10
)

func (s *Settings) mount(ws *restful.WebService) {
	name := ws.PathParameter("config", "name of the configuration")
	ws.Route(ws.GET("/configs/theme").To(web.Handle(s.theme)).Doc("what pages look like").Operation("getThemeConfiguration").
		Writes(map[string]string{}))
	ws.Route(ws.PUT("/configs/theme").To(web.Handle(web.RefuseDryRun(s.setTheme))).Consumes(restful.MIME_JSON).
		Doc("replace what pages look like").Operation("updateThemeConfiguration").Reads(map[string]string{}).Writes(map[string]string{}))
	ws.Route(ws.GET("/clusterconnectionconfigurations").To(web.Handle(s.connections)).
		Doc("how clusters are connected").Operation("listClusterConnectionConfiguration").Writes([]configuration{}))
	ws.Route(ws.GET("/clusterconnectionconfigurations/{config}").To(web.Handle(s.connection)).Param(name).
		Doc("how a cluster is connected").Operation("getClusterConnectionConfiguration").Writes(configuration{}))
	ws.Route(ws.POST("/platformconfigs").To(web.Handle(web.RefuseDryRun(s.create))).Consumes(restful.MIME_JSON).
		Doc("make a configuration of the platform").Operation("createPlatformConfiguration").Reads(configuration{}).Writes(configuration{}))
	ws.Route(ws.GET("/platformconfigs/{config}").To(web.Handle(s.get)).Param(name).
		Doc("a configuration of the platform").Operation("getPlatformConfiguration").Writes(configuration{}))
	ws.Route(ws.PUT("/platformconfigs/{config}").To(web.Handle(web.RefuseDryRun(s.update))).Param(name).Consumes(restful.MIME_JSON).
		Doc("replace a configuration of the platform").Operation("updatePlatformConfiguration").Reads(configuration{}).Writes(configuration{}))
	ws.Route(ws.PATCH("/platformconfigs/{config}").To(web.Handle(web.RefuseDryRun(s.patch))).Param(name).Consumes(typeMergePatch).
		Doc("change the data of a configuration of the platform (RFC 7396)").Operation("patchPlatformConfiguration").Reads(configuration{}).
		Writes(configuration{}))
	ws.Route(ws.DELETE("/platformconfigs/{config}").To(web.Handle(web.RefuseDryRun(s.remove))).Param(name).
		Doc("delete a configuration of the platform").Operation("deletePlatformConfiguration").Writes(done))
}

const typeMergePatch = "application/merge-patch+json"

// done is the answer to a write that has no other.
var done = struct {
	Message string `json:"message"`
}{"success"}

// implied returns a context for the writes that are implied by the right to the request.
func implied(ctx context.Context, group string) context.Context {
	d := authz.DecisionFrom(ctx)
	d.Group = group
	return authz.WithDecision(ctx, d)
}

func (s *Settings) theme(*restful.Request) (any, error) { return s.Settings.Theme() }

func (s *Settings) setTheme(r *restful.Request) (any, error) {
	body, err := web.ReadBody(r.Request, maxTheme)
	if err != nil {
		return nil, err
	}
	var theme map[string]string
	if err := json.Unmarshal(body, &theme); err != nil || theme == nil {
		return nil, apierrors.NewBadRequest("the body has to be a JSON object whose values are texts")
	}
	if len(theme) > maxThemeKeys {
		return nil, status.BadRequestf("a theme may have %d keys at most", maxThemeKeys)
	}
	for key := range theme {
		if wrong := validation.IsConfigMapKey(key); len(wrong) > 0 {
			return nil, status.BadRequestf("the key %q: %s", key, wrong[0])
		}
	}
	ctx := implied(r.Request.Context(), setting.GroupTheme)
	written, err := setting.PutConfigMap(s.Settings.ThemeObject(theme), false, func(method, path string, body []byte) ([]byte, error) {
		answer, err := s.AsCaller.Do(ctx, caller.Order{Method: method, Path: path, Body: body, Implied: true})
		return []byte(answer.Unredacted()), err
	})
	if err != nil {
		return nil, fmt.Errorf("write the theme: %w", err)
	}
	s.Settings.TookTheme(written)
	return theme, nil
}
