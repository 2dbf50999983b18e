package agent

import (
	"context"
	"net/http"
	"time"

	"github.com/coder/websocket"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/web"
)

// ServeHTTP makes a link of the connection of a hub, which proves within the link that it is one. A slot is held until the link is open,
// or has failed: anybody may dial.
func (g *Guest) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	leave, err := g.slots.Enter(r)
	if err != nil {
		web.WriteError(w, r, err)
		return
	}
	defer leave()
	id := g.identity.Load()
	if id == nil {
		if _, err := g.Look(r.Context()); err == nil { // another replica may have got it
			id = g.identity.Load()
		}
	}
	if id == nil {
		web.WriteError(w, r, status.Errorf(http.StatusNotFound, "this cluster is a member of no fleet"))
		return
	}
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true}) // no cookie counts here
	if err != nil {
		return // it has been answered
	}
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(-1)
	life, end := context.WithCancel(context.WithoutCancel(r.Context()))
	defer end()
	defer context.AfterFunc(g.Drain, end)()
	timer := time.AfterFunc(max(time.Minute, g.renewAt(id).Sub(g.Now())), end)
	defer timer.Stop()
	h := g.linkHandler(id)
	h.Opened = leave
	if err := h.Serve(life, websocket.NetConn(context.WithoutCancel(r.Context()), conn, websocket.MessageBinary), grace); err != nil {
		klog.V(2).InfoS("A link of the hub has ended", "reason", err.Error())
	}
}
