package account

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"kapis.dev/ks-apiserver/pkg/iam/apikey"
	"kapis.dev/ks-apiserver/pkg/oauth/browser"
	"kapis.dev/ks-apiserver/pkg/oauth/login"
	"kapis.dev/ks-apiserver/pkg/oauth/page"
	"kapis.dev/ks-apiserver/pkg/oauth/protocol"
)

// keyDays returns the lifetimes of API keys to choose from.
func keyDays() []int { return []int{30, 90, 180, 365} }

// MaxDescription is the longest description of a key, in characters.
const MaxDescription = 128

// createKey creates an API key, which is shown once.
func (h *Handler) createKey(r *http.Request, b *browser.Login, f protocol.Form) (any, error) {
	if err := login.Offered(h.Keys != nil); err != nil {
		return nil, err
	}
	what := strings.TrimSpace(f["description"])
	days, err := strconv.Atoi(f["days"])
	badDescription := what == "" || utf8.RuneCountInString(what) > MaxDescription || !utf8.ValidString(what)
	if err != nil || !slices.Contains(keyDays(), days) || badDescription {
		return h.show(r, b, http.StatusBadRequest, page.Say("error.description"))
	}
	_, secret, err := h.Keys.Create(r.Context(), b.User, apikey.Request{Description: what, Scope: f["scope"],
		Expires: h.Now().AddDate(0, 0, days).Truncate(time.Second)})
	if err != nil {
		return nil, err
	}
	return h.Book.Show(0, page.Secret{Title: page.Say("secret.key"), Text: page.Say("secret.key.text"), Values: []string{secret},
		Action: "account"}, nil), nil
}

// revokeKey revokes an API key.
func (h *Handler) revokeKey(r *http.Request, b *browser.Login, f protocol.Form) (any, error) {
	if err := login.Offered(h.Keys != nil); err != nil {
		return nil, err
	}
	if err := h.Keys.Revoke(r.Context(), b.User, f["id"]); err != nil {
		return nil, err
	}
	return back(r, "revoked")
}
