package app

import (
	restful "github.com/emicklei/go-restful/v3"
	"k8s.io/apimachinery/pkg/util/validation"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/appstore"
	"kapis.dev/ks-apiserver/pkg/chart"
	"kapis.dev/ks-apiserver/pkg/status"
)

// appInfo is what a package says of a version.
type appInfo struct {
	AppID       string        `json:"appID,omitempty"`
	VersionID   string        `json:"versionID,omitempty"`
	Icon        string        `json:"icon"`
	AppName     string        `json:"appName"`
	VersionName string        `json:"versionName"`
	AppHome     string        `json:"appHome"`
	Description string        `json:"description"`
	AliasName   string        `json:"aliasName"`
	Resources   []v2.Resource `json:"resources"`
}

// inspect reads the package of a version of a type, empty for a chart.
func (h *Handler) inspect(r *restful.Request, kind string, req *appRequest) (*appstore.Package, error) {
	if len(req.Package) == 0 {
		return nil, status.BadRequestf("there is no package: send it as the file of a form, or as package in base64")
	}
	if kind == v2.TypeHelm {
		return h.readChart(r, req)
	}
	if err := appstore.CheckYAML(req.Package); err != nil {
		return nil, invalidf("the package can't be taken: %v", err)
	}
	p := &appstore.Package{Name: text(req.AppName), Version: text(req.VersionName), Home: text(req.AppHome)}
	if req.Resources != nil {
		p.Resources = *req.Resources
	}
	if req.Maintainers != nil {
		p.Maintainers = *req.Maintainers
	}
	if err := appstore.CheckName(p.Name); err != nil {
		return nil, invalidf("appName: %v", err)
	}
	if len(validation.IsDNS1123Subdomain(p.Version)) > 0 || len(p.Version) > 63 {
		return nil, invalidf("versionName %.100q is no version such as 1.0.0", p.Version)
	}
	return p, nil
}

func (h *Handler) readChart(r *restful.Request, req *appRequest) (*appstore.Package, error) {
	select {
	case h.reading <- struct{}{}:
		defer func() { <-h.reading }()
	case <-r.Request.Context().Done():
		return nil, r.Request.Context().Err()
	}
	p, err := appstore.ReadChart(req.Package)
	if err != nil {
		return nil, invalidf("the package can't be taken: %v", err)
	}
	p.Files = nil // 64 MiB that nothing here needs
	if given := text(req.VersionName); given != "" && given != p.Version {
		return nil, invalidf("versionName is %.100q, and the chart is %.100q", given, p.Version)
	}
	if p.Home != "" && !isWebAddress(p.Home) {
		p.Home = ""
	}
	if len(p.Icon) > maxChartIcon {
		p.Icon = ""
	}
	return p, nil
}

// typeOf returns the type of an application that a request is for.
func typeOf(req *appRequest) (string, error) {
	switch kind := text(req.AppType); kind {
	case "":
		return v2.TypeHelm, nil
	case v2.TypeHelm, v2.TypeYAML, v2.TypeEdge:
		return kind, nil
	default:
		return "", invalidf("appType is %.100q: it is %s, %s or %s", kind, v2.TypeHelm, v2.TypeYAML, v2.TypeEdge)
	}
}

// info returns what a package and a request say together.
func info(req *appRequest, p *appstore.Package) appInfo {
	out := appInfo{AppName: p.Name, VersionName: p.Version, AppHome: p.Home, Description: p.Description, Icon: p.Icon, AliasName: p.Name,
		Resources: p.Resources}
	for _, f := range []struct {
		to   *string
		from *string
	}{{&out.AppHome, req.AppHome}, {&out.Description, req.Description}, {&out.Icon, req.Icon}, {&out.AliasName, req.AliasName}} {
		if v := text(f.from); v != "" {
			*f.to = v
		}
	}
	if out.Resources == nil {
		out.Resources = []v2.Resource{}
	}
	return out
}

// digest returns the digest of a package.
func digest(content []byte) string { return chart.Digest(content) }
