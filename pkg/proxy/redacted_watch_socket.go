package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kapis.dev/ks-apiserver/pkg/proxy/relay"
	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/redaction"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/stream"
	"kapis.dev/ks-apiserver/pkg/web"
)

var errUpgradeHidden = apierrors.NewBadRequest("of this kind, only a watch can be upgraded, and only to a WebSocket")

// upgradeHidden answers a request to upgrade for a kind that has secrets.
func (k *Kube) upgradeHidden(w http.ResponseWriter, r *http.Request, info *request.Info, x *redaction.Redaction) {
	if info.Verb == "watch" && strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		k.watchSocket(w, r, x)
		return
	}
	w.Header()["Connection"] = relay.ConnClose
	web.WriteError(w, r, errUpgradeHidden)
}

// watchSocket answers a watch by WebSocket. At kube-apiserver it is an ordinary watch, so there are no frames to parse.
func (k *Kube) watchSocket(w http.ResponseWriter, r *http.Request, x *redaction.Redaction) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	out := r.Clone(ctx)
	out.Header = http.Header{"Accept": {typeJSON}, "Accept-Encoding": {"identity"}}
	for _, name := range []string{"User-Agent", "Audit-Id"} {
		if v := r.Header[name]; len(v) > 0 {
			out.Header[name] = v
		}
	}
	k.address(out, r, false)
	res, err := k.streaming.RoundTrip(out) //nolint:bodyclose // the source closes it, or what follows
	if err != nil {
		answerError(w, r, err)
		return
	}
	if res.StatusCode != http.StatusOK {
		defer res.Body.Close()
		web.WriteError(w, r, refusalOf(res))
		return
	}
	if err := checkReadable(res); err != nil {
		_ = res.Body.Close()
		answerError(w, r, err)
		return
	}
	k.streams.Answer(&socket{body: res.Body, redaction: x}).Respond(w, r)
}

// socket is a stream.Source: the events of a watch at kube-apiserver.
type socket struct {
	body      io.ReadCloser
	redaction *redaction.Redaction
}

// Head implements stream.Source.
func (*socket) Head(http.Header) {}

// Close implements stream.Source.
func (s *socket) Close() { _ = s.body.Close() }

// Stream implements stream.Source.
func (s *socket) Stream(ctx context.Context, out *stream.Writer) {
	defer context.AfterFunc(ctx, s.Close)() // a read that waits ends in no other way
	in := rawjson.NewReader(s.body, maxValue)
	var event []byte
	for {
		frame, err := in.Line()
		if err == nil {
			event, err = appendEvent(event[:0], s.redaction, frame)
		}
		if err != nil {
			if !errors.Is(err, io.EOF) && ctx.Err() == nil {
				out.Fail(fmt.Errorf("read a watch at kube-apiserver: %w", err))
				out.Flush()
			}
			return
		}
		out.Event(rawjson.GetText(frame, "type"), "", string(event))
		if !out.Flush() {
			return
		}
	}
}
