package terminal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"kapis.dev/ks-apiserver/pkg/rawjson"
)

// The operations of frames. A client that sends another one is of a later version: it is ignored.
const (
	opStdin  = "stdin"
	opResize = "resize"
	opStdout = "stdout"
	opToast  = "toast"
)

const (
	// maxFrame bounds a frame of the client, in bytes.
	maxFrame = 64 << 10
	// maxOutput is how much output one frame to the client has, in bytes before they are encoded.
	maxOutput = 32 << 10
	// maxSide bounds the columns and the rows of a terminal.
	maxSide = 1000
)

// frame is one that a client sent.
type frame struct {
	Op   string          `json:"Op"`
	Data json.RawMessage `json:"Data"`
	Cols json.Number     `json:"Cols"`
	Rows json.Number     `json:"Rows"`
}

var errFrame = errors.New("a frame is not JSON as in {\"Op\":\"stdin\",\"Data\":\"ls\\r\"}")

// decoder reads the frames of a client.
type decoder struct {
	// half is the first half of a character that JSON writes as two escapes (RFC 8259, 7), at the end of the last input. A client may cut a
	// text between them.
	half string
}

// decode returns the input or the size in a frame; the other one is empty or nil.
func (d *decoder) decode(raw []byte) (input []byte, size *Size, err error) {
	if !utf8.Valid(raw) { // RFC 6455, 8.1
		return nil, nil, errors.New("a frame is not valid UTF-8")
	}
	var f frame
	if err := json.Unmarshal(raw, &f); err != nil {
		return nil, nil, errFrame // json's own error may have a part of what was typed
	}
	switch f.Op {
	case opStdin:
		input, err = d.input(f.Data)
		return input, nil, err
	case opResize:
		return nil, sizeOf(f), nil
	}
	return nil, nil, nil
}

// input returns the text of a JSON string.
func (d *decoder) input(raw json.RawMessage) ([]byte, error) {
	if len(raw) == 0 || bytes.Equal(raw, []byte("null")) {
		return nil, nil
	}
	if raw[0] != '"' {
		return nil, errFrame
	}
	inner := raw[1 : len(raw)-1]
	whole := slices.Concat([]byte{'"'}, []byte(d.half), inner)
	d.half = ""
	if half := trailingHalf(whole[1:]); half != "" {
		whole, d.half = whole[:len(whole)-len(half)], half
	}
	var text string
	if err := json.Unmarshal(append(whole, '"'), &text); err != nil {
		return nil, errFrame
	}
	return []byte(text), nil
}

const escapeLength = len(`\ud83d`)

// trailingHalf returns the escape at the end of the inside of a JSON string that is the first half of a character (a high
// surrogate), or "".
func trailingHalf(s []byte) string {
	if len(s) < escapeLength {
		return ""
	}
	end := s[len(s)-escapeLength:]
	if end[0] != '\\' || end[1] != 'u' || end[2]|0x20 != 'd' || !bytes.ContainsRune([]byte("89abAB"), rune(end[3])) {
		return ""
	}
	before := s[:len(s)-escapeLength]
	if slashes := len(before) - len(bytes.TrimRight(before, `\`)); slashes%2 == 1 {
		return "" // the backslash is itself escaped
	}
	return string(end)
}

// sizeOf returns the size in a frame, or nil if no terminal can have it: pages send 0 while they are hidden.
func sizeOf(f frame) *Size {
	cols, errCols := f.Cols.Int64()
	rows, errRows := f.Rows.Int64()
	if errCols != nil || errRows != nil || cols < 1 || rows < 1 || cols > maxSide || rows > maxSide {
		return nil
	}
	return &Size{Width: uint16(cols), Height: uint16(rows)}
}

// encoder writes the frames for a client.
type encoder struct {
	cut []byte // the beginning of a character whose rest has not arrived
	buf []byte
}

// encode returns the frame with output, which is valid until the next call; nil if there is nothing to send yet. A character that is cut
// waits for its rest. What is not UTF-8 becomes U+FFFD, since a text message can't carry it (RFC 6455, 5.6).
func (e *encoder) encode(output []byte) []byte {
	if len(e.cut) > 0 {
		output = append(e.cut, output...)
		e.cut = nil
	}
	if n := CutRune(output); n > 0 {
		e.cut = slices.Clone(output[len(output)-n:])
		output = output[:len(output)-n]
	}
	if len(output) == 0 {
		return nil
	}
	return e.frame(opStdout, output)
}

// rest returns the frame with what still waits for its rest at the end of the output, or nil.
func (e *encoder) rest() []byte {
	if len(e.cut) == 0 {
		return nil
	}
	cut := e.cut
	e.cut = nil
	return e.frame(opStdout, cut)
}

// frame returns a frame, which is valid until the next call.
func (e *encoder) frame(op string, text []byte) []byte {
	e.buf = fmt.Appendf(e.buf[:0], `{"Op":%q,"Data":`, op)
	e.buf = append(rawjson.AppendString(e.buf, string(text)), '}')
	return e.buf
}

// CutRune returns how many bytes at the end of p are the beginning of a character.
func CutRune(p []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(p); n++ {
		if last := p[len(p)-n:]; utf8.RuneStart(last[0]) {
			if utf8.FullRune(last) {
				return 0
			}
			return n
		}
	}
	return 0
}
