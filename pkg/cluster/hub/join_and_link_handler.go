package hub

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/coder/websocket"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/cluster/join"
	"kapis.dev/ks-apiserver/pkg/cluster/link"
	"kapis.dev/ks-apiserver/pkg/cluster/peer"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/web"
)

// atOnce bounds the joins, and as well the handshakes of links, that run at once.
const atOnce = 256

// Handler answers what members send before they are anybody: they prove who they are by a token, or within the link.
type Handler struct {
	*Hub
	// Drain ends the links when it is done.
	Drain context.Context

	joins, links *link.HandshakeSlots
}

// NewHandler returns a Handler, whose links end with drain.
func NewHandler(drain context.Context, h *Hub) *Handler {
	return &Handler{Hub: h, Drain: drain, joins: link.NewHandshakeSlots(atOnce), links: link.NewHandshakeSlots(atOnce)}
}

// Owns reports whether a path is one of those.
func Owns(path string) bool {
	return path == join.PathJoin || path == peer.Path || strings.HasPrefix(path, join.PathLinks)
}

// ServeHTTP answers a join, or makes a link of the connection, or one of another replica of this hub.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == peer.Path {
		h.Peers.ServeHTTP(w, r)
		return
	}
	if uid, found := strings.CutPrefix(r.URL.Path, join.PathLinks); found {
		h.link(w, r, uid)
		return
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		web.WriteError(w, r, status.Errorf(http.StatusMethodNotAllowed, "a cluster joins by POST"))
		return
	}
	answer, err := h.join(r)
	w.Header().Set("Cache-Control", "no-store")
	web.Write(w, r, answer, err)
}

func (h *Handler) join(r *http.Request) (any, error) {
	raw, err := web.ReadBody(r, join.MaxRequest) // whoever sends slowly has no slot yet
	if err != nil {
		return nil, err
	}
	leave, err := h.joins.Enter(r)
	if err != nil {
		return nil, err
	}
	defer leave()
	var in join.Request
	if err := json.Unmarshal(raw, &in); err != nil {
		return nil, status.BadRequestf("the body is no JSON of a join")
	}
	return h.Join(r.Context(), &in)
}

// link makes a link of the connection. The slot is held until the link is open, or has failed.
func (h *Handler) link(w http.ResponseWriter, r *http.Request, uid string) {
	leave, err := h.links.Enter(r)
	if err != nil {
		web.WriteError(w, r, err)
		return
	}
	defer leave()
	if h.Members.ByUID(uid) == nil {
		leave() // others need not wait for what is asked now
		web.WriteError(w, r, h.deleted(r.Context(), uid))
		return
	}
	w.Header().Set(join.HeaderReplica, h.Peers.ID)
	w.Header().Set(join.HeaderReplicas, strconv.Itoa(h.Peers.Count()))
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true}) // no cookie counts here
	if err != nil {
		return // it has been answered
	}
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(-1)
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	defer cancel()
	defer context.AfterFunc(h.Drain, cancel)()
	// The connection outlives ctx: what runs on the link may end.
	over := websocket.NetConn(context.WithoutCancel(ctx), conn, websocket.MessageBinary)
	if err := h.Members.Serve(ctx, over, uid, leave); err != nil {
		klog.V(2).InfoS("A member cluster was not linked", "uid", uid, "reason", err.Error())
	}
}
