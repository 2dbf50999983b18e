package identity

import (
	"flag"
	"testing"

	"kapis.dev/ks-apiserver/tools/rules"
)

// rulesFile is the table of the rules and of the tests that hold them. It is written by the tests.
const rulesFile = "../../../docs/rules.md"

var update = flag.Bool("update", false, "write "+rulesFile)

var held = rules.Table{
	File: rulesFile,
	Head: "# Rules of the login, and the tests that hold them\n\n" +
		"Written by `make test` (tools/e2e/identity, with -update): each test runs over HTTP against the real binary and a real\n" +
		"control plane, and a rule that no test holds fails the build.\n",
	Sections: table(),
}

// rule says that the test which calls it holds the rules, if it passes.
func rule(t *testing.T, ids ...string) {
	t.Helper()
	held.Hold(t, ids...)
}

// table lists every rule that this server holds where people log in.
func table() []rules.Section {
	return []rules.Section{
		{Name: "RFC 6749: the framework", Rules: []rules.Rule{
			{"T6749-1", "clients may authenticate by HTTP Basic, with form-encoded id and secret"},
			{"T6749-2", "a client secret in the URL is refused, and guessing is slowed down"},
			{"T6749-3", "one client authentication method per request"},
			{"T6749-4", "unknown parameters are ignored, empty ones omitted, duplicates refused"},
			{"T6749-5", "the authorization endpoint takes GET and POST"},
			{"T6749-6", "a missing or unknown response_type is an error redirect"},
			{"T6749-7", "redirect URIs are absolute, have no fragment, and keep their query"},
			{"T6749-8", "a redirect URI that is not registered is shown to the person, and never redirected to"},
			{"T6749-9", "the token endpoint is POST only"},
			{"T6749-10", "the scope that was granted is told where it differs"},
			{"T6749-11", "state comes back unchanged, with errors too"},
			{"T6749-12", "the authorization endpoint and consent are safe from request forgery"},
			{"T6749-13", "codes and tokens can't be guessed"},
			{"T6749-14", "codes are short-lived"},
			{"T6749-15", "codes are used once; a second use ends what the first one got"},
			{"T6749-16", "codes are bound to their client"},
			{"T6749-17", "the redirect URI of the redemption is that of the request"},
			{"T6749-18", "confidential clients authenticate, public ones say who they are"},
			{"T6749-19", "client credentials are for confidential clients, without refresh token"},
			{"T6749-20", "answers with tokens are never stored"},
			{"T6749-21", "errors have the codes of the RFC, and challenges"},
			{"T6749-22", "refresh tokens are bound to their client, and never widen the scope"},
			{"T6749-23", "the password grant is for first-party clients only"},
			{"T6749-24", "what comes from outside is sanitised"},
		}},
		{Name: "RFC 6750 and RFC 8725: bearer tokens and JWT", Rules: []rules.Rule{
			{"T6750-1", "one way to send a token per request"},
			{"T6750-2", "a token in the query opens nothing"},
			{"T6750-3", "401 carries a challenge, with an error only where a token was sent"},
			{"T6750-4", "400, 401 and 403 as the RFC says"},
			{"T8725-1", "one algorithm per key, and never none"},
			{"T8725-2", "keys are as strong as their algorithm"},
			{"T8725-3", "issuer, subject, audience and kind of each token are checked"},
		}},
		{Name: "RFC 7636: PKCE", Rules: []rules.Rule{
			{"T7636-1", "S256 is there"},
			{"T7636-2", "verifiers have 43 to 128 unreserved characters"},
			{"T7636-3", "plain is refused, and not advertised"},
			{"T7636-4", "a public client without a challenge is refused"},
			{"T7636-5", "a wrong verifier is invalid_grant"},
			{"T7636-6", "a code tells nothing"},
		}},
		{Name: "RFC 7009: revocation", Rules: []rules.Rule{
			{"T7009-1", "refresh and access tokens can be revoked, on all replicas"},
			{"T7009-2", "only by the client that they belong to"},
			{"T7009-3", "at once, and a refresh token takes its access tokens along"},
			{"T7009-4", "an unknown token is 200"},
			{"T7009-5", "a wrong hint prevents nothing"},
			{"T7009-6", "POST only"},
		}},
		{Name: "RFC 7662: introspection", Rules: []rules.Rule{
			{"T7662-1", "the caller is a client that proves itself"},
			{"T7662-2", "a token that is not active tells nothing more"},
			{"T7662-3", "every check of a token counts"},
			{"T7662-4", "a form in, JSON out"},
			{"T7662-5", "TokenReview says authenticated: false of a bad token"},
		}},
		{Name: "RFC 8414 and OpenID Connect Discovery", Rules: []rules.Rule{
			{"T8414-1", "one issuer, the same everywhere"},
			{"T8414-2", "both documents are served"},
			{"T8414-3", "the documents have their required members, and no empty lists"},
			{"T8414-4", "what is advertised works, and what works is advertised"},
			{"TDisc-1", "the required members of OpenID Connect"},
			{"TDisc-2", "keys are public, unique, and rotate without a failed verification; an old key verifies for as long as the longest session lasts " +
				"(TestKeysRotateUnderLoadWithoutAFailedVerification)"},
		}},
		{Name: "RFC 9700: best current practice", Rules: []rules.Rule{
			{"T9700-1", "redirect URIs match exactly; only a loopback port may differ"},
			{"T9700-2", "no open redirector"},
			{"T9700-3", "a challenge that was given is enforced"},
			{"T9700-4", "no PKCE downgrade"},
			{"T9700-5", "public clients use PKCE"},
			{"T9700-6", "no implicit grant"},
			{"T9700-7", "the password grant can be switched off, and is counted"},
			{"T9700-8", "access tokens have an audience, and open the API only for clients that may have it"},
			{"T9700-9", "refresh tokens rotate, reuse ends the family, with a grace"},
			{"T9700-10", "http redirect URIs are refused except on loopback"},
			{"T9700-11", "no CORS on the authorization endpoint"},
			{"T9700-12", "never 307 after a form with credentials"},
			{"T9700-13", "identity headers from outside are dropped"},
			{"T9700-14", "pages can't be framed"},
			{"T9700-15", "a client is never taken for a user"},
			{"T9700-16", "several upstream providers can't be mixed up"},
			{"T9700-17", "upstream logins are bound to their browser"},
		}},
		{Name: "RFC 8628: devices", Rules: []rules.Rule{
			{"T8628-1", "the answer has what the RFC wants"},
			{"T8628-2", "a device code is bound to its client, and used once"},
			{"T8628-3", "pending, slow down, denied and expired"},
			{"T8628-4", "user codes are easy to type and hard to guess"},
			{"T8628-5", "device codes are secret and long"},
			{"T8628-6", "a person always confirms the client and the code"},
			{"T8628-7", "advertised, and nothing is stored for an anonymous request"},
		}},
		{Name: "OpenID Connect Core 1.0", Rules: []rules.Rule{
			{"TCore-1", "ID tokens have their claims; the subject is stable and never used again"},
			{"TCore-2", "RS256, and not none"},
			{"TCore-3", "GET and POST, the scope openid, unknown parameters ignored"},
			{"TCore-4", "prompt and max_age"},
			{"TCore-5", "request and request_uri are refused, and never fetched"},
			{"TCore-6", "display, ui_locales, claims_locales and acr_values are accepted"},
			{"TCore-7", "the token answer has an ID token"},
			{"TCore-8", "no ID token by the front channel"},
			{"TCore-9", "userinfo by GET and POST, with the subject of the ID token"},
			{"TCore-10", "scopes give their claims"},
			{"TCore-11", "a refreshed ID token keeps who and when"},
			{"TCore-12", "upstream ID tokens are verified in full"},
		}},
		{Name: "OpenID Connect RP-Initiated Logout 1.0", Rules: []rules.Rule{
			{"TLogout-1", "GET and POST, advertised"},
			{"TLogout-2", "a hint of ours counts, expired or not, and has to fit the client"},
			{"TLogout-3", "redirects go to registered addresses only, and with a proof only"},
			{"TLogout-4", "without a proof the person is asked"},
			{"TLogout-5", "state comes back"},
			{"TLogout-6", "logout ends all tokens everywhere, and upstream"},
		}},
		{Name: "RFC 9207 and RFC 9068: iss, and JWT access tokens", Rules: []rules.Rule{
			{"T9207-1", "iss in every authorization response"},
			{"T9207-2", "and advertised"},
			{"T9207-3", "and compared upstream"},
			{"T9068-1", "access tokens are signed, of type at+jwt"},
			{"T9068-2", "with their claims"},
			{"T9068-3", "and nothing else is taken for one"},
			{"T9068-4", "their audience is what was asked for, or the default"},
			{"T9068-5", "rights and groups are read fresh"},
		}},
		{Name: "Tokens", Rules: []rules.Rule{
			{"S26", "expired and wrongly signed is refused"},
			{"S27", "a long token costs nothing"},
			{"S28", "a token chooses neither key nor algorithm"},
			{"S29", "a crafted token is nobody where anonymous requests are allowed"},
			{"S30", "audiences are checked, upstream too"},
			{"S31", "no weak or default secret"},
			{"S32", "one kind of token is not taken for another"},
			{"S33", "another issuer's tokens are refused"},
			{"S34", "no token is beyond revocation"},
			{"S35", "what is random is random: of a million values none comes twice (TestAMillionOfWhatIsRandom), and user codes, which " +
				"people type, no more often than by chance (TestAMillionUserCodes)"},
			{"S36", "revocation holds on every replica, and survives a restart"},
			{"S37", "disabled, deleted and made-again users are out"},
		}},
		{Name: "OAuth, OIDC and LDAP logins", Rules: []rules.Rule{
			{"S38", "a login is bound to the browser that began it"},
			{"S39", "codes can't be injected"},
			{"S40", "no open redirect"},
			{"S41", "upstream callbacks can't be forged"},
			{"S42", "pages can't be framed or forged"},
			{"S43", "state, nonce and verifier are long"},
			{"S44", "PKCE is enforced"},
			{"S45", "upstream signatures are verified, and userinfo compared"},
			{"S46", "no LDAP injection, empty bind or plain text"},
			{"S47", "guessing passwords is limited, on all replicas and after a restart; a million made-up names reset no count " +
				"(TestMadeUpNamesResetNothingAndWriteNothing)"},
			{"S48", "CAS answers are parsed strictly"},
			{"S49", "TLS stays as configured after a reload"},
			{"S50", "nobody learns which accounts exist"},
			{"S71", "wrong passwords of a stranger lock nobody out of the console, as shipped"},
			{"S73", "a sensitive step asks the identity provider for a fresh login, and verifies that it was one"},
		}},
	}
}

// checkTable writes the table of the document, or says what is wrong with it, after all tests have passed.
func checkTable() error {
	if *update {
		return held.Write()
	}
	return held.Check()
}
