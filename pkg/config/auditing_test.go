package config_test

import (
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/config"
)

func TestTheAuditIsOffUnlessTheFileSaysSo(t *testing.T) { // O44
	for text, want := range map[string]bool{
		"": false, "auditing: {}": false, "auditing: {enable: false, auditLevel: Metadata, webhookUrl: 'https://a'}": false,
		"auditing: {enable: true, webhookUrl: 'https://a'}":                                                          true,
		"auditing: {enable: true, webhookUrl: 'https://a', eventBatchSize: 500, eventSendersNum: 8}":                 true,
		"auditing: {enable: true, webhookOptions: {webhookUrl: 'https://a', eventSendersNum: 4}}":                    true,
		"auditing: {enable: true, host: 'https://elastic', indexPrefix: a}":                                          false,
		"auditing: {enable: false, webhookOptions: {webhookUrl: 'https://a', format: none, eventSendersNum: 1000}}":  false,
		"auditing: {enable: true, webhookOptions: {webhookUrl: 'https://a', format: audit.k8s.io/v1, caFile: /ca}}":  true,
		"auditing: {enable: true, webhookOptions: {webhookUrl: 'https://a', format: kubesphere, tokenFile: /token}}": true,
		"auditing: {enable: true, recent: 16Mi}":                                                                     true,
		"auditing: {enable: false, recent: 16Mi}":                                                                    false,
		"auditing: {enable: true, logOptions: {path: '-', mode: blocking-strict}}":                                   true,
		"auditing: {enable: true, logOptions: {path: '-'}}":                                                          true,
		"auditing: {enable: true, webhookUrl: 'https://a', logOptions: {path: '-'}}":                                 true,
	} {
		if c, err := config.Parse([]byte(text), nil); err != nil || c.Auditing.Records() != want {
			t.Errorf("%q: %v, want %v", text, err, want)
		}
	}
	for text, want := range map[string]string{
		"{enable: true}": "logOptions.path",
		"{enable: true, webhookUrl: 'https://a', webhookOptions: {webhookUrl: 'https://b'}}": "both set",
		"{enable: true, webhookOptions: {webhookUrl: 'https://a', format: xml}}":             "format",
		"{enable: true, webhookOptions: {webhookUrl: 'https://a', eventSendersNum: 0}}":      "eventSendersNum",
		"{enable: true, webhookUrl: 'https://a', eventSendersNum: 65}":                       "eventSendersNum",
		"{enable: true, webhookUrl: 'https://a', eventBatchSize: 0}":                         "eventBatchSize",
		"{enable: true, webhookUrl: 'https://a', eventBatchInterval: 2m}":                    "eventBatchInterval",
		"{enable: true, webhookUrl: 'https://a', auditLevel: All}":                           "auditLevel",
		"{enable: true, auditLevel: All, logOptions: {path: a}}":                             "auditLevel",
		"{enable: true, logOptions: {path: a, maxSize: 0}}":                                  "maxSize",
		"{enable: true, logOptions: {path: a, mode: strict}}":                                "logOptions.mode",
		"{enable: true, webhookUrl: 'https://a', webhookOptions: {mode: ''}}":                "webhookOptions.mode",
		"{enable: true, recent: 1Ki}":                                                        "auditing.recent",
		"{enable: true, recent: 1Gi}":                                                        "auditing.recent",
		"{enable: true, logOptions: {path: a, maxAge: -1}}":                                  "maxAge",
		"{enable: true, logOptions: {path: a, maxBackups: -1}}":                              "maxBackups",
		"{enable: true, logOptions: {path: a, maxBackup: 1}}":                                "maxBackup",
		"{enabled: true, logOptions: {path: a}}":                                             "enabled",
		"{enable: yes please, logOptions: {path: a, maxBackups: 1, maxAge: 1}}":              "enable",
	} {
		if _, err := config.Parse([]byte("auditing: "+text), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// The keys of both releases name one webhook, and say whose form its events have.
func TestTheAuditWebhookHasTheKeysOfBothReleases(t *testing.T) {
	for text, want := range map[string]struct {
		url              string
		release, senders int
	}{
		"{enable: true, webhookUrl: 'https://a'}":                                        {"https://a", 3, 4},
		"{enable: true, webhookUrl: 'https://a', eventSendersNum: 8}":                    {"https://a", 3, 8},
		"{enable: true, webhookOptions: {webhookUrl: 'https://a'}}":                      {"https://a", 4, 4},
		"{enable: true, webhookOptions: {webhookUrl: 'https://a', eventSendersNum: 9}}":  {"https://a", 4, 9},
		"{enable: true, eventSendersNum: 8, webhookOptions: {webhookUrl: 'https://a'}}":  {"https://a", 4, 4},
		"{enable: true, logOptions: {path: '-'}, webhookOptions: {eventSendersNum: 99}}": {"", 3, 99},
	} {
		c, err := config.Parse([]byte("auditing: "+text), nil)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		got, release := c.Auditing.Webhook()
		if got.WebhookURL != want.url || release != want.release || got.EventSendersNum != want.senders {
			t.Errorf("%s: got %+v of release %d, want %+v", text, got, release, want)
		}
	}
}
