package config

import (
	"net/url"
	"time"
)

// Terminal is the section terminal: shells and files in containers (docs/terminal.md).
type Terminal struct {
	// IdleTimeout is how long nothing may be typed until a terminal is closed; 30m. 0 means as long as the client likes.
	IdleTimeout Duration `json:"idleTimeout"`
	// MaxDuration is how long a terminal may last; 8h. 0 means as long as the client likes.
	MaxDuration Duration `json:"maxDuration"`
	// Files says whether files are written to and read from containers; true.
	Files bool `json:"files"`
	// UploadFileLimit is how many bytes the files of one upload may have; 100Mi.
	UploadFileLimit Bytes `json:"uploadFileLimit"`
	// AllowedOrigins are the origins of the pages that may open terminals and transfer files, as in https://console.example;
	// empty for all but those that a browser calls cross-site.
	AllowedOrigins []string `json:"allowedOrigins,omitempty"`

	Image   any `json:"image" config:"unread"`
	Timeout any `json:"timeout" config:"unread"`
	Kubectl any `json:"kubectl" config:"unread"`
	Node    any `json:"node" config:"unread"`
}

// maxUploadFileLimit is more than a replica can store of ten uploads at once.
const maxUploadFileLimit Bytes = 1 << 40

func (t Terminal) check(fault func(format string, args ...any)) {
	for name, d := range map[string]Duration{"idleTimeout": t.IdleTimeout, "maxDuration": t.MaxDuration} {
		if d < 0 || d > 0 && d < Duration(time.Second) {
			fault("terminal.%s: %v is neither 0 nor at least 1s", name, time.Duration(d))
		}
	}
	if t.UploadFileLimit < 1 || t.UploadFileLimit > maxUploadFileLimit {
		fault("terminal.uploadFileLimit: %d is not from 1 to %d bytes: files: false switches uploads off", t.UploadFileLimit, maxUploadFileLimit)
	}
	for _, o := range t.AllowedOrigins {
		u, err := url.Parse(o)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || o != u.Scheme+"://"+u.Host {
			fault("terminal.allowedOrigins: %q is not an origin such as https://console.example (RFC 6454, 6.2)", o)
		}
	}
}
