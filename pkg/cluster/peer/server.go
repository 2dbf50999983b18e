package peer

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"

	"github.com/coder/websocket"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/cluster/link"
	"kapis.dev/ks-apiserver/pkg/web"
)

const (
	// dialsAtOnce bounds the connections that are being opened at once.
	dialsAtOnce = 64
	// grace is how long what another replica has sent here may take once this one stops.
	grace = 5 * time.Second
	// maxQuestion bounds a question, in bytes.
	maxQuestion = 1 << 20
)

// server answers the other replicas.
type server struct {
	Options
	id    string
	slots *link.HandshakeSlots
	proxy *httputil.ReverseProxy
}

func newServer(o Options, id string) *server {
	return &server{Options: o, id: id, slots: link.NewHandshakeSlots(dialsAtOnce), proxy: &httputil.ReverseProxy{
		Rewrite: rewrite, Transport: web.FinalAnswers{RoundTripper: here{o.Members}}, ModifyResponse: modify, ErrorHandler: refuse,
		FlushInterval: -1, // whether an answer is a stream is known by the member
		ErrorLog:      log.New(io.Discard, "", 0),
	}}
}

// ServeHTTP makes a connection of the request. Its sender proves within that to be a replica of this hub. A slot is held until then.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	leave, err := s.slots.Enter(r)
	if err != nil {
		web.WriteError(w, r, err)
		return
	}
	defer leave()
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true}) // no cookie counts here
	if err != nil {
		return // it has been answered
	}
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(-1)
	h := &link.Handler{Identity: s.Identity, Handler: http.HandlerFunc(s.answer), Opened: leave}
	if err := h.Serve(s.Drain, websocket.NetConn(context.WithoutCancel(r.Context()), conn, websocket.MessageBinary), grace); err != nil {
		klog.V(2).InfoS("A connection of another replica has ended", "reason", err.Error())
	}
}

// answer says what is linked here, or passes a request on to the member whose name is its host.
func (s *server) answer(w http.ResponseWriter, r *http.Request) {
	uid := link.UIDOf(r.Host)
	switch {
	case uid != "":
		ctx := context.WithValue(r.Context(), uidKey{}, uid)
		if r.Header[headerStream] != nil {
			ctx = cluster.AsStream(ctx)
		}
		s.proxy.ServeHTTP(w, r.WithContext(ctx))
	case r.Host == link.HubName() && r.URL.Path == pathStates && r.Method == http.MethodPost:
		s.states(w, r)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

func (s *server) states(w http.ResponseWriter, r *http.Request) {
	var q question
	if json.NewDecoder(io.LimitReader(r.Body, maxQuestion)).Decode(&q) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), wait)
	defer cancel()
	defer context.AfterFunc(s.Drain, cancel)()
	version, members := s.Members.States(ctx, q.After, q.Bound)
	if s.Drain.Err() != nil { // the links are about to end
		version, members = version+1, nil
	}
	_ = json.NewEncoder(w).Encode(answer{s.id, version, members})
}

// rewrite makes the request that the member gets: as it came, without what is said among replicas.
func rewrite(p *httputil.ProxyRequest) {
	p.Out.URL = &url.URL{Scheme: "https", Host: "member", Path: p.In.URL.Path, RawPath: p.In.URL.RawPath, RawQuery: p.In.URL.RawQuery}
	p.Out.Host = ""
	if peer := p.In.Header["X-Forwarded-For"]; len(peer) > 0 {
		p.Out.Header["X-Forwarded-For"] = peer
	}
	delete(p.Out.Header, headerStream)
}

// modify takes off what only a replica may say.
func modify(resp *http.Response) error {
	delete(resp.Header, headerRefused)
	return nil
}

type uidKey struct{}

// here sends requests over links to this replica.
type here struct{ members *cluster.Members }

// RoundTrip implements http.RoundTripper.
func (h here) RoundTrip(r *http.Request) (*http.Response, error) {
	uid, _ := r.Context().Value(uidKey{}).(string)
	member := h.members.ByUID(uid)
	if member == nil {
		return nil, cluster.ErrUnlinked
	}
	if synced, _ := member.SyncedHere(); !synced {
		return nil, cluster.ErrUnlinked // it has just been linked, and is told first what users lost meanwhile
	}
	return member.RoundTripHere(r)
}

// refuse says why a request was not passed on.
func refuse(w http.ResponseWriter, _ *http.Request, err error) {
	why := "broken"
	for name, of := range refusals {
		if errors.Is(err, of) {
			why = name
		}
	}
	w.Header()[headerRefused] = []string{why}
	w.WriteHeader(http.StatusBadGateway)
}
