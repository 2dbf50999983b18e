// Package kubeconfig serves the kubeconfig of a user.
package kubeconfig

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"kapis.dev/ks-apiserver/pkg/caller"
	"kapis.dev/ks-apiserver/pkg/kubeconfig"
	"kapis.dev/ks-apiserver/pkg/web"

	restful "github.com/emicklei/go-restful/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// maxAuthority bounds the file of certificates, in bytes.
const maxAuthority = 1 << 20

// Handler returns the kubeconfig with which a user's kubectl connects through this server. It is the same for everyone except for the
// user name. Client certificates are given out only where Certificates is set.
type Handler struct {
	// Server is the https URL at which kubectl reaches this server; "" where none is known. Then the answer is a kubeconfig that says so,
	// and says what to do: an error would be shown to nobody, since the console's dialog shows the text of the answer and nothing else.
	Server string
	// Authority is a PEM file of the CAs of Server's certificate, "" for none. It is read each time, so that it may be renewed.
	Authority string
	// Issuer and Client are what the plugin logs in with.
	Issuer, Client string
	// Kube is kube-apiserver, for kubeconfigs with which kubectl calls it itself; nil for those that go through this server.
	Kube *Kube
	// IsUser reports whether there is a user of a name.
	IsUser func(name string) bool
	// Certificates returns kubeconfigs with a client certificate, which are given out instead; nil where there are none.
	Certificates *Certificates
	// AsCaller makes the service accounts and the tokens of Kube.Tokens.
	AsCaller caller.Client
}

// Kube is a kube-apiserver that users call: one that trusts this server's ID tokens, or asks this server about access tokens, or has the
// service accounts of users.
type Kube struct {
	// Server is its https URL, and Authority the PEM certificates of its CAs, nil for those of the users' machines.
	Server    string
	Authority []byte
	// IDToken has the plugin send the ID token, and not the access token.
	IDToken bool
	// Tokens is the life of the service accounts' tokens; 0 where the plugin logs in.
	Tokens time.Duration
}

// yamlText is an answer of YAML.
type yamlText []byte

// Respond implements web.Responder.
func (y yamlText) Respond(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "application/yaml") // RFC 9512
	h.Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(y) // the client has gone
}

// Mount adds the route.
func (k *Handler) Mount(ws *restful.WebService) {
	if k == nil {
		return
	}
	ws.Route(ws.GET("/users/{user}/kubeconfig").To(web.Handle(k.get)).Produces("application/yaml", restful.MIME_JSON).
		Operation("getUserKubeconfig").Doc("A kubeconfig for a user: one without a credential, with which the plugin kubectl-ks logs in, or"+
		" one with a client certificate or a token").
		Param(ws.PathParameter("user", "name of the user")).
		Returns(http.StatusOK, "OK", "").Returns(http.StatusNotFound, "there is no such user", nil))
}

func (k *Handler) get(r *restful.Request) (any, error) {
	name := r.PathParameter("user")
	if !k.IsUser(name) {
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: "iam.kubesphere.io", Resource: "users"}, name)
	}
	if k.Certificates != nil {
		return k.Certificates.Get(r.Request.Context(), name)
	}
	if k.Kube != nil && k.Kube.Tokens > 0 {
		return (&Tokens{Server: k.Kube.Server, Authority: k.Kube.Authority, MaxAge: k.Kube.Tokens, AsCaller: k.AsCaller,
			Now: time.Now}).Get(r.Request, name)
	}
	server, head := k.server()
	authority, err := k.ReadAuthority()
	if err != nil {
		return nil, err
	}
	o := kubeconfig.Options{Server: server, Authority: authority, Issuer: k.Issuer, Client: k.Client, User: name}
	if k.Kube != nil {
		o.Server, o.Authority, o.IssuerAuthority, o.IDToken, head = k.Kube.Server, k.Kube.Authority, authority, k.Kube.IDToken, ""
	}
	text, err := kubeconfig.YAML(o)
	if err != nil {
		return nil, err
	}
	return yamlText(append([]byte(head), text...)), nil
}

// noServer is the server in the kubeconfig where no address is known: the name can't exist (RFC 2606, 2), and kubectl's error shows it.
const (
	noServer     = "https://kubeconfig-server-is-not-configured.invalid"
	noServerSays = "# kubectl can't connect with this file yet: no https address of this platform is known, and kubectl sends no credentials over\n" +
		"# plain http. An administrator sets kubeconfig.server, and kubeconfig.certificateAuthority for a CA of one's own, in the\n" +
		"# configuration of ks-apiserver; or replace the server below by the https address of ks-apiserver.\n"
)

// server returns the server of kubeconfigs, and what a kubeconfig says at its head.
func (k *Handler) server() (server, head string) {
	if k.Server == "" {
		return noServer, noServerSays
	}
	return k.Server, ""
}

// ReadAuthority reads the CAs of the server's certificate; nil where there is no file.
func (k *Handler) ReadAuthority() ([]byte, error) {
	if k.Authority == "" {
		return nil, nil
	}
	f, err := os.Open(k.Authority)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig.certificateAuthority: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxAuthority+1))
	if err == nil && (len(text) == 0 || len(text) > maxAuthority) {
		err = errors.New("it is empty, or too large")
	}
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig.certificateAuthority: %w", err)
	}
	return text, nil
}
