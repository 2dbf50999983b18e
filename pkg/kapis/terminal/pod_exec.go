package terminal

import (
	"net/http"
	"net/url"

	restful "github.com/emicklei/go-restful/v3"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/terminal"
)

// openPod answers with a shell in a container. All that can be refused is refused before the connection is upgraded.
func (h *V1alpha2) openPod(r *restful.Request) (any, error) {
	info, query := request.InfoFrom(r.Request.Context()), r.Request.URL.Query()
	if isOwnPod(request.UserFrom(r.Request.Context()), info) {
		return h.openOwnShell(r.Request)
	}
	container := query.Get("container")
	exec, err := h.exec(r.Request, info, container, terminal.Query(container, query.Get("shell")))
	if err != nil {
		return nil, err
	}
	if err := h.checkPage(r.Request); err != nil {
		return nil, err
	}
	leave, err := h.Pods.Enter(request.UserFrom(r.Request.Context()).GetName())
	if err != nil {
		return nil, err
	}
	if image := query.Get("debug"); image != "" {
		o, err := h.openDebug(r.Request, container, image, query.Get("shell"))
		if err != nil {
			leave()
			return nil, err
		}
		o.leave = leave
		return o, nil
	}
	return &opened{h, exec, leave}, nil
}

// exec returns the request to kube-apiserver that a terminal or a transfer is, authorized as itself.
func (h *V1alpha2) exec(in *http.Request, info *request.Info, container string, query url.Values) (*http.Request, error) {
	namespace, pod := info.Namespace, info.Name
	if container != "" {
		if wrong := validation.IsDNS1123Label(container); len(wrong) > 0 {
			return nil, status.BadRequestf("the parameter container is %.100q, which is no name of a container: %s", container, wrong[0])
		}
	}
	if wrong := apivalidation.NameIsDNSSubdomain(pod, false); len(wrong) > 0 {
		return nil, status.BadRequestf("%.100q is no name of a pod: %s", pod, wrong[0])
	}
	if wrong := validation.IsDNS1123Label(namespace); len(wrong) > 0 {
		return nil, status.BadRequestf("%.100q is no name of a namespace: %s", namespace, wrong[0])
	}
	r, err := post(in, "/api/v1/namespaces/"+namespace+"/pods/"+pod+"/exec", query)
	if err != nil {
		return nil, err
	}
	return authz.Permit(h.Authorizer, r)
}

// post returns a POST to kube-apiserver that is sent for in, and is not authorized yet.
func post(in *http.Request, path string, query url.Values) (*http.Request, error) {
	r, err := http.NewRequestWithContext(in.Context(), http.MethodPost, "/", http.NoBody)
	if err != nil {
		return nil, err
	}
	r.URL = &url.URL{Path: path, RawQuery: query.Encode()}
	r.RemoteAddr = in.RemoteAddr
	for _, name := range []string{"User-Agent", "Audit-Id"} {
		if v := in.Header[name]; len(v) > 0 {
			r.Header[name] = v
		}
	}
	return r, nil
}
