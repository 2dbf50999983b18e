package v1alpha1_test

import (
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/api/internal/crdtest"
)

func TestSchemasOfWhatPeopleLogInWith(t *testing.T) {
	hash, key := strings.Repeat("a", 64), strings.Repeat("b", 16)
	at := "'2026-11-21T00:00:00Z'"
	for name, tc := range map[string]struct{ plural, kind, object, want string }{
		"Key": {"apikeys", "APIKey", "{spec: {user: bob, userUID: u, description: ci, hash: " + hash + ", " + times + "}, lastUsedAt: " + at + "}",
			""},
		"KeyWithASecret": {"apikeys", "APIKey", "{spec: {user: bob, userUID: u, hash: secret, " + times + "}}", "spec.hash"},
		"KeyWithoutEnd":  {"apikeys", "APIKey", "{spec: {user: bob, userUID: u, hash: " + hash + ", createdAt: " + at + "}}", "spec.expiresAt"},
		"KeyOfNobody":    {"apikeys", "APIKey", "{spec: {userUID: u, hash: " + hash + ", " + times + "}}", "spec.user"},
		"Lockout": {"lockouts", "Lockout", "{spec: {user: bob, failures: [{key: " + key + ", count: 2, since: " + at +
			"}], guesses: {count: 2, since: " + at + "}, known: [{place: " + key + ", at: " + at + "}]}}", ""},
		"LockoutWithAnAddress": {"lockouts", "Lockout", "{spec: {user: bob, known: [{place: 192.0.2.1, at: " + at + "}]}}", "place"},
		"LockoutBelowZero":     {"lockouts", "Lockout", "{spec: {user: bob, codes: {count: -1}}}", "count"},
		"Factor": {"factors", "Factor", "{spec: {user: bob, totp: {secret: s, sealedAt: " + at + ", confirmedAt: " + at +
			", lastStep: 7}, recovery: [" + hash + "], passkeys: [{id: i, credential: '{}', createdAt: " + at + "}]}}", ""},
		"FactorWithACode":   {"factors", "Factor", "{spec: {user: bob, recovery: [abcd-efgh]}}", "recovery"},
		"FactorSealedNever": {"factors", "Factor", "{spec: {user: bob, totp: {secret: s, confirmedAt: " + at + "}}}", "sealedAt"},
	} {
		t.Run(name, func(t *testing.T) {
			crd := crdtest.Load(t, tc.plural, "session.kapis.dev")
			obj := crdtest.Object(t, tc.object)
			obj["apiVersion"], obj["kind"], obj["metadata"] = "session.kapis.dev/v1alpha1", tc.kind, map[string]any{"name": "s"}
			crdtest.Expect(t, crd.Create(t, obj), tc.want)
			if pruned := crd.Pruned(t, obj); len(pruned) > 0 {
				t.Errorf("pruned: %v", pruned)
			}
		})
	}
}
