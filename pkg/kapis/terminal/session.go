package terminal

import (
	"context"
	"net/http"
	"time"

	"github.com/coder/websocket"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/terminal"
	"kapis.dev/ks-apiserver/pkg/web"
)

// opened is the answer to a request for a terminal: the terminal. It is a web.Responder.
type opened struct {
	*V1alpha2
	exec  *http.Request
	leave func()
}

// Respond opens the terminal, and returns when it has ended.
func (o *opened) Respond(w http.ResponseWriter, r *http.Request) {
	defer o.leave()
	s, over, err := o.Streams.Over(w, r)
	if err != nil {
		web.WriteError(w, r, err)
		return
	}
	defer s.Stop()
	o.run(w, over, within(s.Context(), o.exec), o.Executor)
}

// run upgrades the connection of r, and returns when the command that exec asks for, and with it the terminal, has ended.
func (h *V1alpha2) run(w http.ResponseWriter, r, exec *http.Request, by terminal.Executor) {
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true}) // checkOrigin has verified it
	if err != nil {
		return // it has been answered
	}
	begun := time.Now()
	session := terminal.New(conn, terminal.Options{Idle: h.Idle, Max: h.Max})
	info := request.InfoFrom(exec.Context())
	user := request.UserFrom(r.Context()).GetName()
	container := exec.URL.Query().Get("container")
	klog.InfoS("terminal opened", "user", user, "namespace", info.Namespace, "pod", info.Name, "container", container)
	e := session.Run(exec, by)
	in, out := session.Bytes()
	klog.InfoS("terminal ended", "user", user, "namespace", info.Namespace, "pod", info.Name, "container", container,
		"code", int(e.Code), "exit", e.Exit, "bytesIn", in, "bytesOut", out, "lasted", time.Since(begun).Round(time.Millisecond))
}

// within returns exec, with its decision, for as long as ctx.
func within(ctx context.Context, exec *http.Request) *http.Request {
	of := exec.Context()
	return exec.WithContext(authz.WithDecision(request.WithInfo(ctx, request.InfoFrom(of)), authz.DecisionFrom(of)))
}
