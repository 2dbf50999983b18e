package config

import (
	"net/url"
	"time"
)

// Terminal is the section terminal: shells in containers (docs/terminal.md).
type Terminal struct {
	// IdleTimeout is how long nothing may be typed until a terminal is closed; 30m. 0 means as long as the client likes.
	IdleTimeout Duration `json:"idleTimeout"`
	// MaxDuration is how long a terminal may last; 8h. 0 means as long as the client likes.
	MaxDuration Duration `json:"maxDuration"`
	// AllowedOrigins are the origins of the pages that may open terminals, as in https://console.example; empty for all but those that a
	// browser calls cross-site.
	AllowedOrigins []string `json:"allowedOrigins,omitempty"`

	Image           any `json:"image" config:"unread"`
	Timeout         any `json:"timeout" config:"unread"`
	Kubectl         any `json:"kubectl" config:"unread"`
	Node            any `json:"node" config:"unread"`
	UploadFileLimit any `json:"uploadFileLimit" config:"unread"`
}

func (t Terminal) check(fault func(format string, args ...any)) {
	for name, d := range map[string]Duration{"idleTimeout": t.IdleTimeout, "maxDuration": t.MaxDuration} {
		if d < 0 || d > 0 && d < Duration(time.Second) {
			fault("terminal.%s: %v is neither 0 nor at least 1s", name, time.Duration(d))
		}
	}
	for _, o := range t.AllowedOrigins {
		u, err := url.Parse(o)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || o != u.Scheme+"://"+u.Host {
			fault("terminal.allowedOrigins: %q is not an origin such as https://console.example (RFC 6454, 6.2)", o)
		}
	}
}
