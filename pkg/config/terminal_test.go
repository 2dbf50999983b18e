package config_test

import (
	"strings"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/config"
)

func TestTerminalsAreLimitedInTime(t *testing.T) {
	c, err := config.Parse([]byte("terminal: {idleTimeout: 90s, maxDuration: 0, allowedOrigins: ['https://console.example:30880'], kubectl: {image: x}, files: false, uploadFileLimit: 5Mi}"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Terminal; time.Duration(got.IdleTimeout) != 90*time.Second || got.MaxDuration != 0 || len(got.AllowedOrigins) != 1 ||
		got.Files || got.UploadFileLimit != 5<<20 {
		t.Errorf("%+v", got)
	}
	if d := config.Default().Terminal; time.Duration(d.IdleTimeout) != 30*time.Minute || time.Duration(d.MaxDuration) != 8*time.Hour || !d.Files ||
		d.UploadFileLimit != 100<<20 {
		t.Errorf("%+v", d)
	}
	for text, want := range map[string]string{
		"idleTimeout: -1s":                                 "terminal.idleTimeout: -1s",
		"maxDuration: 10ms":                                "terminal.maxDuration: 10ms",
		"idleTimeout: 30":                                  "30 is not a duration",
		"allowedOrigins: [console.example]":                `"console.example" is not an origin`,
		"allowedOrigins: ['https://console.example/']":     `"https://console.example/" is not an origin`,
		"allowedOrigins: ['*']":                            `"*" is not an origin`,
		"allowedOrigins: ['https://user@console.example']": "is not an origin",
		"uploadFileLimit: 0":                               "terminal.uploadFileLimit: 0",
		"uploadFileLimit: 2Ti":                             "terminal.uploadFileLimit: 2199023255552",
		"uploadFileLimit: 100 MB":                          "is not an amount of memory",
		"files: maybe":                                     "files",
		"idleTimeouts: 30m":                                "idleTimeout",
	} {
		if _, err := config.Parse([]byte("terminal: {"+text+"}"), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
