package oauth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"net/http"
	"strings"
	"time"

	"kapis.dev/ks-apiserver/pkg/token"
)

// A user code is what a person types to let a device in (RFC 8628, 6.1). Nothing is stored for it (no write for anybody who has
// not logged in), so it says by itself whose it is:
//
//	LLL RRRR RRRR C     three letters for the client, eight random ones, one that checks the others
//
// How hard it is to guess (RFC 8628, 5.1): the eight letters have 8 * log2(20) = 34.6 bits. Somebody who is logged in has ten wrong
// codes in ten minutes (guessesAtOnce, below), which is as long as a code lives; the check letter is a MAC, so 19 of 20 guesses are
// wrong codes, and with ten of them he makes 0.5 guesses that pass. While n devices of a client wait, one of these is somebody's
// with probability n * 0.5 / 20^8 = n * 2e-11. What he could win is a device that is logged in as himself.
const (
	userCodeLetters = "BCDFGHJKLMNPQRSTVWXZ"
	clientLetters   = 3
	randomLetters   = 8
	userCodeLength  = clientLetters + randomLetters + 1
)

const purposeUserCode token.Purpose = "user code"

// newUserCode makes a code for a client; "" where no key is good now.
func (s *Server) newUserCode(client string) string {
	code := lettersOf(client) + randomText(randomLetters)
	if sums := s.Keys.KeySet().MACs(purposeUserCode, code, s.Now()); len(sums) > 0 {
		return code + letters(sums[0], 1)
	}
	return ""
}

// userCode returns a code as it was made, of what a person has typed: case, dashes and spaces do not count. ok says whether it
// may be one of ours.
func (s *Server) userCode(typed string) (code string, ok bool) {
	if len(typed) > 4*userCodeLength {
		return "", false
	}
	typed = strings.ToUpper(strings.Map(func(r rune) rune {
		switch r {
		case '-', '\u2010', '\u2011', '\u2013', ' ', '\t', '\u00a0': // what keyboards and clipboards make of a dash or a blank
			return -1
		}
		return r
	}, typed))
	if len(typed) != userCodeLength || strings.Trim(typed, userCodeLetters) != "" {
		return "", false
	}
	body, check := typed[:userCodeLength-1], typed[userCodeLength-1:]
	for _, sum := range s.Keys.KeySet().MACs(purposeUserCode, body, s.Now()) {
		ok = letters(sum, 1) == check || ok
	}
	return typed, ok
}

// lettersOf are the letters of a client. They say which client it is, and keep nothing secret.
func lettersOf(client string) string {
	sum := sha256.Sum256([]byte("kapis.dev user code 1\x00" + client))
	return letters(sum[:], clientLetters)
}

// letters makes n letters of a hash. The bias of one in 2^59 does not matter.
func letters(sum []byte, n int) string {
	v := binary.BigEndian.Uint64(sum)
	out := make([]byte, n)
	for i := range out {
		out[i] = userCodeLetters[v%uint64(len(userCodeLetters))]
		v /= uint64(len(userCodeLetters))
	}
	return string(out)
}

// randomText returns n random letters, each with the same probability.
func randomText(n int) string {
	out := make([]byte, 0, n)
	for len(out) < n {
		var b [16]byte
		_, _ = rand.Read(b[:]) // never fails (crypto/rand)
		for _, c := range b {
			if c < 240 && len(out) < n { // 240 is the largest multiple of 20 that a byte has
				out = append(out, userCodeLetters[int(c)%len(userCodeLetters)])
			}
		}
	}
	return string(out)
}

// display is how a code is shown to people.
func display(code string) string { return code[:4] + "-" + code[4:8] + "-" + code[8:] }

// deviceSession is the name of the session that waits for the device of a code.
func deviceSession(code string) string {
	sum := sha256.Sum256([]byte("kapis.dev device session 1\x00" + code))
	return strings.ToLower(base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:20]))
}

// The wrong codes of one person.
const (
	guessesAtOnce = 10
	guessPause    = time.Minute // until one more is free
)

// tryUserCode is deviceRequest for what a person types. Wrong codes are counted for him, in whichever browser and at whichever address he is; codes
// are too short for a right one to pass in spite of them. Others, who may share his address, are not held up.
func (s *Server) tryUserCode(b *browser, typed string) (string, *Client, []string, error) {
	key := limitKey{what: guessedCode, name: b.user.UID}
	if s.codeGuesses.exhausted(key, s.Now()) {
		return "", nil, nil, &Error{Code: http.StatusTooManyRequests, Name: slowDown, RetryAfter: guessPause,
			Description: "Too many wrong codes; try again in a few minutes."}
	}
	code, c, scopes, err := s.deviceRequest(typed)
	if err != nil {
		s.codeGuesses.failed(key, s.Now())
	}
	return code, c, scopes, err
}
