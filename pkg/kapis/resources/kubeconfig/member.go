package kubeconfig

import (
	"net/http"
	"strings"

	"kapis.dev/ks-apiserver/pkg/kubeconfig"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/web"
)

// OfMembers returns a handler of requests to member clusters, which answers those of users for their own kubeconfig, and leaves all others
// to next. With it kubectl reaches the member through this server, the only one that knows the users of the fleet. It has no credential,
// whatever form kubeconfigs of this cluster have.
func (k *Handler) OfMembers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, u := request.InfoFrom(r.Context()), request.UserFrom(r.Context())
		if info == nil || u == nil || !isOwnKubeconfig(info, u.GetName()) || r.Method != http.MethodGet || !k.IsUser(u.GetName()) {
			next.ServeHTTP(w, r)
			return
		}
		text, err := k.ofMember(info.Cluster, u.GetName())
		if err != nil {
			web.WriteError(w, r, err)
			return
		}
		text.Respond(w, r)
	})
}

// isOwnKubeconfig reports whether a request is one of a user for their own kubeconfig.
func isOwnKubeconfig(i *request.Info, user string) bool {
	return i.Cluster != "" && i.APIPrefix == "kapis" && i.APIGroup == "resources.kubesphere.io" && i.APIVersion == "v1alpha2" &&
		i.Resource == "users" && i.Subresource == "kubeconfig" && i.Namespace == "" && i.Workspace == "" && user != "" && i.Name == user
}

func (k *Handler) ofMember(cluster, user string) (yamlText, error) {
	server, head := k.server()
	authority, err := k.ReadAuthority()
	if err != nil {
		return nil, err
	}
	text, err := kubeconfig.YAML(kubeconfig.Options{Server: strings.TrimSuffix(server, "/") + "/clusters/" + cluster, Authority: authority,
		Context: cluster, Issuer: k.Issuer, Client: k.Client, User: user})
	return yamlText(append([]byte(head), text...)), err
}
