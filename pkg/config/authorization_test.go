package config_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/config"
)

func TestWhoDecidesAndInWhichOrder(t *testing.T) {
	const hook = "webhook: {kubeconfigFile: /k, failurePolicy: Deny}"
	for text, want := range map[string][]string{
		"":                                  {"RBAC"},
		"authorization: {mode: AlwaysDeny}": {"AlwaysDeny"},
		"authorization: {modes: []}":        {"RBAC"},
		"authorization: {modes: [ABAC, RBAC], abac: {policyFile: /p}}": {"ABAC", "RBAC"},
		"authorization: {modes: [Webhook, RBAC], " + hook + "}":        {"Webhook", "RBAC"},
		"authorization: {mode: RBAC, modes: [RBAC, Webhook, ABAC, AlwaysAllow, AlwaysDeny], " + hook +
			", abac: {policyFile: /p}}": {"RBAC", "Webhook", "ABAC", "AlwaysAllow", "AlwaysDeny"},
	} {
		c, err := config.Parse([]byte(text), nil)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := c.Authorization.Order(); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}

func TestTheWebhooksDefaults(t *testing.T) {
	c, err := config.Parse([]byte("authorization: {modes: [Webhook], webhook: {kubeconfigFile: /k, failurePolicy: NoOpinion, authorizedTTL: 0}}"), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := config.AuthorizationWebhook{
		KubeconfigFile:  "/k",
		FailurePolicy:   config.FailureNoOpinion,
		Timeout:         config.Duration(3 * time.Second),
		UnauthorizedTTL: config.Duration(5 * time.Second),
	}
	if c.Authorization.Webhook != want {
		t.Errorf("%+v", c.Authorization.Webhook)
	}
}

func TestAuthorizationThatCanNotBeMeant(t *testing.T) {
	for text, want := range map[string]string{
		"modes: [RBAC, Sometimes]":        `authorization.modes[1]: "Sometimes" is not RBAC, Webhook, ABAC, AlwaysAllow or AlwaysDeny`,
		"modes: [rbac]":                   `"rbac" is not RBAC`,
		"modes: [RBAC, RBAC]":             "authorization.modes[1]: RBAC is there twice",
		"mode: AlwaysDeny, modes: [RBAC]": "exclude each other",
		"mode: Webhook":                   `"Webhook" is not RBAC, AlwaysAllow or AlwaysDeny`,
		"modes: [Webhook]":                "authorization.webhook.kubeconfigFile is missing",
		"modes: [ABAC]":                   "authorization.abac.policyFile is missing",
		"modes: [Webhook], webhook: {kubeconfigFile: /k}":                                          `failurePolicy: "" is not Deny or NoOpinion`,
		"modes: [Webhook], webhook: {kubeconfigFile: /k, failurePolicy: Ignore}":                   `failurePolicy: "Ignore"`,
		"modes: [Webhook], webhook: {kubeconfigFile: /k, failurePolicy: Deny, timeout: 31s}":       "authorization.webhook.timeout: 31s",
		"modes: [Webhook], webhook: {kubeconfigFile: /k, failurePolicy: Deny, timeout: 0}":         "authorization.webhook.timeout: 0s",
		"modes: [Webhook], webhook: {kubeconfigFile: /k, failurePolicy: Deny, authorizedTTL: -1s}": "must not be negative",
		"modes: [Webhook], webhook: {kubeconfigFile: /k, failurePolicy: Deny, authorisedTTL: 1s}":  "unknown key",
	} {
		_, err := config.Parse([]byte("authorization: {"+text+"}"), nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
