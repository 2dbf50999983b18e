package account

import (
	"net/http"
	"slices"
	"strings"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/session"
	"kapis.dev/ks-apiserver/pkg/oauth/browser"
	"kapis.dev/ks-apiserver/pkg/oauth/protocol"
	"kapis.dev/ks-apiserver/pkg/status"
)

// deviceName returns a short name for a User-Agent: browser and system, or the name of the program.
func deviceName(agent string) string {
	pick := func(pairs ...string) string {
		for i := 0; i < len(pairs); i += 2 {
			if strings.Contains(agent, pairs[i]) {
				return pairs[i+1]
			}
		}
		return ""
	}
	// The order matters: each User-Agent also has the names of those after it.
	browser := pick("Edg/", "Edge", "OPR/", "Opera", "Firefox/", "Firefox", "FxiOS/", "Firefox", "CriOS/", "Chrome", "Chrome/", "Chrome",
		"Safari/", "Safari")
	system := pick("Android", "Android", "iPhone", "iPhone", "iPad", "iPad", "Windows", "Windows", "Mac OS X", "macOS",
		"CrOS", "ChromeOS", "Linux", "Linux")
	switch {
	case browser != "" && system != "":
		return browser + ", " + system
	case browser != "":
		return browser
	}
	name, _, _ := strings.Cut(agent, " ")
	return status.Clip(name, 64)
}

// endSession ends one of the user's sessions.
func (h *Handler) endSession(r *http.Request, b *browser.Login, f protocol.Form) (any, error) {
	own := slices.ContainsFunc(h.Sessions.Of(b.User.UID), func(o *session.Session) bool { return o.Name == f["id"] })
	if !own {
		return nil, iam.ErrOver
	}
	if err := h.Sessions.End(r.Context(), f["id"], "ended by the user"); err != nil {
		return nil, err
	}
	return back(r, "ended")
}

// endOthers ends all sessions but those of this browser.
func (h *Handler) endOthers(r *http.Request, b *browser.Login, _ protocol.Form) (any, error) {
	if err := h.Sessions.EndAll(r.Context(), b.User.UID, b.Session.Name, "ended by the user"); err != nil {
		return nil, err
	}
	return back(r, "others")
}
