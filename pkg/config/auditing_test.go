package config_test

import (
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/config"
)

func TestTheAuditIsOffUnlessTheFileSaysSo(t *testing.T) { // O44
	for text, want := range map[string]bool{
		"": false, "auditing: {}": false, "auditing: {enable: false, auditLevel: Metadata, webhookUrl: 'https://a'}": false,
		"auditing: {enable: true, webhookUrl: 'https://a'}":                              false,
		"auditing: {enable: true, webhookUrl: 'https://a', auditLevel: RequestResponse}": false,
		"auditing: {enable: true, logOptions: {path: '-'}}":                              true,
		"auditing: {enable: true, webhookUrl: 'https://a', logOptions: {path: '-'}}":     true,
	} {
		if c, err := config.Parse([]byte(text), nil); err != nil || c.Auditing.Records() != want {
			t.Errorf("%q: %v, want %v", text, err, want)
		}
	}
	for text, want := range map[string]string{
		"{enable: true}": "logOptions.path",
		"{enable: true, auditLevel: All, logOptions: {path: a}}":                "auditLevel",
		"{enable: true, logOptions: {path: a, maxSize: 0}}":                     "maxSize",
		"{enable: true, logOptions: {path: a, maxAge: -1}}":                     "maxAge",
		"{enable: true, logOptions: {path: a, maxBackups: -1}}":                 "maxBackups",
		"{enable: true, logOptions: {path: a, maxBackup: 1}}":                   "maxBackup",
		"{enabled: true, logOptions: {path: a}}":                                "enabled",
		"{enable: yes please, logOptions: {path: a, maxBackups: 1, maxAge: 1}}": "enable",
	} {
		if _, err := config.Parse([]byte("auditing: "+text), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
