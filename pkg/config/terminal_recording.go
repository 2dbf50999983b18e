package config

import (
	"bytes"
	"encoding/json"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// RecordingMode says whether shells are recorded.
type RecordingMode string

// The modes: nothing is recorded; a shell is recorded as well as that can be done without slowing it down; a shell that can't be recorded
// is refused or ends, and so is what runs commands in pods by another way.
const (
	RecordingOff        RecordingMode = "off"
	RecordingBestEffort RecordingMode = "bestEffort"
	RecordingStrict     RecordingMode = "strict"
)

// UnmarshalJSON reads a mode. The word off without quotes is false in YAML.
func (m *RecordingMode) UnmarshalJSON(b []byte) error {
	if bytes.Equal(b, []byte("false")) {
		*m = RecordingOff
		return nil
	}
	var s string
	if json.Unmarshal(b, &s) != nil {
		s = string(b) // which check refuses
	}
	*m = RecordingMode(s)
	return nil
}

// TerminalRecording is the section terminal.recording.
type TerminalRecording struct {
	// Mode is off, bestEffort or strict; off.
	Mode RecordingMode `json:"mode"`
	// Folder or Webhook is where recordings go.
	Folder  RecordingFolder  `json:"folder"`
	Webhook RecordingWebhook `json:"webhook"`
	// Input says whether what is typed is recorded too, passwords among it that no terminal shows; false.
	Input bool `json:"input"`
	// Redact are regular expressions (RE2) whose matches within a line are not recorded; none.
	Redact []string `json:"redact,omitempty"`
	// Passthrough are those who may run commands in pods by other ways in the mode strict.
	Passthrough RecordingPassthrough `json:"passthrough"`
}

// RecordingFolder is the section terminal.recording.folder.
type RecordingFolder struct {
	// Path is the folder, an absolute path; none.
	Path string `json:"path"`
	// MaxSize is how much the recordings may take, 10Gi, and MaxAge how long they remain, 720h. 0 is without a bound.
	MaxSize Bytes    `json:"maxSize"`
	MaxAge  Duration `json:"maxAge"`
}

// RecordingWebhook is the section terminal.recording.webhook.
type RecordingWebhook struct {
	// URL is an https URL; none.
	URL string `json:"url"`
	// CAFile has the authorities of the webhook's certificate; those of the system.
	CAFile string `json:"caFile"`
	// TokenFile has a bearer token; none.
	TokenFile string `json:"tokenFile"`
}

// RecordingPassthrough is the section terminal.recording.passthrough.
type RecordingPassthrough struct {
	Users  []string `json:"users,omitempty"`
	Groups []string `json:"groups,omitempty"`
}

func defaultRecording() TerminalRecording {
	return TerminalRecording{Mode: RecordingOff, Folder: RecordingFolder{MaxSize: 10 << 30, MaxAge: Duration(720 * time.Hour)}}
}

// The bounds of patterns, each of which is searched for in each line.
const (
	maxPatterns      = 50
	maxPatternLength = 1000
)

func (r TerminalRecording) check(fault func(format string, args ...any)) {
	if !slices.Contains([]RecordingMode{RecordingOff, RecordingBestEffort, RecordingStrict}, r.Mode) {
		fault("terminal.recording.mode: %q is not off, bestEffort or strict", r.Mode)
		return
	}
	if r.Folder.MaxAge < 0 || r.Folder.MaxAge > 0 && r.Folder.MaxAge < Duration(time.Hour) {
		fault("terminal.recording.folder.maxAge: %v is neither 0 nor at least 1h", time.Duration(r.Folder.MaxAge))
	}
	if r.Folder.MaxSize > 0 && r.Folder.MaxSize < 200<<20 {
		fault("terminal.recording.folder.maxSize: %d is neither 0 nor at least 200Mi: one recording may have 100 MiB", r.Folder.MaxSize)
	}
	if p := r.Folder.Path; p != "" && !filepath.IsAbs(p) {
		fault("terminal.recording.folder.path: %q is no absolute path", p)
	}
	if raw := r.Webhook.URL; raw != "" {
		if u, err := url.Parse(raw); err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil {
			fault("terminal.recording.webhook.url is not an https URL without a user: a token belongs into tokenFile")
		}
	}
	r.checkPatterns(fault)
	r.checkPassthrough(fault)
	if r.Mode != RecordingOff && (r.Folder.Path == "") == (r.Webhook.URL == "") {
		fault("terminal.recording.mode is %s: set either terminal.recording.folder.path or terminal.recording.webhook.url", r.Mode)
	}
}

func (r TerminalRecording) checkPatterns(fault func(format string, args ...any)) {
	if len(r.Redact) > maxPatterns {
		fault("terminal.recording.redact: %d patterns are more than %d", len(r.Redact), maxPatterns)
	}
	for i, text := range r.Redact {
		switch p, err := regexp.Compile(text); {
		case err != nil:
			fault("terminal.recording.redact[%d] is no regular expression of RE2: %v", i, err)
		case len(text) > maxPatternLength:
			fault("terminal.recording.redact[%d] has %d bytes, more than %d", i, len(text), maxPatternLength)
		case p.MatchString(""):
			fault("terminal.recording.redact[%d]: %q matches what is empty", i, text)
		}
	}
}

func (r TerminalRecording) checkPassthrough(fault func(format string, args ...any)) {
	for _, name := range slices.Concat(r.Passthrough.Users, r.Passthrough.Groups) {
		switch {
		case name == "" || strings.TrimSpace(name) != name:
			fault("terminal.recording.passthrough: %q is no name of a user or a group", name)
		case name == "system:authenticated" || name == "system:unauthenticated" || name == "system:anonymous":
			fault("terminal.recording.passthrough: %q is everybody: use the mode bestEffort instead of strict", name)
		}
	}
}
