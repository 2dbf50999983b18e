package identity

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
)

func TestChallengesAreS256(t *testing.T) {
	rule(t, "T7636-1", "T7636-3")
	b := here(t)
	for _, c := range []client{harbor, desk} {
		q := c.ask()
		q.redeem(t, q.code(t, b)).tokens(t)
		for name, change := range map[string][]string{
			"Plain":           {"code_challenge_method", "plain"},
			"PlainByDefault":  {"code_challenge_method", ""},
			"Unknown":         {"code_challenge_method", "S512"},
			"InSmallLetters":  {"code_challenge_method", "s256"},
			"NoHash":          {"code_challenge", "short"},
			"Padded":          {"code_challenge", challenge(random()) + "="},
			"InHexadecimal":   {"code_challenge", strings.Repeat("ab", 32)},
			"InOtherLetters":  {"code_challenge", strings.Repeat("+/", 21) + "A"},
			"TooLong":         {"code_challenge", challenge(random()) + "AAAA"},
			"MethodOfNothing": {"code_challenge", ""},
		} {
			t.Run(c.ID+"/"+name, func(t *testing.T) {
				q := c.ask(change...)
				storesNothing(t, func() { q.refused(t, b.open(t, q.address()), "invalid_request") })
			})
		}
	}
	methods, _ := get(t, "/.well-known/oauth-authorization-server", "").object()["code_challenge_methods_supported"].([]any)
	if len(methods) != 1 || methods[0] != "S256" {
		t.Errorf("advertised %v", methods)
	}
}

func TestVerifiers(t *testing.T) {
	rule(t, "T7636-2", "T7636-5", "T9700-3", "T9700-4")
	b := here(t)
	const unreserved = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
	long := strings.Repeat(unreserved, 2)
	for _, c := range []client{harbor, desk} {
		for name, v := range map[string]struct {
			verifier string // whose challenge is sent
			sent     string // in its place; "-" for none
			failed   string
		}{
			"TheShortest":      {verifier: long[:43]},
			"TheLongest":       {verifier: long[:128]},
			"EveryCharacter":   {verifier: unreserved},
			"TooShort":         {verifier: long[:42], failed: "invalid_request"},
			"TooLong":          {verifier: long[:129], failed: "invalid_request"},
			"ASpace":           {verifier: long[:43] + " ", failed: "invalid_request"},
			"APlus":            {verifier: long[:43] + "+", failed: "invalid_request"},
			"ALetterOfAnother": {verifier: long[:43] + "é", failed: "invalid_request"},
			"AnotherOne":       {verifier: long[:43], sent: long[1:44], failed: "invalid_grant"},
			"InOtherCase":      {verifier: long[:43], sent: strings.ToLower(long[:43]), failed: "invalid_grant"},
			"TheChallenge":     {verifier: long[:43], sent: challenge(long[:43]), failed: "invalid_grant"},
			"None":             {verifier: long[:43], sent: "-", failed: "invalid_grant"},
		} {
			t.Run(c.ID+"/"+name, func(t *testing.T) {
				q := c.ask("code_challenge", challenge(v.verifier))
				q.verifier = v.verifier
				code := q.code(t, b)
				sent := v.verifier
				switch v.sent {
				case "":
				case "-":
					sent = ""
				default:
					sent = v.sent
				}
				if v.failed == "" {
					q.redeem(t, code).tokens(t)
					return
				}
				storesNothing(t, func() { q.redeem(t, code, "code_verifier", sent).fails(t, 400, v.failed) })
				if v.sent != "" {
					q.redeem(t, code).tokens(t)
				}
			})
		}
	}
	t.Run("AVerifierWithoutAChallenge", func(t *testing.T) { // somebody has cut it out of the request
		q := harbor.withoutProof()
		code := q.code(t, b)
		storesNothing(t, func() { q.redeem(t, code, "code_verifier", q.verifier).fails(t, 400, "invalid_grant") })
		q.redeem(t, code).tokens(t) // a client with a secret may do without
	})
}

func TestPublicClientsProveTheirCodes(t *testing.T) {
	rule(t, "T7636-4", "T9700-5")
	public := newClient(t, client{ID: "public"})
	for _, c := range []client{desk, public} {
		for _, b := range []*browser{here(t), newBrowser(t)} {
			q := c.withoutProof()
			storesNothing(t, func() {
				q.refused(t, b.open(t, q.address()), "invalid_request")
				q.refused(t, b.post(t, "/oauth/authorize", q.params), "invalid_request")
			})
		}
	}
}

func TestACodeTellsNothing(t *testing.T) {
	rule(t, "T7636-6")
	q := harbor.ask("state", "a-state-to-be-found", "nonce", "a-nonce-to-be-found")
	code := q.code(t, here(t))
	decoded := code
	for part := range strings.FieldsFuncSeq(code, func(r rune) bool { return r == '.' || r == '~' }) {
		for _, e := range []*base64.Encoding{base64.RawURLEncoding, base64.RawStdEncoding} {
			if raw, err := e.DecodeString(part); err == nil {
				decoded += string(raw)
			}
		}
	}
	sum, err := base64.RawURLEncoding.DecodeString(q.params.Get("code_challenge"))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{q.params.Get("code_challenge"), string(sum), q.verifier, alice, uidOf(t, alice), harbor.ID, "harbor.example", "a-nonce",
		"a-state", "openid", `":"`} { // random bytes have none of these in as many runs as there will be
		if strings.Contains(decoded, text) {
			t.Errorf("the code tells %q", text)
		}
	}
	if other := q.code(t, here(t)); other == code {
		t.Error("the same request gets the same code")
	}
	// The code comes in the query of a redirection, which nobody keeps.
	p := here(t).open(t, q.address())
	if p.header.Get("Cache-Control") != "no-store" || p.status != http.StatusFound && p.status != http.StatusSeeOther {
		t.Errorf("%d %v", p.status, p.header)
	}
}
