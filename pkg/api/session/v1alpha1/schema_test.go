package v1alpha1_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kapis.dev/ks-apiserver/pkg/api/internal/crdtest"
	"kapis.dev/ks-apiserver/pkg/api/session/v1alpha1"
)

const times = "createdAt: '2026-11-21T00:00:00Z', expiresAt: '2026-11-22T00:00:00Z'"

func TestSchema(t *testing.T) {
	crd := crdtest.Load(t, "sessions", "session.kapis.dev")
	for name, tc := range map[string]struct{ object, want string }{
		"Full": {"{spec: {user: bob, userUID: u, client: kubesphere, provider: ldap, scopes: [openid, email], credential: " +
			strings.Repeat("a", 64) + ", " + times +
			"}, refresh: {current: c, previous: p, rotatedAt: '2026-11-21T00:00:00Z', generation: 3}, lastUsedAt: '2026-11-21T00:00:00Z'}", ""},
		"InABrowserOfAProvider": {"{spec: {user: bob, provider: ldap, subject: 'cn=bob', parent: p, fromCode: true, sequence: 7, authenticatedAt: '2026-11-21T00:00:00Z', methods: [pwd, otp], " +
			"source: '::1', userAgent: x, " + times + "}, phase: Ended, groups: [a, b], upstream: {hint: h, refresh: r}, consents: [{client: c, scopes: [openid]}]}",
			""},
		"OfARegistration":     {"{spec: {user: 'system:pre-registration', userUID: 'registration:1', registration: {provider: p, subject: s, username: u, email: e, displayName: d}, " + times + "}}", ""},
		"RegistrationOfNone":  {"{spec: {user: x, registration: {provider: p}, " + times + "}}", "spec.registration.subject"},
		"UnknownPhase":        {"{spec: {user: bob, " + times + "}, phase: Alive}", "phase"},
		"ConsentTwice":        {"{spec: {user: bob, " + times + "}, consents: [{client: c}, {client: c}]}", "consents[1]"},
		"TooMuchFromUpstream": {"{spec: {user: bob, " + times + "}, upstream: {hint: " + strings.Repeat("a", 16385) + "}}", "upstream.hint"},
		"WithoutRefreshToken": {"{spec: {user: bob, " + times + "}}", ""},
		"OfNobody":            {"{spec: {user: '', " + times + "}}", "spec.user"},
		"WithoutEnd":          {"{spec: {user: bob, createdAt: '2026-11-21T00:00:00Z'}}", "spec.expiresAt"},
		"EndIsATime":          {"{spec: {user: bob, createdAt: '2026-11-21T00:00:00Z', expiresAt: never}}", "spec.expiresAt"},
		"ScopeTwice":          {"{spec: {user: bob, scopes: [a, a], " + times + "}}", "scopes[1]"},
		"NegativeGeneration":  {"{spec: {user: bob, " + times + "}, refresh: {generation: -1}}", "generation"},
		"NoRoomForATokenText": {"{spec: {user: bob, " + times + "}, refresh: {current: " + strings.Repeat("a", 129) + "}}", "refresh.current"},
		"WithoutSpec":         {"{}", "spec"},
	} {
		t.Run(name, func(t *testing.T) {
			obj := crdtest.Object(t, tc.object)
			obj["apiVersion"], obj["kind"], obj["metadata"] = "session.kapis.dev/v1alpha1", "Session", map[string]any{"name": "s"}
			crdtest.Expect(t, crd.Create(t, obj), tc.want)
			if pruned := crd.Pruned(t, obj); len(pruned) > 0 {
				t.Errorf("pruned: %v", pruned)
			}
		})
	}
}

// A zero time would be a null in JSON, which kube-apiserver refuses.
func TestWhatIsNotSetIsNotWritten(t *testing.T) {
	now := metav1.NewTime(time.Unix(1_800_000_000, 0))
	raw, err := json.Marshal(&v1alpha1.Session{Spec: v1alpha1.SessionSpec{User: "bob", CreatedAt: now, ExpiresAt: now}})
	if err != nil {
		t.Fatal(err)
	}
	for _, absent := range []string{"null", "refresh", "lastUsedAt", "scopes", "phase", "upstream", "consents", "groups", "registration", "authenticatedAt",
		"sequence"} {
		if strings.Contains(strings.ReplaceAll(string(raw), `"creationTimestamp":null`, ""), absent) {
			t.Errorf("%q in %s", absent, raw)
		}
	}
}
