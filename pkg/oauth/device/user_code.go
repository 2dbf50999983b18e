package device

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"net/http"
	"strings"
	"time"

	"kapis.dev/ks-apiserver/pkg/oauth/browser"
	"kapis.dev/ks-apiserver/pkg/oauth/client"
	"kapis.dev/ks-apiserver/pkg/oauth/protocol"
	"kapis.dev/ks-apiserver/pkg/oauth/ratelimit"
	"kapis.dev/ks-apiserver/pkg/token"
)

// A user code is what a user types to approve a device (RFC 8628, 6.1). Nothing is stored for it, since the device has not logged
// in, so the code itself identifies the client:
//
//	LLL RRRR RRRR C     three letters for the client, eight random ones, one that checks the others
//
// How hard it is to guess (RFC 8628, 5.1): the eight letters have 8 * log2(20) = 34.6 bits. A user who is logged in has ten wrong
// codes in ten minutes (GuessesAtOnce), which is as long as a code lives; the check letter is a MAC, so 19 of 20 guesses are
// wrong codes, and ten of them contain 0.5 guesses that pass. While n devices of a client wait, one of these is in use with
// probability n * 0.5 / 20^8 = n * 2e-11. The gain would be a device that is logged in as the user who guessed.
const (
	randomLetters  = 8
	userCodeLength = client.UserCodePrefixLength + randomLetters + 1
)

const purposeUserCode token.Purpose = "user code"

// UserCodes makes and checks user codes.
type UserCodes struct {
	Keys token.KeySource
	Now  func() time.Time
}

// New returns a new code for the client with a name; "" if no key is valid now.
func (u *UserCodes) New(name string) string {
	code := client.UserCodePrefix(name) + randomText(randomLetters)
	if sums := u.Keys.KeySet().MACs(purposeUserCode, code, u.Now()); len(sums) > 0 {
		return code + client.EncodeLetters(sums[0], 1)
	}
	return ""
}

// Parse returns the code that a user typed, without regard to case, dashes and spaces. ok reports whether its check letter is right.
func (u *UserCodes) Parse(typed string) (code string, ok bool) {
	if len(typed) > 4*userCodeLength {
		return "", false
	}
	typed = strings.ToUpper(strings.Map(func(r rune) rune {
		switch r {
		case '-', '\u2010', '\u2011', '\u2013', ' ', '\t', '\u00a0': // characters that keyboards and clipboards produce for a dash or a blank
			return -1
		}
		return r
	}, typed))
	if len(typed) != userCodeLength || strings.Trim(typed, client.UserCodeLetters) != "" {
		return "", false
	}
	body, check := typed[:userCodeLength-1], typed[userCodeLength-1:]
	for _, sum := range u.Keys.KeySet().MACs(purposeUserCode, body, u.Now()) {
		ok = client.EncodeLetters(sum, 1) == check || ok
	}
	return typed, ok
}

// randomText returns n random letters, each with the same probability.
func randomText(n int) string {
	out := make([]byte, 0, n)
	for len(out) < n {
		var b [16]byte
		_, _ = rand.Read(b[:]) // never fails (crypto/rand)
		for _, c := range b {
			if c < 240 && len(out) < n { // 240 is the largest multiple of 20 that a byte has
				out = append(out, client.UserCodeLetters[int(c)%len(client.UserCodeLetters)])
			}
		}
	}
	return string(out)
}

// display returns a code as users see it.
func display(code string) string { return code[:4] + "-" + code[4:8] + "-" + code[8:] }

// deviceSession returns the name of the session that waits for the device with a code.
func deviceSession(code string) string {
	sum := sha256.Sum256([]byte("kapis.dev device session 1\x00" + code))
	return strings.ToLower(base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:20]))
}

// How many wrong codes a user may type at once, and the pause until the next one.
const (
	GuessesAtOnce = 10
	GuessPause    = time.Minute
)

// TryUserCode looks up a code that a user typed. Wrong codes are counted by user, in all browsers; beyond the limit a right one is
// refused too, since codes are short. Other users with the same address are not affected.
func (h *Handler) TryUserCode(b *browser.Login, typed string) (string, *client.Client, []string, error) {
	key := ratelimit.Key{Kind: ratelimit.UserCode, Name: b.User.UID}
	if h.Limit.Exhausted(key, h.Now()) {
		return "", nil, nil, &protocol.Error{Code: http.StatusTooManyRequests, Name: protocol.SlowDown, RetryAfter: GuessPause,
			Description: "Too many wrong codes; try again in a few minutes."}
	}
	code, c, scopes, err := h.lookUp(typed)
	if err != nil {
		h.Limit.Failed(key, h.Now())
	}
	return code, c, scopes, err
}
