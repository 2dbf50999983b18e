package config_test

import (
	"strings"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/config"
)

// O12
func TestRecordingsAreOffUnlessTheFileSaysSo(t *testing.T) {
	for _, text := range []string{"", "terminal: {recording: {mode: off}}", "terminal: {recording: {mode: 'off', folder: {path: /var/casts}}}",
		"terminal: {recording: {redact: [secret]}}"} {
		c, err := config.Parse([]byte(text), nil)
		if err != nil || c.Terminal.Recording.Mode != config.RecordingOff {
			t.Errorf("%s: %+v %v", text, c.Terminal.Recording, err)
		}
	}
	c, err := config.Parse([]byte(`terminal: {recording: {mode: strict, folder: {path: /var/casts, maxAge: 48h, maxSize: 0}, input: true,
		redact: ['token=\S+'], passthrough: {users: [ops], groups: [admins]}}}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	if r := c.Terminal.Recording; r.Mode != config.RecordingStrict || r.Folder.Path != "/var/casts" || time.Duration(r.Folder.MaxAge) != 48*time.Hour ||
		r.Folder.MaxSize != 0 || !r.Input || len(r.Redact) != 1 || r.Passthrough.Users[0] != "ops" || r.Passthrough.Groups[0] != "admins" {
		t.Errorf("%+v", r)
	}
	c, err = config.Parse(nil, []string{"KUBESPHERE_TERMINAL_RECORDING_MODE=bestEffort", "KUBESPHERE_TERMINAL_RECORDING_WEBHOOK_URL=https://recorder.example/casts"})
	if err != nil || c.Terminal.Recording.Mode != config.RecordingBestEffort || c.Terminal.Recording.Webhook.URL == "" ||
		c.Terminal.Recording.Folder.MaxSize != 10<<30 || time.Duration(c.Terminal.Recording.Folder.MaxAge) != 720*time.Hour {
		t.Errorf("%v", err)
	}
}

// O12
func TestRecordingsThatCantBeAreRefused(t *testing.T) {
	const to = "mode: strict, folder: {path: /c}, "
	for text, want := range map[string]string{
		"mode: always":                                         `terminal.recording.mode: "always"`,
		"mode: on":                                             `terminal.recording.mode: "true"`,
		"mode: Strict":                                         `terminal.recording.mode: "Strict"`,
		"mode: strict":                                         "set either terminal.recording.folder.path or terminal.recording.webhook.url",
		"mode: bestEffort":                                     "set either terminal.recording.folder.path",
		to + "webhook: {url: 'https://a'}":                     "set either",
		"mode: strict, folder: {path: casts}":                  `terminal.recording.folder.path: "casts"`,
		"folder: {path: /c, maxAge: 1m}":                       "terminal.recording.folder.maxAge: 1m0s",
		"folder: {path: /c, maxAge: -1h}":                      "terminal.recording.folder.maxAge: -1h0m0s",
		"folder: {path: /c, maxSize: 100Mi}":                   "terminal.recording.folder.maxSize: 104857600",
		"webhook: {url: 'http://a'}":                           "terminal.recording.webhook.url is not an https URL",
		"webhook: {url: 'https://u:canary@a'}":                 "terminal.recording.webhook.url is not an https URL",
		"webhook: {url: 'https://a', verify: no}":              "terminal.recording.webhook",
		to + "redact: ['(']":                                   "terminal.recording.redact[0]",
		to + "redact: [a, 'b*']":                               "terminal.recording.redact[1]",
		to + "redact: ['(?=a)']":                               "terminal.recording.redact[0]",
		to + "redact: ['" + strings.Repeat("a", 1001) + "']":   "terminal.recording.redact[0] has 1001 bytes",
		to + "redact: [" + strings.Repeat("a,", 51) + "]":      "51 patterns",
		to + "passthrough: {users: ['']}":                      `terminal.recording.passthrough: ""`,
		to + "passthrough: {groups: ['system:authenticated']}": "is everybody",
		to + "passthrough: {users: [' ops']}":                  `terminal.recording.passthrough: " ops"`,
		"recordings: {}":                                       "terminal.recording",
	} {
		if _, err := config.Parse([]byte("terminal: {recording: {"+text+"}}"), nil); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
