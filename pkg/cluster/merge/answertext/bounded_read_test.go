package answertext_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"kapis.dev/ks-apiserver/pkg/cluster/merge/answertext"
)

// F17, F22, F38: the text of an answer is what was sent, and where its cluster says another length, or it is cut off, that is known at its end; no more of
// it is read than is of use.
func TestTheTextOfAnAnswerIsWhatWasSent(t *testing.T) {
	text := strings.Repeat("0123456789", 1000)
	for _, length := range []int64{-1, 0, 1, 9_999, 10_000, 10_001, 1 << 40} {
		for how, in := range map[string]io.Reader{
			"AtOnce": strings.NewReader(text), "ByteByByte": iotest.OneByteReader(strings.NewReader(text)),
			"WithItsEnd": iotest.DataErrReader(strings.NewReader(text)),
		} {
			resp := &http.Response{ContentLength: length, Body: io.NopCloser(in)}
			got, err := answertext.Text(resp, 1<<20, nil)
			if err != nil || got != text[:len(got)] || (answertext.End(resp) == nil) != (got == text) {
				t.Errorf("%s, said to have %d bytes: %d bytes, %v", how, length, len(got), err)
			}
		}
		endless := io.MultiReader(strings.NewReader(text), neverEnds{})
		resp := &http.Response{ContentLength: length, Body: io.NopCloser(endless)}
		if got, err := answertext.Text(resp, 20_000, nil); err != nil || len(got) != 20_001 && (int64(len(got)) != length || answertext.End(resp) == nil) {
			t.Errorf("one that does not end, said to have %d bytes: %d bytes, %v", length, len(got), err)
		}
	}
	for _, length := range []int64{-1, 9_999, 10_000, 10_001} {
		cut := io.MultiReader(strings.NewReader(text), iotest.ErrReader(errors.New("cut")))
		resp := &http.Response{ContentLength: length, Body: io.NopCloser(cut)}
		if got, err := answertext.Text(resp, 1<<20, nil); err == nil && answertext.End(resp) == nil {
			t.Errorf("one that is cut off, said to have %d bytes: %d bytes", length, len(got))
		}
	}
}

// neverEnds is a body without an end.
type neverEnds struct{}

func (neverEnds) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
