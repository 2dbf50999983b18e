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
	info := request.InfoFrom(o.exec.Context())
	subject := terminal.Subject{Namespace: info.Namespace, Pod: info.Name, Container: o.exec.URL.Query().Get("container")}
	o.guarded(w, r, subject, func(over *http.Request, rec terminal.Recording) {
		o.run(w, over, within(over.Context(), o.exec), o.Executor, rec, o.Debug.hint())
	})
}

// guarded calls serve with the request of a terminal, which ends with the right to it, and with the recording. Where there can be none of
// them, it answers why.
func (h *V1alpha2) guarded(w http.ResponseWriter, r *http.Request, subject terminal.Subject,
	serve func(over *http.Request, rec terminal.Recording)) {
	s, over, err := h.Streams.Over(w, r)
	if err != nil {
		web.WriteError(w, r, err)
		return
	}
	defer s.Stop()
	rec, err := h.record(r, subject)
	if err != nil {
		web.WriteError(w, r, err)
		return
	}
	defer rec.End(nil, 0, 0)
	serve(over, rec)
}

// run upgrades the connection of r, and returns when the command that exec asks for, and with it the terminal, has ended. The hint is for
// people whose container is not there or has no shell.
func (h *V1alpha2) run(w http.ResponseWriter, r, exec *http.Request, by terminal.Executor, rec terminal.Recording, hint string) {
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{
		Subprotocols: terminal.Protocols(), InsecureSkipVerify: true, // checkOrigin has verified it
	})
	if err != nil {
		return // it has been answered
	}
	begun := time.Now()
	session := terminal.New(conn, terminal.Options{Idle: h.Idle, Max: h.Max, Hint: hint})
	info := request.InfoFrom(exec.Context())
	user := request.UserFrom(r.Context()).GetName()
	container := exec.URL.Query().Get("container")
	klog.InfoS("terminal opened", "user", user, "namespace", info.Namespace, "pod", info.Name, "container", container)
	e := session.Run(rec.Over(exec, by))
	in, out := session.Bytes()
	rec.End(e, in, out)
	klog.InfoS("terminal ended", "user", user, "namespace", info.Namespace, "pod", info.Name, "container", container,
		"code", int(e.Code), "exit", e.Exit, "bytesIn", in, "bytesOut", out, "lasted", time.Since(begun).Round(time.Millisecond))
}

// within returns exec, with its decision, for as long as ctx.
func within(ctx context.Context, exec *http.Request) *http.Request {
	of := exec.Context()
	return exec.WithContext(authz.WithDecision(request.WithInfo(ctx, request.InfoFrom(of)), authz.DecisionFrom(of)))
}
