package aggregated

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"

	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/resource"
	"kapis.dev/ks-apiserver/pkg/resource/page"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/stream"
)

// list answers a list or a watch.
func (h *Handler) list(r *http.Request, a *access) (any, error) {
	ctx := r.Context()
	values, err := parameters(r.URL.Query(), a)
	if err != nil {
		return nil, err
	}
	q, err := query.Parse(values)
	if err != nil {
		return nil, err
	}
	q.Last = true
	if err := h.authorize(ctx, a); err != nil {
		return nil, err
	}
	v, err := h.Resources.Answer(r, &resource.Listing{
		Kind: a.kind, Scope: h.scope(a), Query: q, Watch: a.verb == "watch", Streams: h.streams,
		Next: func(p *page.Page) string { return following(p, q) }, Form: (*page.Page).Native,
	})
	if s, ok := v.(*stream.Answer); ok {
		return &contextual{s, r.WithContext(context.WithValue(ctx, accessKey{}, a))}, nil
	}
	return v, err
}

// get answers a request for one object.
func (h *Handler) get(r *http.Request, a *access) (any, error) {
	ctx := r.Context()
	if err := h.authorize(ctx, a); err != nil {
		return nil, err
	}
	scope := h.scope(a)
	o, err := h.Resources.Get(ctx, a.kind, scope, a.name)
	if err != nil {
		return nil, err
	}
	return h.Resources.Tables.Answer(r, a.kind, scope, o)
}

// parameters returns those of a query as the engine takes them. What differs from docs/queries.md is what clients of Kubernetes expect:
// objects are sorted by namespace and name where nothing else is requested, a limit of 0 is none, and continue names the next page.
func parameters(values url.Values, a *access) (url.Values, error) {
	if v := values.Get("managedFields"); v != "" {
		if on, err := strconv.ParseBool(v); err != nil || on {
			return nil, query.Invalid("managedFields", v, "none here: ask kube-apiserver for an object with them")
		}
	}
	if a.verb == "watch" {
		return values, nil
	}
	if values.Get("limit") == "0" || values.Get("limit") == "" {
		values.Del("limit")
	}
	if values.Get("sortBy") == "" {
		values.Set("sortBy", "name")
		if a.kind.Namespaced {
			values.Set("sortBy", "namespace,name")
		}
		if !values.Has("ascending") {
			values.Set("ascending", "true")
		}
	}
	token := values.Get("continue")
	values.Del("continue")
	if token == "" {
		return values, nil
	}
	if values.Has("page") {
		return nil, query.Invalid("page", values.Get("page"), "no page together with continue, which names it")
	}
	at, err := parsePosition(token)
	if err != nil {
		return nil, query.Invalid("continue", token, "what the last page said")
	}
	for _, name := range [...]string{"resourceVersion", "offset", "cursor"} { // of the first page
		values.Del(name)
	}
	if at.After == "" {
		values.Set("page", strconv.Itoa(at.Page))
	} else {
		values.Set("cursor", at.After)
	}
	values.Set("limit", strconv.Itoa(at.Limit))
	return values, nil
}

// position is what continue says: after which object the next page begins, and of how many objects pages are. Earlier releases said the
// number of the page.
type position struct {
	After string `json:"a,omitempty"`
	Page  int    `json:"p,omitempty"`
	Limit int    `json:"l"`
}

// following returns the continue of a page, "" for the last one.
func following(p *page.Page, q *query.Query) string {
	if p.Remaining <= 0 || q.Limit <= 0 || p.Last == nil {
		return ""
	}
	text, err := json.Marshal(position{After: p.Last.String(), Limit: q.Limit})
	if err != nil {
		return "" // a text and a number can always be encoded
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

func parsePosition(token string) (position, error) {
	var at position
	text, err := base64.RawURLEncoding.DecodeString(token)
	if err == nil {
		err = json.Unmarshal(text, &at)
	}
	if err == nil && at.After != "" {
		_, err = query.ParseCursor(at.After)
		at.Page = 0
	}
	if err == nil && (at.After == "" && at.Page < 2 || at.Limit < 1) {
		err = status.BadRequestf("no position")
	}
	return at, err
}
