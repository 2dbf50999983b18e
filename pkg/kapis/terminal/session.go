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

// Respond upgrades the connection, and returns when the terminal has ended.
func (o *opened) Respond(w http.ResponseWriter, r *http.Request) {
	defer o.leave()
	s, over, err := o.Streams.Over(w, r)
	if err != nil {
		web.WriteError(w, r, err)
		return
	}
	defer s.Stop()
	r = over
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true}) // checkOrigin has verified it
	if err != nil {
		return // it has been answered
	}
	begun := time.Now()
	session := terminal.New(conn, terminal.Options{Idle: o.Idle, Max: o.Max})
	info := request.InfoFrom(o.exec.Context())
	user := request.UserFrom(r.Context()).GetName()
	container := o.exec.URL.Query().Get("container")
	klog.InfoS("terminal opened", "user", user, "namespace", info.Namespace, "pod", info.Name, "container", container)
	e := session.Run(within(s.Context(), o.exec), o.Executor)
	in, out := session.Bytes()
	klog.InfoS("terminal ended", "user", user, "namespace", info.Namespace, "pod", info.Name, "container", container,
		"code", int(e.Code), "exit", e.Exit, "bytesIn", in, "bytesOut", out, "lasted", time.Since(begun).Round(time.Millisecond))
}

// within returns exec, with its decision, for as long as ctx.
func within(ctx context.Context, exec *http.Request) *http.Request {
	of := exec.Context()
	return exec.WithContext(authz.WithDecision(request.WithInfo(ctx, request.InfoFrom(of)), authz.DecisionFrom(of)))
}
