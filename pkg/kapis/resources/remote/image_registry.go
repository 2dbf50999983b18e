package remote

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/registry"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/web"

	restful "github.com/emicklei/go-restful/v3"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// registryAccount is the body of registry/verify.
type registryAccount struct {
	Username   string `json:"username"`
	Password   string `json:"password"`
	ServerHost string `json:"serverhost"`
}

// imageDetails is the answer of registry/blob.
type imageDetails struct {
	Status        string         `json:"status"`
	Message       string         `json:"message,omitempty"`
	ImageManifest *v1.Manifest   `json:"imageManifest,omitempty"`
	ImageBlob     *v1.ConfigFile `json:"imageBlob,omitempty"`
	ImageTag      string         `json:"imageTag,omitempty"`
	Registry      string         `json:"registry,omitempty"`
}

// repositoryTags is a page of tags.
type repositoryTags struct {
	Registry   string   `json:"registry"`
	Repository string   `json:"repository"`
	Tags       []string `json:"tags"`
	Total      int      `json:"total"`

	more bool
}

// foundImages is the outcome of a search.
type foundImages struct {
	Total   int      `json:"total"`
	Entries []string `json:"entries"`
}

// credentials are those of a Secret that the caller may read, or none where none is named.
func (m *Handler) credentials(ctx context.Context, namespace, secret string) (*registry.Credentials, error) {
	if secret == "" {
		return &registry.Credentials{}, nil
	}
	s, err := m.secret(ctx, namespace, secret)
	if err != nil {
		return nil, err
	}
	return registry.ParseSecret(s)
}

// verifySecret logs in to every registry of a Secret, which is the caller's own: it is in the body.
func (m *Handler) verifySecret(r *restful.Request) (any, error) {
	s := &corev1.Secret{}
	if err := body(r, s); err != nil {
		return nil, err
	}
	namespace, name := r.PathParameter("namespace"), r.PathParameter("secret")
	switch {
	case s.Kind != "" && s.Kind != "Secret" || s.APIVersion != "" && s.APIVersion != "v1":
		return nil, apierrors.NewBadRequest("the body is not a Secret of the version v1")
	case s.Name != "" && s.Name != name || s.Namespace != "" && s.Namespace != namespace:
		return nil, status.BadRequestf("the Secret in the body is %s/%s, and the one in the path %s/%s",
			excerpt(s.Namespace), excerpt(s.Name), excerpt(namespace), excerpt(name))
	}
	creds, err := registry.ParseSecret(s)
	if err != nil {
		return nil, err
	}
	for _, host := range creds.Registries() {
		if err := m.registries.Verify(r.Request.Context(), host, creds.Account(host), creds.Insecure); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// verifyAccount logs in to one registry. There is no Secret that could declare it insecure: the user writes http:// before its address
// instead.
func (m *Handler) verifyAccount(r *restful.Request) (any, error) {
	var a registryAccount
	if err := body(r, &a); err != nil {
		return nil, err
	}
	who := registry.Account{Username: a.Username, Password: a.Password}
	insecure := strings.HasPrefix(strings.ToLower(strings.TrimSpace(a.ServerHost)), "http://")
	if err := m.registries.Verify(r.Request.Context(), a.ServerHost, who, insecure); err != nil {
		return nil, err
	}
	return nothing{}, nil
}

func (m *Handler) imageConfig(r *restful.Request) (any, error) {
	ctx := r.Request.Context()
	name, err := required(r, "image")
	if err != nil {
		return nil, err
	}
	creds, err := m.credentials(ctx, r.PathParameter("namespace"), r.QueryParameter("secret"))
	if err != nil {
		return nil, err
	}
	image, err := m.registries.Image(ctx, name, creds)
	if err != nil {
		return nil, err
	}
	return image.Config, nil
}

func (m *Handler) blob(r *restful.Request) (any, error) {
	ctx := r.Request.Context()
	name, err := required(r, "image")
	if err != nil {
		return nil, err
	}
	creds, err := m.credentials(ctx, r.QueryParameter("namespace"), r.QueryParameter("secret"))
	if err != nil {
		return nil, err
	}
	if v := r.QueryParameter("insecure"); v != "" {
		insecure, err := strconv.ParseBool(v)
		if err != nil {
			return nil, apierrors.NewBadRequest("insecure is neither true nor false")
		}
		creds.Insecure = creds.Insecure || insecure
	}
	image, err := m.registries.Image(ctx, name, creds)
	if err != nil {
		return nil, err
	}
	return imageDetails{
		Status: "succeeded", ImageManifest: image.Manifest, ImageBlob: image.Config, ImageTag: image.Tag, Registry: image.Registry,
	}, nil
}

func (m *Handler) tags(r *restful.Request) (any, error) {
	ctx := r.Request.Context()
	name, err := required(r, "repository")
	if err != nil {
		return nil, err
	}
	q, err := paging(r.Request.URL.Query())
	if err != nil {
		return nil, err
	}
	creds, err := m.credentials(ctx, r.PathParameter("namespace"), r.QueryParameter("secret"))
	if err != nil {
		return nil, err
	}
	found, err := m.registries.Tags(ctx, name, creds)
	if err != nil {
		return nil, err
	}
	slices.Sort(found.Tags)
	if !q.Ascending {
		slices.Reverse(found.Tags)
	}
	start, n := q.Window(len(found.Tags))
	return repositoryTags{
		Registry: found.Registry, Repository: found.Repository,
		Tags: found.Tags[start : start+n], Total: len(found.Tags), more: found.More,
	}, nil
}

// paging reads the requested page, and no other parameters of lists.
func paging(all url.Values) (*query.Query, error) {
	of := url.Values{}
	for _, param := range []string{"limit", "page", "ascending"} {
		if v, ok := all[param]; ok {
			of[param] = v
		}
	}
	return query.Parse(of)
}

// Respond implements web.Responder: it warns about what is left out.
func (t repositoryTags) Respond(w http.ResponseWriter, r *http.Request) {
	if t.more {
		w.Header().Add("Warning", fmt.Sprintf(`299 - "the repository has more than the %d tags that are counted here"`, t.Total))
	}
	type plain repositoryTags
	web.WriteJSON(w, r, http.StatusOK, plain(t))
}

func (m *Handler) search(r *restful.Request) (any, error) {
	ctx := r.Request.Context()
	creds, err := m.credentials(ctx, r.PathParameter("namespace"), r.QueryParameter("secret"))
	if err != nil {
		return nil, err
	}
	found, err := m.registries.Search(ctx, r.QueryParameter("q"), creds)
	if err != nil {
		return nil, err
	}
	return foundImages{found.Total, found.Entries}, nil
}

func required(r *restful.Request, param string) (string, error) {
	if v := r.QueryParameter(param); v != "" {
		return v, nil
	}
	return "", apierrors.NewBadRequest("the parameter " + param + " is missing")
}
