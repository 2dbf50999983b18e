// Package terminal serves terminal.kubesphere.io: shells and files in containers, shells on nodes, and kubectl shells, for pages of browsers.
package terminal

import (
	"net/http"
	"time"

	restful "github.com/emicklei/go-restful/v3"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/stream"
	"kapis.dev/ks-apiserver/pkg/terminal"
	"kapis.dev/ks-apiserver/pkg/web"
)

const (
	group   = "terminal.kubesphere.io"
	version = "v1alpha2"
)

// V1alpha2 serves terminal.kubesphere.io/v1alpha2.
type V1alpha2 struct {
	// Executor runs the shells, as the caller of a request's context.
	Executor terminal.Executor
	// Authorizer decides on the exec that a terminal is.
	Authorizer authz.Authorizer
	// Streams ends the terminals whose right ends.
	Streams *stream.Guard
	// Pods bounds the shells in pods; Uploads and Downloads bound the transfers of files.
	Pods, Uploads, Downloads *terminal.Limiter
	// Nodes are the shells on nodes; nil if there are none here.
	Nodes *Nodes
	// Kubectl are the kubectl shells; nil if there are none here.
	Kubectl *Kubectl
	// Debug adds containers to pods whose own have no shell.
	Debug Debug
	// Files says whether files are transferred, and UploadLimit is how many bytes those of one upload may have.
	Files       bool
	UploadLimit int64
	// AllowedOrigins are the origins of the pages that may open terminals; see checkOrigin.
	AllowedOrigins []string
	// Recorder records terminals; nil where none is recorded.
	Recorder terminal.Recorder
	// Idle and Max limit a terminal; see terminal.Options.
	Idle, Max time.Duration
}

// WebService returns the routes of the group.
func (h *V1alpha2) WebService() *restful.WebService {
	ws := new(restful.WebService).Path("/kapis/" + group + "/" + version).Produces(restful.MIME_JSON)
	for operation, path := range map[string]string{
		"openPodTerminal": "/namespaces/{namespace}/pods/{pod}/exec",
		// Clients of older releases use this address, and others if the one above answers 404.
		"openPodTerminalByOlderAddress": "/namespaces/{namespace}/pods/{pod}",
	} {
		ws.Route(ws.GET(path).To(web.Handle(h.openPod)).
			Operation(operation).Doc("A shell in a container, by WebSocket. It takes the right to create pods/exec of core/v1 in the namespace").
			Param(ws.PathParameter("namespace", "namespace of the pod")).
			Param(ws.PathParameter("pod", "name of the pod")).
			Param(ws.QueryParameter("container", "name of the container; the pod's default one where it is absent")).
			Param(ws.QueryParameter("shell", "bash or sh; bash where the container has it, and else sh, where it is absent")).
			Param(ws.QueryParameter("debug", "image of a container that is added to the pod, and has the shell: one of terminal.debugImages")))
	}
	ws.Route(ws.GET("/nodes/{node}/exec").To(web.Handle(h.openNode)).Operation("openNodeTerminal").
		Doc("A shell on a node, by WebSocket. It takes the right to create nodes/exec of core/v1").
		Param(ws.PathParameter("node", "name of the node")).
		Param(ws.QueryParameter("shell", "bash or sh; bash where the node has it, and else sh, where it is absent")))
	ws.Route(ws.GET(kubectlPath).To(web.Handle(h.openKubectl)).Operation("openKubectlTerminal").
		Doc("A shell with kubectl, by WebSocket, which has the rights of the caller's login and ends with it").
		Param(ws.PathParameter("user", "name of the caller")).
		Param(ws.QueryParameter("shell", "bash or sh; bash where the image has it, and else sh, where it is absent")))
	for _, b := range []*restful.RouteBuilder{
		ws.POST(filePath).To(web.Handle(web.RefuseDryRun(h.upload))).Operation("uploadFileToPod").Consumes("multipart/form-data").
			Doc("Writes files into a folder of a container. It takes the right to create pods/exec of core/v1 in the namespace").
			Param(ws.MultiPartFormParameter("file", "the files").DataType("file")).Writes(uploaded{}),
		ws.GET(filePath).To(web.Handle(h.download)).Operation("downloadFileFromPod").Produces(archiveType, restful.MIME_JSON).
			Doc("A file or folder of a container, as an archive (tar). It takes the right to create pods/exec of core/v1 in the namespace"),
	} {
		ws.Route(b.Param(ws.PathParameter("namespace", "namespace of the pod")).
			Param(ws.PathParameter("pod", "name of the pod")).
			Param(ws.QueryParameter("container", "name of the container; the pod's default one where it is absent")).
			Param(ws.QueryParameter("path", "absolute path in the container; of uploads the folder, / where it is absent")))
	}
	return ws
}

// checkPage refuses a request that is no WebSocket's, or that of a page which may not open terminals.
func (h *V1alpha2) checkPage(r *http.Request) error {
	if err := checkUpgrade(r); err != nil {
		return err
	}
	return checkOrigin(r.Header, h.AllowedOrigins)
}
